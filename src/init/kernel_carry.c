/* The variables of a Python kernel, to a file and back: a cell that nobody sees has script/carry.py do it. */
#include <fcntl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "init/kernel.h"
#include "init/script.h"
#include "wire/boot.h"

enum { NOTE_MAX = 2 * 1024 * 1024, LOST_MAX = 256 };

/* The first line of the file, with a list of what was left out. It comes from the box: anything else is an empty list.
 */
static struct strs read_note(struct hand *h, const char *path, struct arena *a)
{
    struct strs lost = { arena_alloc(a, LOST_MAX * sizeof(struct str)), 0 };
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char *text = arena_alloc(h->arena, NOTE_MAX + 1);
    struct json *j = NULL;
    ssize_t n = fd >= 0 ? read(fd, text, NOTE_MAX) : -1;
    const char *end = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;

    if (!end || json_parse(h->arena, (struct str){ text, (size_t)(end - text) }, &j, NULL) < 0)
        return lost;
    const struct json *list = json_get(j, "lost");
    for (const struct json *v = list ? list->first : NULL; v && lost.n < LOST_MAX; v = v->next)
        if (v->type == JSON_STR)
            lost.v[lost.n++] = arena_copy(a, v->s);
    return lost;
}

int kernel_carry(struct hand *h, struct kernel *k, const char *op, const char *path, struct arena *a,
                 struct strs *ret_lost, struct err *e)
{
    static const char text[] = "exec(\"import importlib.util as u, sys\\n"
                               "n = '_sandglass_carry'\\n"
                               "if n not in sys.modules:\\n"
                               "    s = u.spec_from_file_location(n, '" SCRIPT_CARRY "')\\n"
                               "    sys.modules[n] = u.module_from_spec(s)\\n"
                               "    s.loader.exec_module(sys.modules[n])\\n"
                               "sys.modules[n].kernel('%s', '%s')\", {})";
    struct cell_end end;

    if (!str_is(kernel_language(k), "python"))
        return err_set(e, ERR_INVALID, "a kernel of language %.*s begins anew", STR_ARG(kernel_language(k)));
    struct cell cell = { .code = str_of(arena_printf(h->arena, text, op, path)), .silent = true };
    int r = kernel_run(h, k, &cell, &end, e);
    if (r < 0)
        return r;
    if (end.status != CELL_OK)
        return err_set(e, ERR_SYSTEM, "%.*s: %.*s", STR_ARG(end.ename.n ? end.ename : STR("no answer")),
                       STR_ARG(end.evalue));
    *ret_lost = read_note(h, path, a);
    return 0;
}
