/* Backends in shared objects: the same rows as ours, compiled elsewhere. Their run() is called in serve's loop and must
 * not block; what takes time belongs into an extension. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "session/extension.h"

static int load(const char *path, struct err *e)
{
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!so)
        return err_set(e, ERR_INVALID, "plugins: %s", dlerror());
    const struct backend *(*get)(void) = (const struct backend *(*)(void))dlsym(so, "sandglass_backend");
    const struct backend *b = get ? get() : NULL;
    if (!b || !b->name || !b->tools)
        return err_set(e, ERR_INVALID, "plugins: %s exports no sandglass_backend() that returns a backend", path);
    if (backend_find(str_of(b->name)))
        return err_set(e, ERR_EXISTS, "plugins: %s: there is a backend '%s' already", path, b->name);
    for (size_t i = 0; i < b->tool_count; i++)
        if (!b->tools[i].run || (b->tools[i].flags & TOOL_NEEDS_BOX))
            return err_set(e, ERR_INVALID, "plugins: %s: %s has no run(): a plug-in's tools run in the server", path,
                           b->tools[i].name);
    backend_put(b);
    log_info("plug-in loaded", "file=%s backend=%s tools=%zu", path, b->name, b->tool_count);
    return 0;
}

int plugins_load(const char *paths, struct err *e)
{
    char path[4096];

    for (const char *p = paths; *p;) {
        size_t n = strcspn(p, ":");
        if (n && n < sizeof path) {
            memcpy(path, p, n);
            path[n] = 0;
            int r = load(path, e);
            if (r < 0)
                return r;
        }
        p += n + (p[n] == ':');
    }
    return 0;
}
