#include "session/note.h"

#include "base/auto.h"
#include "base/limits.h"

static int check_tags(const struct json *v, struct err *e)
{
    if (v->type != JSON_ARR)
        return err_set(e, ERR_TYPE, "tags: expected array, got %s", json_type_name(v->type));
    if (v->count > LIMIT_TAGS)
        return err_set(e, ERR_LIMIT, "tags: %zu exceed LIMIT_TAGS (%d)", v->count, LIMIT_TAGS);
    for (const struct json *t = v->first; t; t = t->next)
        if (t->type != JSON_STR || !t->s.n || t->s.n > LIMIT_TAG)
            return err_set(e, ERR_INVALID, "tags: each is a text of 1 to %d bytes (LIMIT_TAG)", LIMIT_TAG);
    return 0;
}

static int check_member(const struct json *v, struct err *e)
{
    static const struct {
        const char *name;
        enum json_type type;
        size_t max;
    } known[] = { { "reward", JSON_NUM, 64 },
                  { "note", JSON_STR, LIMIT_NOTE },
                  { "metadata", JSON_OBJ, LIMIT_METADATA },
                  { "pinned", JSON_BOOL, 8 } };

    if (str_is(v->name, "tags"))
        return v->type == JSON_NULL ? 0 : check_tags(v, e);
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (!str_is(v->name, known[i].name))
            continue;
        if (v->type != JSON_NULL && v->type != known[i].type)
            return err_set(e, ERR_TYPE, "%s: expected %s or null, got %s", known[i].name, json_type_name(known[i].type),
                           json_type_name(v->type));
        if (v->raw.n > known[i].max)
            return err_set(e, ERR_LIMIT, "%s: %zu bytes exceed %zu", known[i].name, v->raw.n, known[i].max);
        return 0;
    }
    return err_set(e, ERR_INVALID, "%.*s: unknown key (known: tags, reward, note, metadata, pinned)",
                   (int)(v->name.n < 64 ? v->name.n : 64), v->name.p);
}

int note_check(const struct json *patch, struct err *e)
{
    if (!patch || patch->type != JSON_OBJ || !patch->count)
        return err_set(e, ERR_MISSING, "body: an object with some of tags, reward, note, metadata, pinned is required");
    for (const struct json *v = patch->first; v; v = v->next) {
        int r = check_member(v, e);
        if (r < 0)
            return r;
    }
    return 0;
}

int note_append(struct node *n, const struct tenant *t, struct str trajectory, int64_t step, const struct json *patch,
                struct err *e)
{
    struct jw w = { .out = &n->scratch };

    buf_reset(w.out);
    jw_obj(&w);
    jw_kstr(&w, "trajectory", trajectory);
    jw_kint(&w, "step", step);
    jw_kint(&w, "time", wall_us());
    if (!t->is_default)
        jw_kz(&w, "tenant", t->name);
    jw_kraw(&w, "set", patch->raw);
    jw_obj_end(&w);
    struct str body = buf_view(w.out);
    return node_append(n, RECORD_NOTE, &body, 1, e);
}

int note_drop(struct node *n, const struct tenant *t, struct str trajectory, struct err *e)
{
    static const struct json dropped = { .type = JSON_OBJ, .raw = { "{\"dropped\":true}", 16 } };

    return note_append(n, t, trajectory, 0, &dropped, e);
}

/* --- steps from elsewhere --- */

static void copy_raw(struct jw *w, const struct json *from, const char *name, const char *as)
{
    const struct json *v = json_get(from, name);

    if (v && v->type != JSON_NULL)
        jw_kraw(w, as, v->raw);
}

static void print_extra(struct jw *w, const struct json *s)
{
    static const char *const names[] = { "as_tool", "as_params", "thought",  "text",
                                         "refused", "ends",      "emulated", "state_root" };

    jw_key(w, "extra");
    jw_obj(w);
    jw_kbool(w, "imported", true);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        copy_raw(w, s, names[i], names[i]);
    jw_obj_end(w);
}

static int check_step(const struct json *s, struct err *e)
{
    struct str tool = json_get_str(s, "tool"), outcome = json_get_str(s, "outcome");
    const struct json *params = json_get(s, "params");

    if (!tool.n || tool.n > 256)
        return err_set(e, ERR_MISSING, "tool: a text of 1 to 256 bytes is required");
    if (params && params->type != JSON_OBJ && params->type != JSON_NULL)
        return err_set(e, ERR_TYPE, "params: expected object or null, got %s", json_type_name(params->type));
    if (outcome.n && outcome_find(outcome.p, outcome.n) < 0)
        return err_set(e, ERR_INVALID, "outcome: there is no '%.*s'", (int)(outcome.n < 40 ? outcome.n : 40),
                       outcome.p);
    return 0;
}

int import_append(struct node *n, const struct imported *i, const struct json *s, struct err *e)
{
    static const char *const numbers[] = { "queued_us", "run_us", "total_us", "dropped_bytes" };
    const struct json *params = json_get(s, "params");
    struct jw w = { .out = &n->scratch };
    int r = check_step(s, e);

    if (r < 0)
        return err_wrap(e, r, "step %lld", (long long)i->step);
    buf_reset(w.out);
    jw_obj(&w);
    jw_kint(&w, "call", (int64_t)node_call_id(n));
    jw_kstr(&w, "trajectory", i->trajectory);
    jw_kint(&w, "step", i->step);
    jw_kint(&w, "time", json_get_int(s, "time_us", wall_us()));
    if (!i->tenant->is_default)
        jw_kz(&w, "tenant", i->tenant->name);
    jw_kstr(&w, "worker", i->worker);
    jw_kz(&w, "surface", "import");
    jw_kstr(&w, "tool", json_get_str(s, "tool"));
    copy_raw(&w, s, "box", "box");
    jw_kbool(&w, "temporary", json_get_bool(s, "temporary", false));
    jw_kraw(&w, "params", params && params->type == JSON_OBJ ? params->raw : STR("{}"));
    copy_raw(&w, s, "outcome", "outcome");
    jw_kbool(&w, "retry_safe", false);
    jw_kbool(&w, "trainable", json_get_bool(s, "trainable", true));
    copy_raw(&w, s, "code", "code");
    copy_raw(&w, s, "message", "message");
    for (size_t k = 0; k < ARRAY_LEN(numbers); k++)
        jw_kint(&w, numbers[k], json_get_int(s, numbers[k], 0));
    copy_raw(&w, s, "blobs", "blobs");
    print_extra(&w, s);
    copy_raw(&w, s, "observation", "data");
    jw_obj_end(&w);
    if (w.out->full)
        return err_set(e, ERR_LIMIT, "step %lld exceeds LIMIT_RECORD (%ld bytes)", (long long)i->step, LIMIT_RECORD);
    struct str body = buf_view(w.out);
    return node_append(n, RECORD_STEP, &body, 1, e);
}
