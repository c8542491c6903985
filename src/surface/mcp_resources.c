/* Resources: files of the box (file:///home/gem/x), trajectories and states of this server. A file is read by the tool
 * that reads files, so that reading one is a step like any other. */
#include "surface/mcp.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "session/state.h"
#include "store/recorder_client.h"

#define TRAJECTORY "sandglass://trajectory/"
#define STATE      "sandglass://state/"
#define FILE_URI   "file://"

static bool begins(struct str s, const char *with, struct str *ret_rest)
{
    size_t n = strlen(with);

    if (s.n < n || memcmp(s.p, with, n) != 0)
        return false;
    *ret_rest = (struct str){ s.p + n, s.n - n };
    return true;
}

static void no_resource(struct exchange *x, struct str uri)
{
    exchange_error(x, MCP_NO_RESOURCE, "Resource not found: %.*s", (int)(uri.n < 300 ? uri.n : 300), uri.p);
}

/* --- list: the trajectories, page by page, then the states --- */

static void print_resource(struct exchange *x, struct jw *j, const char *uri, struct str id, const char *title,
                           const char *about)
{
    jw_obj(j);
    jw_kz(j, "uri", arena_printf(&x->arena, "%s%.*s", uri, STR_ARG(id)));
    jw_kstr(j, "name", id);
    jw_kz(j, "title", arena_printf(&x->arena, "%s %.*s", title, STR_ARG(id)));
    jw_kz(j, "description", about);
    jw_kz(j, "mimeType", "application/json");
    jw_obj_end(j);
}

static void print_state(struct exchange *x, const struct json *s, struct jw *j)
{
    struct str name = json_get_str(s, "name"), box = json_get_str(s, "box");

    print_resource(x, j, STATE, json_get_str(s, "state"), "State",
                   arena_printf(&x->arena, "of box %.*s%s%.*s", STR_ARG(box), name.n ? ", named " : "", STR_ARG(name)));
}

static void print_trajectory(struct exchange *x, const struct json *t, struct jw *j)
{
    int64_t steps = json_get_int(t, "last_step", json_get_int(t, "steps", 0));

    print_resource(x, j, TRAJECTORY, json_get_str(t, "id"), "Trajectory",
                   arena_printf(&x->arena, "%lld recorded steps", (long long)steps));
}

static void on_page(void *arg, const struct answer *a)
{
    struct exchange *x = arg;
    struct json *page = NULL;
    struct buf o;
    struct err e;

    if (a->error || json_parse(&x->arena, arena_copy(&x->arena, a->json), &page, &e) < 0) {
        exchange_error(x, MCP_INTERNAL, "%.*s", STR_ARG(a->message));
        return;
    }
    struct jw j = mcp_begin(&o);
    const struct json *states = json_get(page, "states"), *next = json_get(page, "next"),
                      *rows = states ? states : json_get(page, "trajectories");
    jw_key(&j, "resources");
    jw_arr(&j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next)
        (states ? print_state : print_trajectory)(x, r, &j);
    if (x->hub->node->opts.test_backends && !json_get_str(x->params, "cursor").p)
        mcp_probe_resources(&j);
    jw_arr_end(&j);
    bool more = next && next->type == JSON_NUM;
    if (more || !states)
        jw_kz(&j, "nextCursor",
              arena_printf(&x->arena, "%s%.*s", states || !more ? "s" : "t", more ? (int)next->raw.n : 1,
                           more ? next->raw.p : "0"));
    jw_obj_end(&j);
    exchange_result(x, &o);
}

void mcp_resources_list(struct exchange *x)
{
    const struct json *cursor = json_get(x->params, "cursor");
    struct str at = cursor && cursor->type == JSON_STR ? cursor->s : STR("t0");
    const char *digits = at.n ? arena_z(&x->arena, at) + 1 : "";

    if ((cursor && cursor->type != JSON_STR) || !at.n || !strchr("ts", at.p[0]) || !*digits ||
        strspn(digits, "0123456789") != at.n - 1 || at.n > 19) {
        exchange_error(x, MCP_PARAMS, MCP_BAD_CURSOR);
        return;
    }
    struct query q = { .op = at.p[0] == 's' ? STR("states") : STR("trajectories"),
                       .after = strtoll(digits, NULL, 10),
                       .limit = 100 };
    web_query(&x->as, &q, on_page, x);
}

static void print_template(struct jw *j, const char *uri, const char *name, const char *title, const char *help,
                           const char *mime)
{
    jw_obj(j);
    jw_kz(j, "uriTemplate", uri);
    jw_kz(j, "name", name);
    jw_kz(j, "title", title);
    jw_kz(j, "description", help);
    if (mime)
        jw_kz(j, "mimeType", mime);
    jw_obj_end(j);
}

void mcp_templates_list(struct exchange *x)
{
    struct buf o;
    struct jw j = mcp_begin(&o);

    jw_key(&j, "resourceTemplates");
    jw_arr(&j);
    print_template(&j, "file://{+path}", "file", "File of the box", "a file of the box by its absolute path", NULL);
    print_template(&j, TRAJECTORY "{id}", "trajectory", "Trajectory", "the recorded steps of one episode",
                   "application/json");
    print_template(&j, STATE "{id}", "state", "State", "the files of a box as they were: its layers and root",
                   "application/json");
    if (x->hub->node->opts.test_backends)
        mcp_probe_templates(&j);
    jw_arr_end(&j);
    jw_obj_end(&j);
    exchange_result(x, &o);
}

/* --- read --- */

static struct jw begin_contents(struct exchange *x, struct buf *o, const char *mime)
{
    struct jw j = mcp_begin(o);

    jw_key(&j, "contents");
    jw_arr(&j);
    jw_obj(&j);
    jw_kstr(&j, "uri", json_get_str(x->params, "uri"));
    jw_kz(&j, "mimeType", mime);
    return j;
}

static void end_contents(struct exchange *x, struct jw *j, struct buf *o)
{
    jw_obj_end(j);
    jw_arr_end(j);
    jw_obj_end(j);
    exchange_result(x, o);
}

static void on_steps(void *arg, const struct answer *a)
{
    struct exchange *x = arg;
    struct buf o;

    if (a->error) {
        no_resource(x, json_get_str(x->params, "uri"));
        return;
    }
    struct jw j = begin_contents(x, &o, "application/json");
    jw_kstr(&j, "text", a->json);
    end_contents(x, &j, &o);
}

static const char *mime_of(struct str path, bool text)
{
    static const struct {
        const char *end, *mime;
    } known[] = { { ".png", "image/png" },         { ".jpg", "image/jpeg" },    { ".jpeg", "image/jpeg" },
                  { ".gif", "image/gif" },         { ".svg", "image/svg+xml" }, { ".pdf", "application/pdf" },
                  { ".json", "application/json" }, { ".html", "text/html" },    { ".md", "text/markdown" },
                  { ".py", "text/x-python" },      { ".csv", "text/csv" } };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].end);
        if (path.n > n && memcmp(path.p + path.n - n, known[i].end, n) == 0)
            return known[i].mime;
    }
    return text ? "text/plain" : "application/octet-stream";
}

static void on_file(struct exchange *x, const struct call *c)
{
    struct str uri = json_get_str(x->params, "uri");
    struct json *data = NULL;
    struct buf o;
    struct err e;

    if (c->outcome != OUTCOME_OK || json_parse(&x->arena, c->data, &data, &e) < 0) {
        exchange_error(x,
                       c->outcome == OUTCOME_TASK_ERROR        ? MCP_NO_RESOURCE
                       : c->outcome == OUTCOME_INVALID_REQUEST ? MCP_PARAMS
                                                               : MCP_INTERNAL,
                       "%.*s", STR_ARG(c->message));
        return;
    }
    bool text = !str_is(json_get_str(data, "encoding"), "base64");
    struct jw j = begin_contents(x, &o, mime_of(uri, text));
    jw_kstr(&j, text ? "text" : "blob", json_get_str(data, "content"));
    end_contents(x, &j, &o);
}

static void read_file(struct exchange *x, struct str path)
{
    const struct tool *t = tool_find(STR("file:read"), NULL);
    struct json *args = NULL;
    struct buf b;
    struct err e;
    struct str plain;

    if (!http_decode(&x->arena, path, false, &plain)) {
        exchange_error(x, MCP_PARAMS, "uri: an escape in it is invalid");
        return;
    }
    buf_init(&b, 64 * KiB);
    struct jw j = { .out = &b };
    jw_obj(&j);
    jw_kstr(&j, "path", plain);
    jw_obj_end(&j);
    int r = json_parse(&x->arena, arena_copy(&x->arena, buf_view(&b)), &args, &e);
    buf_done(&b);
    if (r < 0) {
        exchange_error(x, MCP_PARAMS, "uri: %s", e.msg);
        return;
    }
    x->on_call = on_file;
    mcp_call_tool(x, t, args);
}

static void read_trajectory(struct exchange *x, struct str id)
{
    struct query q = { .op = STR("steps"), .id = id, .limit = 1000 };

    web_query(&x->as, &q, on_steps, x);
}

static void on_state_found(void *arg, const struct state *s, const struct err *e)
{
    struct exchange *x = arg;
    const char *only = x->as.who.box;
    struct buf o, text;
    struct jw t = { .out = &text };

    if (e || (only[0] && strcmp(s->box, only) != 0)) {
        no_resource(x, json_get_str(x->params, "uri"));
        return;
    }
    buf_init(&text, LIMIT_HTTP_REPLY);
    jw_obj(&t);
    state_print(s, &t);
    jw_obj_end(&t);
    struct jw j = begin_contents(x, &o, "application/json");
    jw_kstr(&j, "text", buf_view(&text));
    end_contents(x, &j, &o);
    buf_done(&text);
}

void mcp_resources_read(struct exchange *x)
{
    struct str uri = json_get_str(x->params, "uri"), rest;

    if (!uri.p)
        exchange_error(x, MCP_PARAMS, "uri: missing");
    else if (x->hub->node->opts.test_backends && mcp_probe_read(x, uri))
        return;
    else if (begins(uri, FILE_URI, &rest) && rest.n && rest.p[0] == '/')
        read_file(x, rest);
    else if (begins(uri, TRAJECTORY, &rest) && rest.n)
        read_trajectory(x, rest);
    else if (begins(uri, STATE, &rest) && rest.n)
        state_find(x->as.node, x->as.tenant, rest, on_state_found, x);
    else
        no_resource(x, uri);
}

/* --- subscriptions: a step in a box may have changed its files; a step of a trajectory has changed that --- */

static void answer_empty(struct exchange *x)
{
    struct buf o;
    struct jw j = mcp_begin(&o);

    jw_obj_end(&j);
    exchange_result(x, &o);
}

static struct subscription **find_subscription(struct mcp_session *s, struct str uri)
{
    struct subscription **p = &s->subscriptions;

    while (*p && !str_is(uri, (*p)->uri))
        p = &(*p)->next;
    return p;
}

static bool check_subscriber(struct exchange *x, struct str uri)
{
    if (!uri.p || uri.n > LIMIT_PATH) {
        exchange_error(x, MCP_PARAMS, "uri: missing, or longer than LIMIT_PATH (%d)", LIMIT_PATH);
        return false;
    }
    if (!x->session) {
        exchange_error(x, MCP_REQUEST,
                       "a subscription belongs to a session: begin with initialize and send Mcp-Session-Id");
        return false;
    }
    return true;
}

static void on_watched_box(void *arg, struct box *b, const struct err *e)
{
    struct exchange *x = arg;
    struct subscription **p;

    if (e) {
        exchange_error(x, MCP_INTERNAL, "%s", e->msg);
        return;
    }
    p = x->session ? find_subscription(x->session, json_get_str(x->params, "uri")) : NULL;
    if (p && *p)
        snprintf((*p)->box, sizeof(*p)->box, "%s", b->id);
    answer_empty(x);
}

void mcp_subscribe(struct exchange *x)
{
    struct str uri = json_get_str(x->params, "uri"), rest;
    struct subscription **p;

    if (!check_subscriber(x, uri))
        return;
    p = find_subscription(x->session, uri);
    if (!*p) {
        if (x->session->subscribed >= LIMIT_MCP_SUBSCRIPTION) {
            exchange_error(x, MCP_PARAMS, "this session has LIMIT_MCP_SUBSCRIPTION (%d) subscriptions",
                           LIMIT_MCP_SUBSCRIPTION);
            return;
        }
        *p = calloc(1, sizeof **p + uri.n + 1);
        if (!*p)
            abort();
        memcpy((*p)->uri, uri.p, uri.n);
        x->session->subscribed++;
    }
    if (begins(uri, FILE_URI, &rest))
        exchange_box(x, on_watched_box, x);
    else
        answer_empty(x);
}

void mcp_unsubscribe(struct exchange *x)
{
    struct str uri = json_get_str(x->params, "uri");

    if (!check_subscriber(x, uri))
        return;
    struct subscription **p = find_subscription(x->session, uri), *gone = *p;
    if (gone) {
        *p = gone->next;
        free(gone);
        x->session->subscribed--;
    }
    answer_empty(x);
}

/* What is another tenant's, or another box's for who has only one, is told to nobody. */
static bool may_hear(const struct mcp_session *s, const struct call *c)
{
    return s->tenant == c->tenant && (!s->only_box[0] || str_is(c->worker_id, s->only_box));
}

static bool concerns(const struct mcp_session *s, const struct subscription *p, const struct call *c)
{
    struct str rest;

    if (begins(str_of(p->uri), TRAJECTORY, &rest))
        return may_hear(s, c) && c->trajectory && str_is(rest, c->trajectory->id);
    return p->box[0] && strcmp(p->box, c->box_id) == 0 && c->tool && !(c->tool->flags & TOOL_READ_ONLY);
}

/* Trajectories and states come by the thousand: those who are told of new ones are told of many at once. */
enum { NEWS_MS = 500 };

void mcp_step(struct mcp_hub *h, const struct call *c)
{
    struct mcp_session *s;
    bool is_news = c->step == 1 || c->state_id[0] ||
                   (c->tool && c->outcome == OUTCOME_OK && strcmp(c->tool->name, "box:snapshot") == 0);

    for (size_t i = 0; (s = map_next(&h->sessions, &i));) {
        if (is_news && may_hear(s, c)) {
            s->new_resources = true;
            if (!h->has_news)
                loop_timer_set(h->news, NEWS_MS);
            h->has_news = true;
        }
        for (const struct subscription *p = s->subscriptions; p; p = p->next) {
            if (!concerns(s, p, c))
                continue;
            struct buf b;
            struct jw j = { .out = &b };
            buf_init(&b, 64 * KiB);
            jw_obj(&j);
            jw_kz(&j, "uri", p->uri);
            jw_obj_end(&j);
            mcp_session_notify(s, "notifications/resources/updated", buf_view(&b));
            buf_done(&b);
        }
    }
}

void mcp_tell_news(void *hub)
{
    struct mcp_hub *h = hub;
    struct mcp_session *s;

    h->has_news = false;
    for (size_t i = 0; (s = map_next(&h->sessions, &i));)
        if (s->new_resources) {
            s->new_resources = false;
            mcp_session_notify(s, "notifications/resources/list_changed", (struct str){ 0 });
        }
}

/* --- completion: ids of trajectories --- */

static void on_ids(void *arg, const struct answer *a)
{
    struct exchange *x = arg;
    struct str typed = json_get_str(json_get(x->params, "argument"), "value");
    struct json *page = NULL;
    struct buf o;
    struct err e;
    int64_t n = 0;

    if (a->error || json_parse(&x->arena, arena_copy(&x->arena, a->json), &page, &e) < 0)
        page = NULL;
    struct jw j = mcp_begin(&o);
    const struct json *rows = json_get(page, "trajectories");
    jw_key(&j, "completion");
    jw_obj(&j);
    jw_key(&j, "values");
    jw_arr(&j);
    for (const struct json *t = rows ? rows->first : NULL; t && n < 100; t = t->next) {
        struct str id = json_get_str(t, "id");
        if (id.n < typed.n || memcmp(id.p, typed.p ? typed.p : "", typed.n) != 0)
            continue;
        jw_str(&j, id);
        n++;
    }
    jw_arr_end(&j);
    jw_kint(&j, "total", n);
    jw_kbool(&j, "hasMore", false);
    jw_obj_end(&j);
    jw_obj_end(&j);
    exchange_result(x, &o);
}

void mcp_complete(struct exchange *x)
{
    const struct json *ref = json_get(x->params, "ref"), *argument = json_get(x->params, "argument");
    bool ids = str_is(json_get_str(ref, "uri"), TRAJECTORY "{id}");
    struct answer none = { .error = ERR_NOT_FOUND };

    if (!ref || !argument) {
        exchange_error(x, MCP_PARAMS, "%s: missing", ref ? "argument" : "ref");
        return;
    }
    if (!ids) {
        on_ids(x, &none);
        return;
    }
    struct query q = { .op = STR("trajectories"), .limit = 1000 };
    web_query(&x->as, &q, on_ids, x);
}
