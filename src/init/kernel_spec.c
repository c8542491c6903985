/* Which kernels the box has: the kernel.json files where Jupyter looks for them. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/kernel.h"
#include "wire/boot.h"

enum { SPEC_MAX = 64 * 1024, ARGV_MAX = 64 };

static const char *const places[] = { BOX_HOME "/.local/share/jupyter/kernels", "/usr/local/share/jupyter/kernels",
                                      "/usr/share/jupyter/kernels" };

static struct str read_small(struct arena *a, const char *path)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = arena_alloc(a, SPEC_MAX);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return (struct str){ 0 };
    ssize_t n = read(fd, text, SPEC_MAX);
    return n > 0 ? (struct str){ text, (size_t)n } : (struct str){ 0 };
}

static bool read_spec(struct arena *a, const char *place, const char *name, struct kernel_spec *ret)
{
    struct str text = read_small(a, arena_printf(a, "%s/%s/kernel.json", place, name));
    struct json *j = NULL;

    if (!text.p || json_parse(a, text, &j, NULL) < 0)
        return false;
    const struct json *argv = json_get(j, "argv"), *env = json_get(j, "env");
    *ret = (struct kernel_spec){ .name = arena_copy(a, str_of(name)),
                                 .display_name = json_get_str(j, "display_name"),
                                 .language = json_get_str(j, "language"),
                                 .interrupt_by_message = str_is(json_get_str(j, "interrupt_mode"), "message") };
    ret->argv.v = arena_alloc(a, ARGV_MAX * sizeof(struct str));
    for (const struct json *w = argv ? argv->first : NULL; w && ret->argv.n < ARGV_MAX; w = w->next)
        if (w->type == JSON_STR)
            ret->argv.v[ret->argv.n++] = w->s;
    ret->env.v = arena_alloc(a, ARGV_MAX * sizeof(struct pair));
    for (const struct json *v = env ? env->first : NULL; v && ret->env.n < ARGV_MAX; v = v->next)
        if (v->type == JSON_STR)
            ret->env.v[ret->env.n++] = (struct pair){ v->name, v->s };
    return ret->argv.n > 0;
}

size_t kernel_specs(struct arena *a, struct kernel_spec *ret, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        DIR *d = opendir(places[i]);
        for (struct dirent *e; d && n < max && (e = readdir(d));) {
            bool known = e->d_name[0] == '.';
            for (size_t k = 0; k < n && !known; k++)
                known = str_is(ret[k].name, e->d_name);
            if (!known && strlen(e->d_name) <= LIMIT_KERNEL_NAME && read_spec(a, places[i], e->d_name, &ret[n]))
                n++;
        }
        if (d)
            closedir(d);
    }
    return n;
}

/* "python3.11" is the kernel python3 where python3 is that version. */
static bool is_version(struct str name)
{
    char path[256] = "", wanted[80];
    ssize_t n = readlink("/usr/bin/python3", path, sizeof path - 1);

    snprintf(wanted, sizeof wanted, "%.*s", STR_ARG(name));
    return n > 0 && strcmp(path, wanted) == 0;
}

int kernel_spec_find(struct arena *a, struct str name, struct kernel_spec *ret, struct err *e)
{
    struct kernel_spec all[KERNELS_MAX];
    size_t n = kernel_specs(a, all, KERNELS_MAX);
    char list[160] = "";
    struct str wanted = !name.n || str_is(name, "python") || is_version(name) ? STR("python3") : name;

    for (size_t i = 0; i < n; i++) {
        if (all[i].name.n == wanted.n && strncasecmp(all[i].name.p, wanted.p, wanted.n) == 0) {
            *ret = all[i];
            return 0;
        }
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%.*s", at ? ", " : "", STR_ARG(all[i].name));
    }
    return err_set(e, ERR_INVALID, "kernel_name: this image has no kernel '%.*s'; it has: %s", STR_ARG(wanted),
                   n ? list : "none (python3-ipykernel is not installed)");
}
