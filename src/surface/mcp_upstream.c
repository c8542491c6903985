/* MCP servers of others, behind our own. Each is a process that speaks MCP in lines: a command in a box of its own, or,
 * for one at a URL, our own relay (`sandglass mcp --relay URL`). Its tools are a backend of its name; see
 * session/remote.h.
 *
 *   DOWN --start--> STARTING --initialize, tools/list answered--> UP --tools/list_changed--> list again
 *     ^----------------------- it ended, or sent nonsense: again after a while --------------------/ */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "session/remote.h"
#include "surface/mcp.h"

#define LABEL "{\"sandglass\":\"mcp-server\"}"

enum { START_MS = 60000, AGAIN_MS = 500, AGAIN_MAX_MS = 30000, LONG_ENOUGH_MS = 10000, PAGES_MAX = 50 };
enum { NAME_MAX_BYTES = 64, SERVER_MAX_BYTES = 40 }; /* of a tool over MCP, "server_tool"; of that, the server's */

/* What a tool is called here, if its own name is no name for us or too long. */
struct spelling {
    struct spelling *next;
    char ours[NAME_MAX_BYTES + 1];
    char theirs[];
};

struct upstream {
    struct upstream *next;
    struct mcp_hub *hub;
    struct remote *remote;
    struct arena arena; /* the configuration */
    char name[64];
    struct json *config;
    bool hidden;
    int fd; /* -1: none */
    struct loop_fd *watch;
    struct buf in, out;
    size_t scanned, sent;
    pid_t relay;
    char box[BOX_ID_MAX];
    struct loop_timer *again;
    int64_t wait_ms;
    int64_t up_ms;                   /* since when */
    struct buf tools;                /* of the pages that came so far: rows for remote_offer */
    struct spelling *listed, *names; /* of all of them, so far; of those that are offered */
    int pages, count;
    bool listing;
};

static struct upstream *upstreams;

static void lose(struct upstream *u, const char *why);

/* --- talking --- */

static void flush_out(struct upstream *u)
{
    while (u->sent < u->out.n) {
        ssize_t n = send(u->fd, u->out.p + u->sent, u->out.n - u->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            loop_change(u->watch, EPOLLIN | EPOLLOUT);
            return;
        }
        if (n < 0) {
            lose(u, "it closed its connection");
            return;
        }
        u->sent += (size_t)n;
    }
    buf_reset(&u->out);
    u->sent = 0;
    loop_change(u->watch, EPOLLIN);
}

/* id 0: a notification. params: JSON, or absent. */
static void say(struct upstream *u, uint64_t id, const char *method, struct str params)
{
    struct jw j = { .out = &u->out };

    if (u->fd < 0)
        return;
    jw_obj(&j);
    jw_kz(&j, "jsonrpc", "2.0");
    if (id)
        jw_kint(&j, "id", (int64_t)id);
    jw_kz(&j, "method", method);
    if (params.p)
        jw_kraw(&j, "params", params);
    jw_obj_end(&j);
    buf_char(&u->out, '\n');
    if (u->out.full)
        lose(u, "it does not read what it is sent");
    else
        flush_out(u);
}

static const char *their_name(const struct upstream *u, const char *ours)
{
    for (const struct spelling *s = u->names; s; s = s->next)
        if (strcmp(s->ours, ours) == 0)
            return s->theirs;
    return ours;
}

static void on_call(struct remote *r, struct remote_job *job, const struct call *c)
{
    struct upstream *u = r->owner;
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, LIMIT_HTTP_BODY + 64 * KiB);
    jw_obj(&j);
    jw_kz(&j, "name", their_name(u, strchr(c->tool->name, ':') + 1));
    jw_key(&j, "arguments");
    size_t at = b.n;
    jw_raw(&j, c->remote_params);
    for (size_t i = at; i < b.n; i++) /* a message is a line */
        if (b.p[i] == '\n' || b.p[i] == '\r')
            b.p[i] = ' ';
    jw_obj_end(&j);
    say(u, job->id, "tools/call", buf_view(&b));
    buf_done(&b);
}

static void on_cancel(struct remote *r, struct remote_job *job)
{
    char params[64];

    snprintf(params, sizeof params, "{\"requestId\":%lu}", (unsigned long)job->id);
    say(r->owner, 0, "notifications/cancelled", str_of(params));
}

static const struct remote_ops ops = { .call = on_call, .cancel = on_cancel };

/* --- what it offers --- */

static void ask_tools(struct upstream *u, struct str cursor);

static void forget_names(struct spelling **list)
{
    for (struct spelling *s = *list, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    *list = NULL;
}

/* Two that look alike over MCP, where a dot is an underscore, are one name too few. */
static bool is_taken(const struct spelling *list, const char *name)
{
    for (; list; list = list->next) {
        const char *a = name, *b = list->ours;
        while (*a && (*a == '.' ? '_' : *a) == (*b == '.' ? '_' : *b))
            a++, b++;
        if (*a == *b)
            return true;
    }
    return false;
}

/* A name for a tool of theirs; NULL: it is there already, or has none. */
static const char *spell(struct upstream *u, struct str theirs)
{
    size_t room = NAME_MAX_BYTES - strlen(u->name) - 1;

    for (const struct spelling *s = u->listed; s; s = s->next)
        if (str_is(theirs, s->theirs))
            return NULL;
    if (!theirs.n || memchr(theirs.p, 0, theirs.n))
        return NULL;
    struct spelling *s = calloc(1, sizeof *s + theirs.n + 1);
    if (!s)
        abort();
    memcpy(s->theirs, theirs.p, theirs.n);
    for (size_t i = 0; i < theirs.n && i < room; i++) {
        bool fine = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.", theirs.p[i]);
        s->ours[i] = fine ? theirs.p[i] : '_';
    }
    size_t n = strlen(s->ours) > room - 5 ? room - 5 : strlen(s->ours);
    for (unsigned k = 2; is_taken(u->listed, s->ours); k++)
        snprintf(s->ours + n, sizeof s->ours - n, "_%u", k);
    s->next = u->listed;
    u->listed = s;
    return s->ours;
}

static void add_tool(struct upstream *u, const struct json *t)
{
    if (u->count >= LIMIT_REMOTE_TOOLS)
        return;
    const char *name = spell(u, json_get_str(t, "name"));
    const struct json *in = json_get(t, "inputSchema"), *out = json_get(t, "outputSchema");
    const struct json *notes = json_get(t, "annotations");
    struct str title = json_get_str(t, "title");
    struct jw j = { .out = &u->tools, .comma = u->tools.n > 0 };

    if (!name) {
        log_warn("tool of an MCP server left out", "server=%s, its name is empty or there twice", u->name);
        return;
    }
    if (++u->count == LIMIT_REMOTE_TOOLS)
        log_warn("MCP server has many tools", "name=%s, the first %d of them are taken", u->name, LIMIT_REMOTE_TOOLS);
    if (!title.n)
        title = json_get_str(notes, "title");
    jw_obj(&j);
    jw_kz(&j, "name", name);
    jw_kstr(&j, "title", title.n ? title : json_get_str(t, "name"));
    jw_kstr(&j, "help", json_get_str(t, "description"));
    jw_kbool(&j, "read_only", json_get_bool(notes, "readOnlyHint", false));
    jw_kbool(&j, "mcp", true);
    if (in)
        jw_kraw(&j, "parameters", in->raw);
    if (out)
        jw_kraw(&j, "result", out->raw);
    jw_obj_end(&j);
}

static void offer(struct upstream *u)
{
    struct arena a = { 0 };
    struct json *list = NULL;
    struct buf b;
    struct err e;

    buf_init(&b, LIMIT_REMOTE_ANSWER);
    buf_printf(&b, "[{\"name\":\"%s\",\"kind\":\"stateless\",\"help\":\"an MCP server\",\"tools\":[", u->name);
    buf_str(&b, buf_view(&u->tools));
    buf_z(&b, "]}]");
    if (!u->listed) {
        log_info("MCP server is here", "name=%s, without tools", u->name);
    } else if (b.full || json_parse(&a, buf_view(&b), &list, &e) < 0) {
        lose(u, "what it lists is no list of tools");
    } else if (remote_offer(u->remote, list, &e) < 0) {
        lose(u, e.msg);
    } else {
        forget_names(&u->names);
        u->names = TAKE_PTR(u->listed);
        log_info("MCP server is here", "name=%s", u->name);
    }
    buf_done(&b);
    arena_done(&a);
}

static void on_tools(struct remote_job *job, const struct json *ok, const char *error)
{
    struct upstream *u = job->remote->owner;
    const struct json *tools = json_get(ok, "tools");
    struct str cursor = json_get_str(ok, "nextCursor");

    u->listing = false;
    if (!ok) {
        if (u->fd >= 0) /* else that is why */
            lose(u, error);
        return;
    }
    for (const struct json *t = tools ? tools->first : NULL; t; t = t->next)
        add_tool(u, t);
    if (cursor.n && ++u->pages < PAGES_MAX)
        ask_tools(u, cursor);
    else
        offer(u);
}

static void ask_tools(struct upstream *u, struct str cursor)
{
    struct buf b;
    struct jw j = { .out = &b };

    u->listing = true;
    buf_init(&b, 64 * KiB);
    jw_obj(&j);
    if (cursor.n)
        jw_kstr(&j, "cursor", cursor);
    jw_obj_end(&j);
    struct remote_job *job = remote_ask(u->remote, START_MS, on_tools, NULL);
    say(u, job->id, "tools/list", buf_view(&b));
    buf_done(&b);
}

static void list_again(struct upstream *u)
{
    if (u->listing)
        return;
    buf_reset(&u->tools);
    forget_names(&u->listed);
    u->pages = u->count = 0;
    ask_tools(u, (struct str){ 0 });
}

static void on_initialized(struct remote_job *job, const struct json *ok, const char *error)
{
    struct upstream *u = job->remote->owner;

    if (!ok) {
        if (u->fd >= 0)
            lose(u, error);
        return;
    }
    u->up_ms = now_ms();
    say(u, 0, "notifications/initialized", (struct str){ 0 });
    list_again(u);
}

/* --- listening --- */

static struct str text_of(const struct json *result)
{
    const struct json *content = json_get(result, "content");

    for (const struct json *k = content ? content->first : NULL; k; k = k->next)
        if (json_get_str(k, "text").p)
            return json_get_str(k, "text");
    return STR("the tool failed without a text");
}

static void take_answer(struct upstream *u, struct arena *a, const struct json *m)
{
    struct remote_job *job = remote_find(u->remote, (uint64_t)json_get_int(m, "id", 0));
    const struct json *result = json_get(m, "result"), *error = json_get(m, "error");

    if (!job)
        return;
    if (result && job->call && json_get_bool(result, "isError", false))
        remote_answer(job, result, "failed", arena_z(a, text_of(result)));
    else if (result)
        remote_answer(job, result, NULL, NULL);
    else
        remote_answer(job, NULL, json_get_int(error, "code", 0) == MCP_PARAMS ? "invalid" : "failed",
                      error ? arena_z(a, json_get_str(error, "message")) : "an answer without a result");
}

static void take_request(struct upstream *u, const struct json *m)
{
    const struct json *id = json_get(m, "id");
    struct jw j = { .out = &u->out };

    if (str_is(json_get_str(m, "method"), "notifications/tools/list_changed"))
        list_again(u);
    if (!id)
        return;
    jw_obj(&j); /* we sample nothing and ask nobody; a ping is answered */
    jw_kz(&j, "jsonrpc", "2.0");
    jw_kraw(&j, "id", id->raw);
    if (str_is(json_get_str(m, "method"), "ping"))
        jw_kraw(&j, "result", STR("{}"));
    else
        jw_kraw(&j, "error", STR("{\"code\":-32601,\"message\":\"Method not found\"}"));
    jw_obj_end(&j);
    buf_char(&u->out, '\n');
    flush_out(u);
}

static void take_line(struct upstream *u, struct str text)
{
    struct arena a = { 0 };
    struct json *m = NULL;
    struct err e;

    /* Programs sometimes print a line of their own before they speak: it is no message. */
    if (json_parse(&a, text, &m, &e) < 0 || m->type != JSON_OBJ)
        log_debug("MCP server said something else", "name=%s", u->name);
    else if (json_get(m, "method"))
        take_request(u, m);
    else
        take_answer(u, &a, m);
    arena_done(&a);
}

static void on_data(void *arg, uint32_t events)
{
    struct upstream *u = arg;

    if (events & EPOLLOUT)
        flush_out(u);
    for (int turns = 0; turns < 16 && u->fd >= 0; turns++) {
        void *room = buf_room(&u->in, 64 * KiB);
        if (!room) {
            lose(u, "it sent a message longer than LIMIT_REMOTE_ANSWER (32 MiB)");
            return;
        }
        ssize_t n = recv(u->fd, room, 64 * KiB, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            lose(u, "it ended");
            return;
        }
        buf_grew(&u->in, (size_t)n);
        size_t from = 0;
        char *nl;
        while (u->fd >= 0 && (nl = memchr(u->in.p + u->scanned, '\n', u->in.n - u->scanned))) {
            struct str text = { u->in.p + from, (size_t)(nl - u->in.p) - from };
            u->scanned = from = (size_t)(nl - u->in.p) + 1;
            if (text.n)
                take_line(u, text);
        }
        if (u->fd < 0)
            return;
        buf_eat(&u->in, from);
        u->scanned = u->in.n;
    }
}

/* --- coming and going --- */

static void attach(struct upstream *u, int take_fd)
{
    char hello[300];

    u->fd = take_fd;
    buf_init(&u->in, LIMIT_REMOTE_ANSWER + 64 * KiB);
    buf_init(&u->out, LIMIT_HTTP_BODY + 1 * MiB);
    buf_init(&u->tools, LIMIT_REMOTE_ANSWER);
    u->scanned = u->sent = 0;
    u->listing = false;
    u->watch = loop_watch(u->hub->loop, u->fd, EPOLLIN, on_data, u);
    snprintf(hello, sizeof hello,
             "{\"protocolVersion\":\"" MCP_LATEST "\",\"capabilities\":{},"
             "\"clientInfo\":{\"name\":\"sandglass\",\"version\":\"" SANDGLASS_VERSION "\"}}");
    struct remote_job *job = remote_ask(u->remote, START_MS, on_initialized, NULL);
    say(u, job->id, "initialize", str_of(hello));
}

static void lose(struct upstream *u, const char *why)
{
    if (u->fd >= 0) {
        loop_unwatch(u->watch);
        close(u->fd);
        u->fd = -1;
        buf_done(&u->in);
        buf_done(&u->out);
        buf_done(&u->tools);
    }
    if (u->relay > 0) {
        kill(u->relay, SIGKILL);
        waitpid(u->relay, NULL, 0);
        u->relay = 0;
    }
    log_warn("MCP server is gone", "name=%s why=\"%s\"", u->name, why);
    remote_down(u->remote, why);
    if (u->up_ms && now_ms() - u->up_ms > LONG_ENOUGH_MS)
        u->wait_ms = 0;
    u->up_ms = 0;
    u->wait_ms = !u->wait_ms ? AGAIN_MS : u->wait_ms * 2 > AGAIN_MAX_MS ? AGAIN_MAX_MS : u->wait_ms * 2;
    loop_timer_set(u->again, u->wait_ms);
}

static void start_relay(struct upstream *u, struct str url)
{
    char *argv[64] = { "sandglass", "mcp", "--relay", arena_z(&u->arena, url) };
    const struct json *headers = json_get(u->config, "headers");
    int pair[2], n = 4;

    for (const struct json *k = headers ? headers->first : NULL; k && n < 60; k = k->next) {
        argv[n++] = "--header";
        argv[n++] = arena_printf(&u->arena, "%.*s: %.*s", STR_ARG(k->name), STR_ARG(k->s));
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        lose(u, "no socket could be made");
        return;
    }
    pid_t parent = getpid();
    u->relay = fork();
    if (u->relay == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        dup2(pair[1], 0);
        dup2(pair[1], 1);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(pair[1]);
    attach(u, pair[0]);
}

static void on_stream(void *arg, int take_fd)
{
    attach(arg, take_fd);
}

static void on_program_end(void *arg, const struct call *c)
{
    struct upstream *u = arg;
    struct arena a = { 0 };
    struct json *data = NULL;
    struct err e;
    char why[300];

    if (c->data.p && json_parse(&a, c->data, &data, &e) < 0)
        data = NULL;
    struct str said = json_get_str(data, "stderr");
    size_t cut = said.n > 160 ? said.n - 160 : 0;
    snprintf(why, sizeof why, "%s, exit code %lld: %.*s", outcome_name(c->outcome),
             (long long)json_get_int(data, "exit_code", -1),
             data ? (int)(said.n - cut) : (int)(c->message.n < 200 ? c->message.n : 200),
             data ? said.p + cut : c->message.p);
    for (char *p = why; *p; p++)
        if (*p == '\n')
            *p = ' ';
    arena_done(&a);
    if (u->fd >= 0 || !c->data.p)
        lose(u, why);
    else
        log_warn("MCP server ended", "name=%s %s", u->name, why);
}

static void on_box_up(void *arg, struct box *b, const struct err *e)
{
    struct upstream *u = arg;
    struct json *params = NULL;
    struct buf o;
    struct jw j = { .out = &o };
    struct err bad;

    if (e) {
        lose(u, e->msg);
        return;
    }
    snprintf(u->box, sizeof u->box, "%s", b->id);
    const struct json *args = json_get(u->config, "args"), *env = json_get(u->config, "env");
    buf_init(&o, 1 * MiB);
    jw_obj(&j);
    jw_key(&j, "argv");
    jw_arr(&j);
    jw_str(&j, json_get_str(u->config, "command"));
    for (const struct json *k = args ? args->first : NULL; k; k = k->next)
        jw_str(&j, k->s);
    jw_arr_end(&j);
    if (env)
        jw_kraw(&j, "env", env->raw);
    jw_obj_end(&j);
    int r = json_parse(&u->arena, arena_copy(&u->arena, buf_view(&o)), &params, &bad);
    buf_done(&o);
    if (r < 0) {
        lose(u, bad.msg);
        return;
    }
    struct call_request q = { .surface = STR(CALL_FOR_THE_SERVER),
                              .worker = str_of(u->box),
                              .action = STR("pipe:run"),
                              .params = params,
                              .box = b,
                              .on_stream = on_stream };
    call_start(u->hub->node, &q, on_program_end, u);
}

static void start_box(struct upstream *u)
{
    struct box *b = u->box[0] ? box_find(u->hub->node, str_of(u->box)) : NULL;
    struct box_ask ask;
    struct err e;

    if (b && b->state == BOX_RUNNING) {
        on_box_up(u, b, NULL);
        return;
    }
    if (box_ask_bind(u->hub->node, json_get(u->config, "box"), &ask, &e) < 0) {
        lose(u, e.msg);
        return;
    }
    ask.standing = true;
    ask.labels = STR(LABEL);
    b = box_new(u->hub->node, &ask, &e);
    if (b)
        box_when_up(b, on_box_up, u);
    else
        lose(u, e.msg);
}

/* Those of an earlier server, whose programs nobody talks to any more. */
static void close_old_boxes(struct node *n)
{
    static bool done;
    struct box *b;

    for (size_t i = 0; !done && (b = map_next(&n->boxes, &i));)
        if (b->standing && b->state == BOX_RUNNING && str_is(b->labels, LABEL))
            box_close(b, "its MCP server starts again", NULL, NULL);
    done = true;
}

static void start(void *arg)
{
    struct upstream *u = arg;
    struct str url = json_get_str(u->config, "url");

    if (!u->hub->node->ready) {
        loop_timer_set(u->again, 50);
        return;
    }
    close_old_boxes(u->hub->node);
    if (url.p)
        start_relay(u, url);
    else
        start_box(u);
}

/* --- the file --- */

static bool is_server_name(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!s.p[i] || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-", s.p[i]))
            return false;
    return s.n > 0 && s.n <= SERVER_MAX_BYTES;
}

static int add_one(struct mcp_hub *h, const struct json *j, struct err *e)
{
    struct upstream *u = calloc(1, sizeof *u);
    struct str command = json_get_str(j, "command"), url = json_get_str(j, "url");

    if (!u)
        abort();
    if (!command.p == !url.p || !is_server_name(j->name)) {
        free(u);
        return err_set(e, ERR_INVALID,
                       "mcp.servers: %.*s: either a command or a url, and a name of 1 to %d letters, digits, _ and -",
                       (int)(j->name.n < 64 ? j->name.n : 64), j->name.p, SERVER_MAX_BYTES);
    }
    if (backend_find(j->name) || str_is(j->name, "sandglass")) {
        free(u);
        return err_set(e, ERR_EXISTS, "mcp.servers: %.*s: our own tools have this name", STR_ARG(j->name));
    }
    *u = (struct upstream){ .hub = h, .fd = -1, .next = upstreams, .hidden = json_get_bool(j, "hidden", false) };
    snprintf(u->name, sizeof u->name, "%.*s", STR_ARG(j->name));
    int r = json_parse(&u->arena, arena_copy(&u->arena, j->raw), &u->config, e);
    u->remote = r < 0 ? NULL : remote_new(h->node, u->name, &ops, u, e);
    if (!u->remote)
        return -EINVAL;
    u->again = loop_timer_new(h->loop, start, u);
    upstreams = u;
    loop_timer_set(u->again, 1);
    return 0;
}

int mcp_upstreams_start(struct surfaces *all, const char *file, int fd, struct err *e)
{
    struct arena a = { 0 };
    struct json *j = NULL;
    struct buf text;
    ssize_t got;
    void *room;

    if (!file[0])
        return 0;
    buf_init(&text, 1 * MiB);
    while ((room = buf_room(&text, 4096)) && (got = pread(fd, room, 4096, (off_t)text.n)) > 0)
        buf_grew(&text, (size_t)got);
    int r = json_parse(&a, buf_view(&text), &j, e);
    if (r < 0)
        r = err_wrap(e, r, "mcp.servers: %s", file);
    const struct json *list = json_get(j, "mcpServers");
    if (r >= 0 && (!list || list->type != JSON_OBJ))
        r = err_set(e, ERR_INVALID, "mcp.servers: %s has no object 'mcpServers'", file);
    for (const struct json *k = list ? list->first : NULL; k && r >= 0; k = k->next)
        r = add_one(surfaces_mcp(all), k, e);
    arena_done(&a);
    buf_done(&text);
    return r;
}

/* --- for the AIO API: which servers there are --- */

bool mcp_upstream_known(struct str name)
{
    const struct upstream *u = upstreams;

    while (u && !str_is(name, u->name))
        u = u->next;
    return u;
}

void mcp_upstreams_print(struct jw *w, bool hidden_too)
{
    for (const struct upstream *u = upstreams; u; u = u->next)
        if (hidden_too || !u->hidden)
            jw_z(w, u->name);
}
