#include "session/extension.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "session/remote.h"

#define LIMIT_EXTENSION_LINE  (LIMIT_REMOTE_ANSWER + 64 * KiB)
#define LIMIT_EXTENSION_QUEUE (64 * MiB) /* of what one has not read yet */

enum { RESTART_MS = 500, RESTART_MAX_MS = 30000, WARGS = 64 };

struct extension {
    struct extension *next;
    struct node *node;
    struct remote *remote; /* NULL: it has not said hello */
    int fd;                /* -1: not connected */
    struct loop_fd *watch;
    struct buf in, out;
    size_t scanned, sent;
    /* one that we start */
    char *name;
    char **argv, **env;
    pid_t pid; /* 0: none */
    struct loop_timer *again;
    int64_t wait_ms, started_ms;
};

static struct extension *extensions;
static int listen_fd = -1;

/* --- talking --- */

static void lose(struct extension *x, const char *why);

static void flush_out(struct extension *x)
{
    while (x->sent < x->out.n) {
        ssize_t n = send(x->fd, x->out.p + x->sent, x->out.n - x->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            loop_change(x->watch, EPOLLIN | EPOLLOUT);
            return;
        }
        if (n < 0) {
            lose(x, "it closed its connection");
            return;
        }
        x->sent += (size_t)n;
    }
    buf_reset(&x->out);
    x->sent = 0;
    loop_change(x->watch, EPOLLIN);
}

static void say(struct extension *x, struct buf *take)
{
    if (x->fd < 0 || x->out.n - x->sent + take->n > (size_t)LIMIT_EXTENSION_QUEUE) {
        buf_done(take);
        if (x->fd >= 0)
            lose(x, "it does not read what it is sent");
        return;
    }
    buf_str(&x->out, buf_view(take));
    buf_char(&x->out, '\n');
    buf_done(take);
    flush_out(x);
}

static struct jw line(struct buf *b)
{
    struct jw w = { .out = b };

    buf_init(b, LIMIT_HTTP_BODY + 1 * MiB);
    jw_obj(&w);
    return w;
}

/* A client's own JSON may have line breaks between its tokens. */
static void jw_line(struct jw *w, const char *key, struct str json)
{
    jw_key(w, key);
    size_t at = w->out->n;
    jw_raw(w, json);
    for (size_t i = at; i < w->out->n; i++)
        if (w->out->p[i] == '\n' || w->out->p[i] == '\r')
            w->out->p[i] = ' ';
}

static void on_call(struct remote *r, struct remote_job *j, const struct call *c)
{
    struct buf b;
    struct jw w = line(&b);

    jw_kint(&w, "id", (int64_t)j->id);
    jw_kz(&w, "call", c->tool->name);
    jw_line(&w, "params", c->remote_params);
    jw_kstr(&w, "worker", c->worker_id);
    jw_kz(&w, "session", c->session_id[0] ? c->session_id : NULL);
    jw_kbool(&w, "temporary", c->temporary);
    jw_knum(&w, "timeout", (double)c->timeout_ms / 1000);
    jw_obj_end(&w);
    say(r->owner, &b);
}

static void on_cancel(struct remote *r, struct remote_job *j)
{
    struct buf b;
    struct jw w = line(&b);

    jw_kint(&w, "cancel", (int64_t)j->id);
    jw_obj_end(&w);
    say(r->owner, &b);
}

static void on_open(struct remote *r, struct remote_job *j, const struct session *s)
{
    struct buf b;
    struct jw w = line(&b);

    jw_kint(&w, "id", (int64_t)j->id);
    jw_kz(&w, "open", s->backend->name);
    jw_kz(&w, "worker", s->worker->id);
    jw_kz(&w, "session", s->id);
    jw_line(&w, "config", s->config.n ? s->config : STR("{}"));
    jw_obj_end(&w);
    say(r->owner, &b);
}

static void on_close(struct remote *r, const struct session *s)
{
    struct buf b;
    struct jw w = line(&b);

    jw_kz(&w, "close", s->backend->name);
    jw_kz(&w, "worker", s->worker->id);
    jw_kz(&w, "session", s->id);
    jw_obj_end(&w);
    say(r->owner, &b);
}

static const struct remote_ops ops = { .call = on_call, .cancel = on_cancel, .open = on_open, .close = on_close };

/* --- listening --- */

static void tell_error(struct extension *x, const char *text)
{
    struct buf b;
    struct jw w = line(&b);

    jw_kz(&w, "error", text);
    jw_obj_end(&w);
    say(x, &b);
}

/* Its remote, if one of that name was here before and is gone now; else a new one. */
static struct remote *remote_of(struct extension *x, const char *name, struct err *e)
{
    for (struct extension *o = extensions; o; o = o->next)
        if (o != x && o->remote && strcmp(o->remote->name, name) == 0) {
            if (o->remote->up) {
                err_set(e, ERR_EXISTS, "name: an extension '%s' is connected already", name);
                return NULL;
            }
            struct remote *r = o->remote;
            o->remote = NULL;
            r->owner = x;
            return r;
        }
    return remote_new(x->node, name, &ops, x, e);
}

static bool take_hello(struct extension *x, const struct json *m, struct err *e)
{
    struct arena a = { 0 };
    struct str name = json_get_str(m, "name");
    char *z = arena_z(&a, name.n && name.n < 64 ? name : STR("extension"));
    bool fine = false;

    if (json_get_int(m, "hello", 0) != 1)
        err_set(e, ERR_INVALID, "the first line must be a hello of version 1");
    else if (x->remote || (x->remote = remote_of(x, z, e)))
        fine = remote_offer(x->remote, json_get(m, "backends"), e) >= 0;
    arena_done(&a);
    if (!fine)
        return false;
    struct buf b;
    struct jw w = line(&b);
    jw_kint(&w, "welcome", 1);
    jw_kz(&w, "version", SANDGLASS_VERSION);
    jw_obj_end(&w);
    say(x, &b);
    log_info("extension is here", "name=%s", x->remote->name);
    return true;
}

static bool take_answer(struct extension *x, const struct json *m, struct err *e)
{
    const struct json *id = json_get(m, "id"), *ok = json_get(m, "ok"), *error = json_get(m, "error");
    struct remote_job *j;

    if (!id || !id->is_int || (!ok && !error)) {
        err_set(e, ERR_INVALID, "it sent a line that is no answer: id and ok, or id and error, are expected");
        return false;
    }
    j = remote_find(x->remote, (uint64_t)id->i);
    if (!j) /* too late, or cancelled */
        return true;
    struct arena a = { 0 };
    struct str code = json_get_str(error, "code"), text = json_get_str(error, "message");
    if (ok)
        remote_answer(j, ok, NULL, NULL);
    else
        remote_answer(j, NULL, str_is(code, "invalid") ? "invalid" : "failed",
                      text.p ? arena_z(&a, text) : "it failed without a message");
    arena_done(&a);
    return true;
}

static bool take_line(struct extension *x, struct str text, struct err *e)
{
    struct arena a = { 0 };
    struct json *m = NULL;
    bool fine = json_parse(&a, text, &m, e) == 0;

    if (!fine)
        err_set(e, ERR_INVALID, "it sent a line that is no JSON");
    else if (!x->remote || !x->remote->up)
        fine = take_hello(x, m, e);
    else
        fine = take_answer(x, m, e);
    arena_done(&a);
    return fine;
}

static void on_data(void *arg, uint32_t events)
{
    struct extension *x = arg;
    struct err e;

    if (events & EPOLLOUT)
        flush_out(x);
    for (int turns = 0; turns < 16 && x->fd >= 0; turns++) {
        void *room = buf_room(&x->in, 64 * KiB);
        ssize_t n = room ? recv(x->fd, room, 64 * KiB, MSG_DONTWAIT) : -1;
        if (!room) {
            lose(x, "it sent a line longer than LIMIT_REMOTE_ANSWER (32 MiB)");
            return;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n <= 0) {
            lose(x, "it ended");
            return;
        }
        buf_grew(&x->in, (size_t)n);
        char *nl;
        size_t from = 0;
        while (x->fd >= 0 && x->scanned < x->in.n && (nl = memchr(x->in.p + x->scanned, '\n', x->in.n - x->scanned))) {
            struct str text = { x->in.p + from, (size_t)(nl - x->in.p) - from };
            x->scanned = from = (size_t)(nl - x->in.p) + 1;
            if (text.n && !take_line(x, text, &e)) {
                tell_error(x, e.msg);
                lose(x, e.msg);
                return;
            }
        }
        if (x->fd < 0)
            return;
        buf_eat(&x->in, from);
        x->scanned = x->in.n;
    }
}

/* --- coming and going --- */

static void attach(struct extension *x, int take_fd)
{
    x->fd = take_fd;
    buf_init(&x->in, LIMIT_EXTENSION_LINE);
    buf_init(&x->out, LIMIT_EXTENSION_QUEUE + LIMIT_HTTP_BODY);
    x->scanned = x->sent = 0;
    x->watch = loop_watch(x->node->loop, x->fd, EPOLLIN, on_data, x);
}

static void free_later(void *arg)
{
    free(arg);
}

static void lose(struct extension *x, const char *why)
{
    if (x->fd < 0)
        return;
    log_warn("extension is gone", "name=%s why=\"%s\"", x->remote ? x->remote->name : x->name ? x->name : "?", why);
    loop_unwatch(x->watch);
    close(x->fd);
    x->fd = -1;
    buf_done(&x->in);
    buf_done(&x->out);
    if (x->remote)
        remote_down(x->remote, why);
    if (x->argv) {
        if (x->pid > 0) {
            kill(x->pid, SIGKILL);
            waitpid(x->pid, NULL, 0);
            x->pid = 0;
        }
        bool lived = now_ms() - x->started_ms > RESTART_MAX_MS;
        x->wait_ms = lived || !x->wait_ms              ? RESTART_MS
                     : x->wait_ms * 2 > RESTART_MAX_MS ? RESTART_MAX_MS
                                                       : x->wait_ms * 2;
        loop_timer_set(x->again, x->wait_ms);
        return;
    }
    if (x->remote) /* it may come back under its name */
        return;
    for (struct extension **p = &extensions; *p; p = &(*p)->next)
        if (*p == x) {
            *p = x->next;
            break;
        }
    loop_later(x->node->loop, free_later, x);
}

static void start(void *arg)
{
    struct extension *x = arg;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        loop_timer_set(x->again, RESTART_MAX_MS);
        return;
    }
    x->started_ms = now_ms();
    pid_t parent = getpid();
    x->pid = fork();
    if (x->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        dup2(pair[1], 0);
        dup2(pair[1], 1);
        signal(SIGPIPE, SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        for (char **v = x->env; v && *v; v++)
            putenv(*v);
        execvp(x->argv[0], x->argv);
        fprintf(stderr, "extension %s: cannot run %s: %m\n", x->name, x->argv[0]);
        _exit(127);
    }
    close(pair[1]);
    if (x->pid < 0) {
        close(pair[0]);
        loop_timer_set(x->again, RESTART_MAX_MS);
        return;
    }
    attach(x, pair[0]);
}

static void on_connect(void *arg, uint32_t events)
{
    struct node *n = arg;
    size_t count = 0;

    (void)events;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    for (struct extension *x = extensions; x; x = x->next)
        count++;
    if (fd < 0 || count >= 2 * LIMIT_REMOTES) {
        if (fd >= 0)
            close(fd);
        return;
    }
    struct extension *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    *x = (struct extension){ .node = n, .fd = -1, .next = extensions };
    extensions = x;
    attach(x, fd);
}

static int open_socket(struct node *n, struct err *e)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };

    snprintf(a.sun_path, sizeof a.sun_path, "%s/run/extend.sock", n->opts.home);
    unlink(a.sun_path);
    listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t before = umask(0177);
    bool ok = listen_fd >= 0 && bind(listen_fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(listen_fd, 64) == 0;
    umask(before);
    if (!ok)
        return err_sys(e, "listen for extensions on %s", a.sun_path);
    loop_watch(n->loop, listen_fd, EPOLLIN, on_connect, n);
    return 0;
}

/* --- the file --- */

static char **strings_of(const struct json *list, struct err *e)
{
    char **v = calloc(WARGS + 1, sizeof *v);
    size_t n = 0;

    for (const struct json *k = list ? list->first : NULL; v && k && n < WARGS; k = k->next) {
        if (k->type != JSON_STR) {
            err_set(e, ERR_TYPE, "expected strings, got %s", json_type_name(k->type));
            free(v);
            return NULL;
        }
        if (k->name.p) {
            if (asprintf(&v[n++], "%.*s=%.*s", STR_ARG(k->name), STR_ARG(k->s)) < 0)
                abort();
        } else {
            v[n++] = strndup(k->s.p, k->s.n);
        }
    }
    return v;
}

static int add_one(struct node *n, const struct json *j, struct err *e)
{
    const struct json *command = json_get(j, "command");

    if (!command || command->type != JSON_ARR || !command->count)
        return err_set(e, ERR_INVALID, "extensions.%.*s.command: an array of strings is required", STR_ARG(j->name));
    struct extension *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    *x = (struct extension){ .node = n, .fd = -1, .name = strndup(j->name.p, j->name.n) };
    x->argv = strings_of(command, e);
    x->env = strings_of(json_get(j, "env"), e);
    if (!x->argv || !x->env)
        return err_wrap(e, -EINVAL, "extensions.%s", x->name);
    x->again = loop_timer_new(n->loop, start, x);
    x->next = extensions;
    extensions = x;
    start(x);
    return 0;
}

int extensions_start(struct node *n, const char *file, int fd, struct err *e)
{
    struct arena a = { 0 };
    struct json *j = NULL;
    struct buf text;
    int r = open_socket(n, e);

    if (r < 0 || !file[0])
        return r;
    buf_init(&text, 1 * MiB);
    ssize_t got;
    void *room;
    while ((room = buf_room(&text, 4096)) && (got = pread(fd, room, 4096, (off_t)text.n)) > 0)
        buf_grew(&text, (size_t)got);
    r = json_parse(&a, buf_view(&text), &j, e);
    if (r < 0)
        r = err_wrap(e, r, "extensions: %s", file);
    const struct json *list = json_get(j, "extensions");
    if (r >= 0 && (!list || list->type != JSON_OBJ))
        r = err_set(e, ERR_INVALID, "extensions: %s has no object 'extensions'", file);
    for (const struct json *k = list ? list->first : NULL; k && r >= 0; k = k->next)
        r = add_one(n, k, e);
    arena_done(&a);
    buf_done(&text);
    return r;
}
