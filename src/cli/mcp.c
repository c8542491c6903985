/* `sandglass mcp`: MCP over stdin and stdout, for clients that start their servers themselves. Each line goes to the
 * server's /mcp; what comes back, at once or as events, goes out as lines. Without a server one is started for as long
 * as this runs. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/loop.h"
#include "cli/cli.h"
#include "cli/client.h"

enum {
    AT_ONCE = 64,
    START_MS = 30000,
    LOOK_MS = 50,
    BEGIN_MS = 500, /* a server that answers by events has begun by then */
};

struct message {
    struct message *next; /* requests that have no answer yet */
    struct arena arena;
    struct str text, id; /* id: raw; p NULL: a notification */
    struct str cancels;  /* the id of the request that it cancels, raw; p NULL: none */
    bool opens;          /* initialize */
    bool begun;          /* the server has it, and has begun to answer */
    bool cancelled;      /* nothing is passed on any more */
    const char *headers; /* of a request without a session: what its body says; NULL: it is none */
    struct client *on;   /* its connection; NULL: none */
    bool listens;        /* it has no end of its own */
};

static struct {
    const char *url, *path;
    char more[2000]; /* header lines */
    char session[64];
    pthread_mutex_t lock; /* of stdout, and of what follows */
    pthread_cond_t fewer, begun;
    int busy;
    struct message *open;
    pid_t server; /* 0: not ours */
    char socket[80];
} mcp = { .lock = PTHREAD_MUTEX_INITIALIZER, .fewer = PTHREAD_COND_INITIALIZER, .begun = PTHREAD_COND_INITIALIZER };

/* m: the request that it is about, or NULL. What came of a cancelled one is not told, also if it crossed the
 * cancellation on its way. */
static void put(const struct message *m, struct str line)
{
    pthread_mutex_lock(&mcp.lock);
    if (!m || !m->cancelled) {
        fwrite(line.p, 1, line.n, stdout);
        fputc('\n', stdout);
        fflush(stdout);
    }
    pthread_mutex_unlock(&mcp.lock);
}

/* The message that a client gets if the server cannot be asked. */
static void put_error(const struct message *m, int code, const char *text)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 64 * KiB);
    jw_obj(&j);
    jw_kz(&j, "jsonrpc", "2.0");
    jw_kraw(&j, "id", m && m->id.p ? m->id : STR("null"));
    jw_key(&j, "error");
    jw_obj(&j);
    jw_kint(&j, "code", code);
    jw_kz(&j, "message", text);
    jw_obj_end(&j);
    jw_obj_end(&j);
    put(m, buf_view(&b));
    buf_done(&b);
}

static int ask(const char *method, const struct message *m, struct client **ret, struct err *e)
{
    char header[16 * 1024];
    bool in_session = mcp.session[0] && !(m && m->headers);
    struct str body = m ? m->text : (struct str){ 0 };

    snprintf(header, sizeof header, "Accept: application/json, text/event-stream%s%s%s%s",
             in_session ? "\r\nMcp-Session-Id: " : "", in_session ? mcp.session : "", m && m->headers ? m->headers : "",
             mcp.more);
    return client_open(
        &(struct client_request){ .url = mcp.url, .method = method, .path = mcp.path, .header = header, .body = body },
        ret, e);
}

/* A refusal by HTTP knows nothing of the request's id, and a client waits for just that. */
static void put_refusal(struct client *c, const struct message *m, struct str body)
{
    struct arena a = { 0 };
    struct json *j = NULL;
    struct err e;

    if (json_parse(&a, body, &j, &e) < 0)
        j = NULL;
    const struct json *id = json_get(j, "id");
    struct str text = json_get_str(json_get(j, "error"), "message");
    if (!text.p)
        text = json_get_str(j, "message");
    if (id && str_eq(id->raw, m->id))
        put(m, body);
    else
        put_error(m, -32603,
                  arena_printf(&a, "the server answered %d%s%.*s", client_status(c), text.n ? ": " : "",
                               (int)(text.n < 1000 ? text.n : 1000), text.n ? text.p : ""));
    arena_done(&a);
}

/* Copies what a server says: one message, or a stream of them. */
static int pass_on(struct client *c, const struct message *m, struct err *e)
{
    struct buf b;
    int r;

    buf_init(&b, LIMIT_HTTP_REPLY);
    if (strncmp(client_type(c), "text/event-stream", 17) != 0) {
        r = client_body(c, &b, e);
        for (size_t i = 0; i < b.n; i++) /* a line is a message */
            if (b.p[i] == '\n' || b.p[i] == '\r')
                b.p[i] = ' ';
        if (r >= 0 && client_status(c) >= 400 && m && m->id.p)
            put_refusal(c, m, buf_view(&b));
        else if (r >= 0 && b.n && client_status(c) < 400)
            put(m, buf_view(&b));
        buf_done(&b);
        return r;
    }
    while ((r = client_line(c, &b, e)) > 0) {
        if (b.n > 6 && memcmp(b.p, "data: ", 6) == 0)
            put(m, (struct str){ b.p + 6, b.n - 6 });
        buf_reset(&b);
    }
    buf_done(&b);
    return r;
}

static struct message *find_open(struct str id)
{
    struct message *m = mcp.open;

    while (m && !str_eq(m->id, id))
        m = m->next;
    return m;
}

static void add_open(struct message *m)
{
    pthread_mutex_lock(&mcp.lock);
    m->next = mcp.open;
    mcp.open = m;
    pthread_mutex_unlock(&mcp.lock);
}

static void drop_open(const struct message *m)
{
    pthread_mutex_lock(&mcp.lock);
    for (struct message **p = &mcp.open; *p; p = &(*p)->next)
        if (*p == m) {
            *p = m->next;
            break;
        }
    pthread_cond_broadcast(&mcp.begun);
    pthread_mutex_unlock(&mcp.lock);
}

static void begin(struct message *m, struct client *c)
{
    pthread_mutex_lock(&mcp.lock);
    m->begun = true;
    m->on = c;
    if (m->cancelled && m->headers)
        client_hang_up(c);
    pthread_cond_broadcast(&mcp.begun);
    pthread_mutex_unlock(&mcp.lock);
}

static void leave(struct message *m)
{
    pthread_mutex_lock(&mcp.lock);
    m->on = NULL;
    pthread_mutex_unlock(&mcp.lock);
}

static void give_up(struct message *m)
{
    m->cancelled = true;
    if (m->headers && m->on) /* without a session, this is what cancels */
        client_hang_up(m->on);
}

/* True: that is all there is to do. */
static bool mark_cancelled(struct str id)
{
    pthread_mutex_lock(&mcp.lock);
    struct message *m = find_open(id);
    bool done = m && m->headers;
    if (m)
        give_up(m);
    pthread_mutex_unlock(&mcp.lock);
    return done;
}

static void end_listening(void)
{
    pthread_mutex_lock(&mcp.lock);
    for (struct message *m = mcp.open; m; m = m->next)
        if (m->listens)
            give_up(m);
    pthread_mutex_unlock(&mcp.lock);
}

/* Each message has a connection of its own: a cancellation must not overtake what it cancels. */
static void let_it_begin(struct str id)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += BEGIN_MS * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&mcp.lock);
    for (struct message *m = find_open(id); m && !m->begun; m = find_open(id))
        if (pthread_cond_timedwait(&mcp.begun, &mcp.lock, &end) != 0)
            break;
    pthread_mutex_unlock(&mcp.lock);
}

static void deliver(struct message *m)
{
    struct client *c = NULL;
    struct err e;

    if (ask("POST", m, &c, &e) < 0) {
        if (m->id.p)
            put_error(m, -32603, e.msg);
        return;
    }
    begin(m, c);
    if (m->opens)
        snprintf(mcp.session, sizeof mcp.session, "%s", client_session(c));
    if (pass_on(c, m, &e) < 0 && m->id.p)
        put_error(m, -32603, e.msg);
    leave(m);
    client_close(c);
}

static void message_free(struct message *m)
{
    arena_done(&m->arena);
    free(m);
}

static void *deliver_aside(void *arg)
{
    struct message *m = arg;

    if (m->cancels.p)
        let_it_begin(m->cancels);
    deliver(m);
    if (m->id.p)
        drop_open(m);
    message_free(m);
    pthread_mutex_lock(&mcp.lock);
    mcp.busy--;
    pthread_cond_signal(&mcp.fewer);
    pthread_mutex_unlock(&mcp.lock);
    return NULL;
}

/* What the server says by itself. */
static void *listen_to(void *arg)
{
    struct client *c = NULL;
    struct err e;

    (void)arg;
    while (ask("GET", NULL, &c, &e) == 0) {
        bool fine = client_status(c) == 200;
        if (fine)
            (void)pass_on(c, NULL, &e);
        client_close(c);
        if (!fine)
            break;
    }
    return NULL;
}

static void wait_for_room(int most)
{
    pthread_mutex_lock(&mcp.lock);
    while (mcp.busy > most)
        pthread_cond_wait(&mcp.fewer, &mcp.lock);
    pthread_mutex_unlock(&mcp.lock);
}

static void start_thread(void *(*run)(void *), void *arg)
{
    pthread_t t;

    if (pthread_create(&t, NULL, run, arg) != 0)
        abort();
    pthread_detach(t);
}

static bool fits_a_header(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~')
            return false;
    return s.n > 0 && s.n < 200;
}

/* Since 2026-07-28 what a request is stands in headers, too; on stdin there are none. */
static void describe(struct message *m, const struct json *j)
{
    const struct json *params = json_get(j, "params");
    struct str version = json_get_str(json_get(params, "_meta"), "io.modelcontextprotocol/protocolVersion"),
               method = json_get_str(j, "method"),
               name = json_get_str(params, str_is(method, "resources/read") ? "uri" : "name");
    struct buf b;
    struct jw w = { .out = &b };

    if (!m->id.p || !fits_a_header(version) || !fits_a_header(method))
        return;
    buf_init(&b, 12 * 1024);
    buf_printf(&b, "\r\nMCP-Protocol-Version: %.*s\r\nMcp-Method: %.*s", STR_ARG(version), STR_ARG(method));
    if (name.n && name.n < 8 * 1024) {
        buf_z(&b, "\r\nMcp-Name: =?base64?");
        size_t at = b.n;
        jw_base64(&w, name);
        memmove(b.p + at, b.p + at + 1, b.n - at - 2); /* without the quotes */
        b.n -= 2;
        buf_z(&b, "?=");
    }
    m->headers = arena_z(&m->arena, buf_view(&b));
    m->listens = str_is(method, "subscriptions/listen");
    buf_done(&b);
}

static void take_line(char *line, size_t n)
{
    struct message *m = calloc(1, sizeof *m);
    struct json *j = NULL;
    struct err e;

    if (!m)
        abort();
    m->text = arena_copy(&m->arena, (struct str){ line, n });
    if (json_parse(&m->arena, m->text, &j, &e) < 0) {
        put_error(NULL, -32700, e.msg);
        message_free(m);
        return;
    }
    const struct json *id = json_get(j, "id");
    m->id = id ? id->raw : (struct str){ 0 };
    m->opens = str_is(json_get_str(j, "method"), "initialize");
    if (str_is(json_get_str(j, "method"), "notifications/cancelled")) {
        const struct json *what = json_get(json_get(j, "params"), "requestId");
        m->cancels = what ? what->raw : (struct str){ 0 };
    }
    describe(m, j);
    if (m->cancels.p && mark_cancelled(m->cancels)) {
        message_free(m);
        return;
    }
    if (!m->cancels.p && (m->opens || !m->id.p)) { /* in order with what comes after it */
        deliver(m);
        if (m->opens && mcp.session[0])
            start_thread(listen_to, NULL);
        message_free(m);
        return;
    }
    if (m->id.p) /* a cancellation makes room */
        wait_for_room(AT_ONCE - 1);
    pthread_mutex_lock(&mcp.lock);
    mcp.busy++;
    pthread_mutex_unlock(&mcp.lock);
    if (m->id.p)
        add_open(m);
    start_thread(deliver_aside, m);
}

/* ---- a server of our own ---- */

/* Is a server there, and has it started? */
static bool answers(void)
{
    struct client *c = NULL;
    struct err e;
    struct client_request r = { .url = mcp.url, .method = "GET", .path = "/sg/v1/status", .timeout_ms = 5000 };
    bool yes = client_open(&r, &c, &e) == 0 && client_status(c) != 503;

    client_close(c);
    return yes;
}

static void end_server(void)
{
    if (mcp.server <= 0)
        return;
    kill(mcp.server, SIGTERM);
    waitpid(mcp.server, NULL, 0);
    unlink(mcp.socket);
}

static int start_server(void)
{
    char url[100];

    snprintf(mcp.socket, sizeof mcp.socket, "/tmp/sandglass-mcp-%d.sock", (int)getpid());
    snprintf(url, sizeof url, "unix:%s", mcp.socket);
    mcp.server = fork();
    if (mcp.server < 0)
        return EXIT_FAILED;
    if (mcp.server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is for messages */
        execl("/proc/self/exe", "sandglass", "serve", "--listen", url, "--shutdown-kill=true", (char *)NULL);
        _exit(127);
    }
    mcp.url = strdup(url);
    for (int64_t end = now_ms() + START_MS; now_ms() < end;) {
        if (access(mcp.socket, F_OK) == 0 && answers())
            return EXIT_FINE;
        if (waitpid(mcp.server, NULL, WNOHANG) == mcp.server)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000L }, NULL);
    }
    complain("no server answered, and the one that was started did not come up; see above");
    mcp.server = 0;
    return EXIT_UNREACHABLE;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    const char *profile = NULL, *box = NULL, *relay = NULL;
    struct option_list headers = { 0 };
    struct words w;
    char path[256], *line = NULL;
    size_t size = 0;
    ssize_t n;
    int r = options_parse(
        cmd,
        (const struct option[]){
            { "profile", 0, OPTION_TEXT, &profile, "NAME",
              "which tools are shown: all, code, browser, desktop, aio, knowlyr" },
            { "box", 0, OPTION_TEXT, &box, "ID",
              "the box that they act in; 'own': a new one (default: the server's default box)" },
            { "relay", 0, OPTION_TEXT, &relay, "URL", "speak to the MCP server at this URL instead, whosever it is" },
            { "header", 0, OPTION_LIST, &headers, "LINE", "with --relay: a header for it" },
            { 0 } },
        0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n)
        return usage_error(cmd, "'%s': mcp takes options only", w.v[0]);
    for (size_t i = 0, at = 0; i < headers.n && at < sizeof mcp.more; i++)
        at += (size_t)snprintf(mcp.more + at, sizeof mcp.more - at, "\r\n%s", headers.v[i]);
    bool own = box && strcmp(box, "own") == 0;
    snprintf(path, sizeof path, "%s%s/mcp?box=%s%s%s", box && !own ? "/box/" : "", box && !own ? box : "",
             own ? "own" : "default", profile ? "&profile=" : "", profile ? profile : "");
    struct api api; /* knows where servers are */
    api_init(&api, &w);
    bool asked = w.url || getenv("SANDGLASS_URL");
    mcp.url = relay ? relay : api.url;
    mcp.path = relay ? "" : path;
    signal(SIGPIPE, SIG_IGN);
    if (relay) { /* what we show to our own server is nobody else's business */
        unsetenv("SANDGLASS_API_KEY");
        unsetenv("SANDGLASS_TICKET");
    }
    if (!relay && !answers() && (asked || start_server() != EXIT_FINE)) {
        if (asked)
            complain("no server at %s", mcp.url);
        return EXIT_UNREACHABLE;
    }
    while ((n = getline(&line, &size, stdin)) > 0) {
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            n--;
        if (n > 0)
            take_line(line, (size_t)n);
    }
    free(line);
    end_listening();
    wait_for_room(0);
    struct client *c = NULL;
    struct err e;
    if (mcp.session[0] && ask("DELETE", NULL, &c, &e) == 0)
        client_close(c);
    end_server();
    return EXIT_FINE;
}

const struct command command_mcp = {
    .name = "mcp",
    .words = "[--profile NAME] [--box ID|own] [--relay URL]",
    .about = "Speak MCP on stdin and stdout, for clients that start their servers themselves.",
    .more = "Uses the server at --url or SANDGLASS_URL; without either the one on the default address, and if there is "
            "none\n"
            "starts one that ends with this command.",
    .examples = "  sandglass mcp --profile code --box own\n"
                "  {\"mcpServers\": {\"sandglass\": {\"command\": \"sandglass\", \"args\": [\"mcp\"]}}}\n",
    .run = run,
    .remote = true,
};
