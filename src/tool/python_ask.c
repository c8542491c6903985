#ifdef IN_BOX

#include "tool/python_ask.h"

#include <signal.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/limits.h"
#include "init/init.h"
#include "init/program.h"

int python_ask(struct hand *h, const struct python_ask *q, const struct json **ret, struct err *e)
{
    const char *const argv[] = { "python3", "-c", q->script, NULL };
    AUTO(buf_done) struct buf b = { .cap = LIMIT_FRAME };
    struct jw w = { .out = &b };
    struct program_end end;
    struct json *said;

    jw_obj(&w);
    field_print(q->fields, q->params, &w);
    jw_kz(&w, "workspace", init_workspace(h->init));
    if (q->tells_script)
        jw_kz(&w, "script", q->script);
    jw_obj_end(&w);
    int n = program_run(
        h,
        &(struct program_opts){
            .argv = argv, .cwd = "/", .input = buf_view(&b), .deadline_ms = h->deadline_ms, .head_max = LIMIT_FILE_IO },
        &end, e);
    if (n < 0 && e->code == ERR_NOT_FOUND)
        return err_set(e, ERR_NOT_FOUND, "%s needs python3, which is not installed in this image", q->what);
    if (n < 0)
        return n;
    if (end.timed_out)
        return err_set(e, ERR_SYSTEM, "%s took too long", q->what);
    if (end.sig == SIGKILL)
        return err_set(e, ERR_LIMIT, "%s was killed: it took more memory than the box may (box.memory)", q->what);
    if (end.out_bytes > LIMIT_FILE_IO)
        return err_set(e, ERR_LIMIT, "%s: the answer exceeds LIMIT_FILE_IO (%ld bytes)", q->what, LIMIT_FILE_IO);
    if (json_parse(h->arena, end.out, &said, e) < 0)
        return err_set(e, ERR_SYSTEM, "%s failed: %.*s", q->what, (int)(end.err.n < 200 ? end.err.n : 200), end.err.p);
    struct str missing = json_get_str(said, "missing"), error = json_get_str(said, "error");
    if (missing.p)
        return err_set(e, ERR_NOT_FOUND, "%.*s", STR_ARG(missing));
    if (error.p)
        return err_set(e, ERR_INVALID, "%.*s", STR_ARG(error));
    *ret = said;
    return 0;
}

#endif
