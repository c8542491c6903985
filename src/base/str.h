/* A borrowed run of bytes. It may contain NUL and is not terminated; p == NULL means "absent". */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct str {
    const char *p;
    size_t n;
};

/* Lists that parameters and results use; their memory belongs to an arena. */
struct strs {
    struct str *v;
    size_t n;
};
struct pair {
    struct str name, value;
};
struct pairs {
    struct pair *v;
    size_t n;
};
struct rows {
    void *v;
    size_t n;
};

#define STR(lit)   ((struct str){ (lit), sizeof(lit) - 1 })
#define STR_ARG(s) (int)(s).n, (s).p ? (s).p : "" /* for "%.*s" */

static inline struct str str_of(const char *z)
{
    return (struct str){ z, z ? strlen(z) : 0 };
}
static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool str_is(struct str a, const char *z)
{
    return str_eq(a, str_of(z));
}
