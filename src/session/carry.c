#include "session/carry.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "session/call.h"
#include "store/blob.h"
#include "tool/carry.h"

struct asking {
    struct node *node;
    char box[BOX_ID_MAX];
    void (*cb)(void *arg, struct str carried);
    void *arg;
};

/* --- what a state has --- */

static struct json *parse(struct str carried, struct arena *a)
{
    struct json *j = NULL;

    if (carried.n)
        (void)json_parse(a, arena_copy(a, carried), &j, NULL);
    return j;
}

bool carry_has_variables(struct str carried)
{
    AUTO(arena_done) struct arena a = { 0 };

    return json_get_str(parse(carried, &a), "blob").n > 0;
}

struct str carry_sessions(struct str carried, struct arena *a)
{
    const struct json *list = json_get(parse(carried, a), "sessions");

    return list ? list->raw : (struct str){ 0 };
}

/* --- out --- */

static char *describe(const struct call *c)
{
    AUTO(arena_done) struct arena a = { 0 };
    const struct json *data = parse(c->data, &a), *sessions = json_get(data, "sessions");
    const struct json *blob = json_get(parse(c->blobs, &a), "stdout");
    AUTO(buf_done) struct buf b = { .cap = LIMIT_RECORD };
    struct jw w = { .out = &b };

    if (!sessions || !sessions->first)
        return NULL;
    jw_obj(&w);
    jw_kstr(&w, "blob", json_get_str(blob, "hash"));
    jw_kint(&w, "bytes", json_get_int(blob, "bytes", 0));
    jw_kraw(&w, "sessions", sessions->raw);
    jw_obj_end(&w);
    return b.full ? NULL : strndup(b.p, b.n);
}

static void on_out(void *arg, const struct call *c)
{
    struct asking k = *(struct asking *)arg;
    struct box *b = box_find(k.node, str_of(k.box));
    char *carried = NULL;

    free(arg);
    if (c->outcome == OUTCOME_OK)
        carried = describe(c);
    else
        log_warn("variables not carried", "box=%s error='%.*s', the state has files only", k.box, STR_ARG(c->message));
    if (b && c->outcome == OUTCOME_OK) {
        free(b->carried.variables);
        b->carried.variables = carried ? strdup(carried) : NULL;
        b->carried.interpreted = false;
    }
    k.cb(k.arg, carried ? str_of(carried) : (struct str){ 0 });
    free(carried);
}

void carry_out(struct box *b, void (*cb)(void *arg, struct str carried), void *arg)
{
    const struct tool *t = tool_find(STR("carry:out"), NULL);
    struct session *s = b->sessions;

    while (s && (!s->up || s->lost || s->temporary))
        s = s->next_in_box;
    if (!b->carried.interpreted || !s || b->state != BOX_RUNNING) {
        cb(arg, b->carried.variables && !b->carried.interpreted ? str_of(b->carried.variables) : (struct str){ 0 });
        return;
    }
    struct asking *k = calloc(1, sizeof *k);
    if (!k)
        abort();
    *k = (struct asking){ .node = b->node, .cb = cb, .arg = arg };
    memcpy(k->box, b->id, sizeof k->box);
    if (!call_silent_json(s, t, STR("{}"), 2 * LIMIT_CARRY_MS, on_out, k))
        abort(); /* it takes none */
    if (b->carried.pending)
        carry_in(s); /* goes before it */
}

/* --- in --- */

void carry_done(struct carried *c)
{
    free(c->shell);
    free(c->variables);
    *c = (struct carried){ 0 };
}

void carry_expect(struct box *b, struct str shell, struct str carried)
{
    carry_done(&b->carried);
    b->carried.shell = shell.n ? strndup(shell.p, shell.n) : NULL;
    b->carried.shell_pending = shell.n > 0;
    b->carried.variables = carried.n ? strndup(carried.p, carried.n) : NULL;
    b->carried.pending = carry_has_variables(carried);
}

void carry_record(const struct box *b, struct jw *w)
{
    const struct secrets *secrets = b->node->secrets;
    AUTO(arena_done) struct arena a = { 0 };

    if (b->carried.shell) {
        struct str shell = secrets_redact(secrets, b->tenant, str_of(b->carried.shell), SECRET_SHELL, &a);
        jw_kstr(w, "shell", secrets_redact(secrets, b->tenant, shell, SECRET_PLAIN, &a));
    }
    if (b->carried.variables)
        jw_kraw(w, "carried", str_of(b->carried.variables));
}

void carry_adopt(struct box *b, const struct json *record)
{
    const struct json *carried = json_get(record, "carried");

    carry_expect(b, json_get_str(record, "shell"), carried ? carried->raw : (struct str){ 0 });
    b->carried.perhaps = b->carried.interpreted = true;
}

struct giving {
    struct carry_in_params params;
    char data[];
};

static void on_in(void *arg, const struct call *c)
{
    free(arg);
    if (c->outcome != OUTCOME_OK)
        log_warn("variables not given back", "box=%s error='%.*s', its interpreters begin anew", c->box_id,
                 STR_ARG(c->message));
}

/* NULL: what the state names is not there, or is not what it was. */
static struct giving *read_pieces(const struct box *b)
{
    AUTO(arena_done) struct arena a = { 0 };
    struct str name = json_get_str(parse(str_of(b->carried.variables), &a), "blob");
    auto_close int fd = -1;
    uint64_t bytes = 0;
    struct err e = { 0 };

    if (blob_open(b->node->opts.home, name, &fd, &bytes, &e) < 0 || bytes > (uint64_t)LIMIT_FRAME) {
        log_warn("variables not given back", "box=%s error='%s', its interpreters begin anew", b->id, e.msg);
        return NULL;
    }
    struct giving *g = malloc(sizeof *g + bytes);
    size_t at = 0;
    for (ssize_t n; g && at < bytes && (n = read(fd, g->data + at, bytes - at)) > 0;)
        at += (size_t)n;
    if (g)
        g->params.pieces = (struct str){ g->data, at };
    return g;
}

void carry_in(struct session *s)
{
    struct giving *g = read_pieces(s->box);

    s->box->carried.pending = false;
    if (g)
        call_silent(s, tool_find(STR("carry:in"), NULL), &g->params, on_in, g);
    else
        session_pump(s);
}
