/* Scope-bound resources: declare with an empty value, return early, the compiler releases. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define AUTO(cleaner) __attribute__((cleanup(cleaner)))
#define auto_free     AUTO(auto_freep)
#define auto_close    AUTO(auto_closep)

/* Give the resource away: the variable becomes empty, so its cleaner does nothing. */
#define TAKE_PTR(p)                                                                                                    \
    ({                                                                                                                 \
        __typeof__(p) taken_ = (p);                                                                                    \
        (p) = NULL;                                                                                                    \
        taken_;                                                                                                        \
    })
#define TAKE_FD(fd)                                                                                                    \
    ({                                                                                                                 \
        int taken_ = (fd);                                                                                             \
        (fd) = -1;                                                                                                     \
        taken_;                                                                                                        \
    })

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline void auto_freep(void *pp)
{
    free(*(void **)pp);
}
static inline void auto_closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
