/* The list of all backends, in the order in which they are shown, and how a name finds its tool. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "tool/tool.h"

extern const struct backend backend_bash, backend_file, backend_code, backend_shell, backend_command, backend_system,
    backend_watch, backend_util, backend_knowlyr;
extern const struct backend backend_box, backend_browser, backend_pipe, backend_trajectory;
extern const struct backend backend_jupyter;
extern const struct backend backend_skills, backend_proxy;
extern const struct backend backend_agentscope;
extern const struct backend backend_app, backend_carry, backend_ds;
extern const struct backend backend_desktop, backend_vm;
extern const struct backend backend_probe, backend_probe_shared, backend_probe_hybrid, backend_probe_session;

/* clang-format off */
static const struct backend *const own[] = {
    &backend_bash,
    &backend_file,
    &backend_code,
    &backend_jupyter,
    &backend_agentscope,
    &backend_ds,
    &backend_carry,
    &backend_shell,
    &backend_command,
    &backend_system,
    &backend_watch,
    &backend_util,
    &backend_skills,
    &backend_proxy,
    &backend_knowlyr,
    &backend_box,
    &backend_trajectory,
    &backend_browser,
    &backend_app,
    &backend_desktop,
    &backend_vm,
    &backend_pipe,
    &backend_probe,
    &backend_probe_shared,
    &backend_probe_hybrid,
    &backend_probe_session,
    NULL,
};
/* clang-format on */

const struct backend *const *backends = own;

void backend_put(const struct backend *b)
{
    static const struct backend **all;
    size_t n = 0;

    for (; backends[n]; n++)
        if (all && strcmp(backends[n]->name, b->name) == 0) {
            all[n] = b;
            return;
        }
    const struct backend **more = calloc(n + 2, sizeof *more);
    if (!more)
        abort();
    memcpy(more, backends, n * sizeof *more);
    more[n] = b;
    free(all);
    all = more;
    backends = all;
}

void backend_drop(const char *name)
{
    static const struct backend *kept[ARRAY_LEN(own)];
    size_t n = 0;

    for (const struct backend *const *b = backends; *b; b++)
        if (strcmp((*b)->name, name) != 0)
            kept[n++] = *b;
    kept[n] = NULL;
    backends = kept;
}

static void print_schema(const struct field *fields, const char *text, struct jw *w)
{
    if (text)
        jw_raw(w, str_of(text));
    else
        field_schema(fields, w);
}

void tool_print_params(const struct tool *t, const char *key, struct jw *w)
{
    jw_key(w, key);
    print_schema(t->params, t->params_schema, w);
}

void tool_print_result(const struct tool *t, const char *key, struct jw *w)
{
    jw_key(w, key);
    print_schema(t->result, t->result_schema, w);
}

const struct backend *backend_find(struct str name)
{
    for (const struct backend *const *b = backends; *b; b++)
        if (str_is(name, (*b)->name))
            return *b;
    return NULL;
}

static struct str action_of(const struct tool *t)
{
    return str_of(strchr(t->name, ':') + 1);
}

static const struct tool *find_in(const struct backend *b, struct str action)
{
    for (size_t i = 0; b && i < b->tool_count; i++)
        if (str_eq(action_of(&b->tools[i]), action))
            return &b->tools[i];
    return NULL;
}

/* name = prefix, one byte of separator at `at`, action */
static const struct tool *find_split(struct str name, size_t at, const struct backend **ret_backend)
{
    const struct backend *b = backend_find((struct str){ name.p, at });
    const struct tool *t = find_in(b, (struct str){ name.p + at + 1, name.n - at - 1 });

    if (t && ret_backend)
        *ret_backend = b;
    return t;
}

const struct tool *tool_find(struct str full_name, const struct backend **ret_backend)
{
    const char *colon = full_name.n ? memchr(full_name.p, ':', full_name.n) : NULL;

    return colon ? find_split(full_name, (size_t)(colon - full_name.p), ret_backend) : NULL;
}

struct simple {
    struct tool_choice found;
    size_t n, at;
    char matches[160];
    struct buf *candidates; /* nullable */
};

static void look_for_simple(struct simple *s, struct str action, bool full_names, bool hidden_too)
{
    for (const struct backend *const *b = backends; *b; b++) {
        const struct tool *t = find_in(*b, action);
        if (!t || (*b)->full_names != full_names || ((*b)->hidden && !hidden_too))
            continue;
        if (full_names && !(t->flags & TOOL_REMOTE)) /* the user's own; others' names have another meaning elsewhere */
            continue;
        s->n++;
        if (s->at < sizeof s->matches)
            s->at += (size_t)snprintf(s->matches + s->at, sizeof s->matches - s->at, "%s'%s'", s->n > 1 ? ", " : "",
                                      t->name);
        s->found = (struct tool_choice){ t, *b };
        if (s->candidates)
            buf_printf(s->candidates, "%s\"%s\"", s->n > 1 ? "," : "", t->name);
    }
}

static int find_simple(struct str action, bool hidden_too, struct tool_choice *ret, struct buf *candidates,
                       struct err *e)
{
    struct simple s = { .candidates = candidates };

    look_for_simple(&s, action, false, hidden_too);
    if (s.n == 0)
        look_for_simple(&s, action, true, hidden_too);
    if (s.n == 0)
        return err_set(e, ERR_NOT_FOUND, "Tool not found: %.*s", STR_ARG(action));
    if (s.n > 1)
        return err_set(e, ERR_INVALID,
                       "Ambiguous tool name '%.*s'. Multiple matches: [%s]. Please use full name with prefix.",
                       STR_ARG(action), s.matches);
    if (candidates)
        buf_reset(candidates);
    *ret = s.found;
    return 0;
}

int tool_resolve(struct str action, bool hidden_too, struct tool_choice *ret, struct buf *candidates, struct err *e)
{
    const struct backend *owner = NULL;
    const struct tool *t = NULL;

    if (action.n && memchr(action.p, ':', action.n)) {
        t = tool_find(action, &owner);
        if (!t)
            return err_set(e, ERR_NOT_FOUND, "Tool not found: %.*s", STR_ARG(action));
    }
    for (const char *sep = "._-"; !t && action.n && *sep; sep++) {
        const char *at = memchr(action.p, *sep, action.n);
        if (at)
            t = find_split(action, (size_t)(at - action.p), &owner);
    }
    if (!t)
        return find_simple(action, hidden_too, ret, candidates, e);
    if (owner->hidden && !hidden_too)
        return err_set(e, ERR_NOT_FOUND, "Tool not found: %.*s", STR_ARG(action));
    *ret = (struct tool_choice){ t, owner };
    return 0;
}
