/* Any text that an agent may give to vm:pyautogui: what is read of it lies within it or in the arena, and is text. */
/* needs: src/tool/pyscript.c */
/* libs: -lm */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tool/pyscript.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static size_t walk(const struct py_value *v, int depth)
{
    size_t sum = 0;

    if (depth > 2 * PY_DEPTH_MAX)
        abort();
    for (size_t i = 0; i < v->n; i++)
        sum += walk(&v->items[i], depth + 1);
    for (size_t i = 0; i < v->s.n; i++)
        sum += (unsigned char)v->s.p[i];
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena a = { 0 };
    struct py_call *calls = NULL;
    size_t count = 0, sum = 0;
    struct err e;
    char *exact = malloc(n ? n : 1);

    memcpy(exact, data, n);
    if (py_parse(&a, (struct str){ exact, n }, &calls, &count, &e) == 0)
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < calls[i].n; k++)
                sum += walk(&calls[i].args[k].value, 0);
    arena_done(&a);
    free(exact);
    return sum == SIZE_MAX;
}
