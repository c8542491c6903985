#include "base/word.h"

#include <stddef.h>
#include <string.h>

char *word_next(char **rest)
{
    char *in = *rest ? *rest + strspn(*rest, " \t\r\n") : "";
    char *word = in, *out = in;

    if (!*in)
        return NULL;
    for (; *in && !strchr(" \t\r\n", *in); in++) {
        char *end = *in == '"' || *in == '\'' ? strchr(in + 1, *in) : in;
        if (!end) {
            *rest = NULL;
            return NULL;
        }
        if (end == in) {
            *out++ = *in;
            continue;
        }
        memmove(out, in + 1, (size_t)(end - in - 1));
        out += end - in - 1;
        in = end;
    }
    *rest = in + (*in != 0);
    *out = 0;
    return word;
}
