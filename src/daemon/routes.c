/* `sandglass routes`: every route that the port has, for tests that walk them. */
#include "base/json.h"
#include "daemon/daemon.h"
#include "surface/surface.h"

static void print(void *arg, const char *method, const char *pattern, const char *access)
{
    FILE *out = arg;
    struct buf b;
    struct jw w = { .out = &b };

    buf_init(&b, 4096);
    jw_obj(&w);
    jw_kz(&w, "method", method);
    jw_kz(&w, "path", pattern);
    jw_kz(&w, "access", access);
    jw_obj_end(&w);
    fprintf(out, "%.*s\n", (int)b.n, b.p);
    buf_done(&b);
}

void routes_print(FILE *out)
{
    surfaces_each_route(print, out);
}
