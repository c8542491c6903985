#include "init/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/hmac.h"
#include "init/child.h"
#include "init/script.h"
#include "wire/boot.h"

/* REACT_MS: how long an interrupted cell may take to end. NUDGE_MS: a subscription is in force some time after it was
 * sent, and the only sign of it is that something arrives. */
enum {
    START_MS = 60000,
    RETRY_MS = 3,
    NUDGE_MS = 30,
    REACT_MS = 3000,
    READ_MAX = 256 * 1024,
    DEATH_MS = 1000,
    ROUNDS = 64
};

enum channel { SHELL, IOPUB, STDIN, CONTROL, CHANNELS };

struct request { /* the one under way */
    char id[33];
    bool replied, idle, asking, password;
    char *reply;
    size_t reply_n;
    char *prompt;
    size_t answers_used;
};

struct kernel {
    struct kernel_spec spec; /* in own */
    struct arena own;
    struct peer peer;
    char prefix[80], key[33], identity[33];
    struct zmtp zmtp[CHANNELS];
    int fd[CHANNELS];
    struct request now;
    struct outputs outputs;
    struct stream background;
    struct arena scratch; /* of one message */
    int64_t begun_us;
    bool up, fresh, garbage, carried, unused, at_home; /* at_home: it has read the user's own settings of IPython */
    struct strs lost;                                  /* carried: what was not; in own */
    unsigned number;
};

/* --- small things --- */

static void random_id(char out[33])
{
    unsigned char raw[16];

    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        abort();
    for (size_t i = 0; i < sizeof raw; i++)
        snprintf(out + 2 * i, 3, "%02x", raw[i]);
}

struct str kernel_name(const struct kernel *k)
{
    return k->spec.name;
}

struct str kernel_language(const struct kernel *k)
{
    return k->spec.language;
}

bool kernel_carried(struct kernel *k, struct strs *ret_lost)
{
    bool was = k->carried;

    *ret_lost = was ? k->lost : (struct strs){ 0 };
    k->carried = false;
    return was;
}

bool kernel_fresh(struct kernel *k)
{
    bool was = k->fresh;

    k->fresh = false;
    return was;
}

struct str kernel_background(struct kernel *k, struct arena *a)
{
    struct str text = k->background.total ? stream_text(&k->background, a) : (struct str){ 0 };

    stream_done(&k->background);
    stream_init(&k->background, LIMIT_OUTPUT_HEAD / 4, LIMIT_OUTPUT_TAIL / 4, 0);
    return text;
}

static void request_done(struct request *r)
{
    free(r->reply);
    free(r->prompt);
    *r = (struct request){ 0 };
}

static const char *channel_path(const struct kernel *k, enum channel c, char out[108])
{
    snprintf(out, 108, "%s-%d", k->prefix, (int)c + 1);
    return out;
}

static void disconnect(struct kernel *k)
{
    char path[108];

    for (int c = 0; c < CHANNELS; c++) {
        if (k->fd[c] >= 0) {
            close(TAKE_FD(k->fd[c]));
            zmtp_done(&k->zmtp[c]);
        }
        (void)unlink(channel_path(k, (enum channel)c, path));
    }
    snprintf(path, sizeof path, "%s-5", k->prefix);
    (void)unlink(path);
    snprintf(path, sizeof path, "%s.json", k->prefix);
    (void)unlink(path);
}

static void down(struct hand *h, struct kernel *k)
{
    peer_drain(&k->peer);
    peer_end(h, &k->peer);
    disconnect(k);
    k->up = false;
    k->now.asking = false;
}

void kernel_stop(struct hand *h)
{
    struct kernel *k = h->self->state;

    if (h->self->seed)
        (void)unlink(TAKE_PTR(h->self->seed));
    if (!k)
        return;
    down(h, k);
    k->fresh = true;
}

bool kernel_is_up(const struct hand *h)
{
    const struct kernel *k = h->self->state;

    return k && k->up;
}

bool kernel_asking(const struct hand *h)
{
    const struct kernel *k = h->self->state;

    return k && k->up && k->now.asking;
}

/* --- messages --- */

static int send_message(struct kernel *k, enum channel c, const char *type, struct str content, char id[33])
{
    AUTO(buf_done) struct buf head = { .cap = 4 * KiB };
    struct jw w = { .out = &head };
    char signature[HMAC_HEX + 1], date[40];
    struct timespec now;
    struct tm tm;

    if (id)
        random_id(id);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S.000000Z", &tm);
    jw_obj(&w);
    jw_kz(&w, "msg_id", id ? id : "none");
    jw_kz(&w, "session", k->identity);
    jw_kz(&w, "username", "gem");
    jw_kz(&w, "date", date);
    jw_kz(&w, "msg_type", type);
    jw_kz(&w, "version", "5.3");
    jw_obj_end(&w);
    struct str parts[] = { STR("<IDS|MSG>"), { 0 }, buf_view(&head), STR("{}"), STR("{}"), content };
    hmac_sha256_hex(str_of(k->key), parts + 2, 4, signature);
    parts[1] = str_of(signature);
    return zmtp_send(&k->zmtp[c], parts, ARRAY_LEN(parts)) ? 0 : -ENOBUFS;
}

struct message {
    struct str type, parent;
    const struct json *content;
    uint64_t skipped;
    struct str cut, tail; /* skipped: the beginning and the end of the content */
};

/* False: not a message of this kernel. */
static bool open_message(struct kernel *k, const struct zmtp_message *m, struct message *ret)
{
    char signature[HMAC_HEX + 1];
    struct json *head = NULL, *parent = NULL, *content = NULL;
    size_t at = 0;

    while (at < m->n && !str_is(m->parts[at], "<IDS|MSG>"))
        at++;
    if (m->n - at < 6)
        return false;
    const struct str *p = m->parts + at;
    hmac_sha256_hex(str_of(k->key), p + 2, 4, signature);
    if (!m->skipped && !str_is(p[1], signature)) /* of a message that was cut, the signature says nothing */
        return false;
    if (json_parse(&k->scratch, p[2], &head, NULL) < 0 || json_parse(&k->scratch, p[3], &parent, NULL) < 0)
        return false;
    if (!m->skipped && json_parse(&k->scratch, p[5], &content, NULL) < 0)
        content = NULL;
    *ret = (struct message){ .type = json_get_str(head, "msg_type"),
                             .parent = json_get_str(parent, "msg_id"),
                             .content = content,
                             .skipped = m->skipped,
                             .cut = p[5],
                             .tail = m->tail };
    return ret->type.p != NULL;
}

static void on_iopub(struct kernel *k, const struct message *m)
{
    bool ours = k->now.id[0] && str_is(m->parent, k->now.id);

    if (str_is(m->type, "status")) {
        if (ours && str_is(json_get_str(m->content, "execution_state"), "idle"))
            k->now.idle = true;
        return;
    }
    if (m->skipped && ours && str_is(m->type, "stream")) {
        outputs_add_cut(&k->outputs, m->cut, m->tail, (int64_t)m->skipped);
        return;
    }
    if (m->skipped) {
        char line[100];
        int n = snprintf(line, sizeof line, "[%llu bytes of %.20s left out: LIMIT_KERNEL_MESSAGE is %ld]\n",
                         (unsigned long long)m->skipped, arena_z(&k->scratch, m->type), (long)LIMIT_KERNEL_MESSAGE);
        k->outputs.dropped += (int64_t)m->skipped;
        outputs_note(&k->outputs, "stderr", (struct str){ line, (size_t)n });
        return;
    }
    if (ours && !k->now.idle)
        outputs_add(&k->outputs, m->type, m->content);
    else if (str_is(m->type, "stream")) /* a thread of an earlier cell */
        stream_add(&k->background, json_get_str(m->content, "text").p, json_get_str(m->content, "text").n);
}

static void keep_reply(struct request *r, const struct json *content)
{
    struct str raw = content ? content->raw : STR("{}");

    free(r->reply);
    r->reply = malloc(raw.n + 1);
    if (!r->reply)
        abort();
    memcpy(r->reply, raw.p, raw.n);
    r->reply_n = raw.n;
    r->replied = true;
}

static void on_message(struct kernel *k, enum channel c, const struct zmtp_message *zm)
{
    struct message m;

    if (!open_message(k, zm, &m)) {
        k->garbage = true;
    } else if (c == IOPUB) {
        on_iopub(k, &m);
    } else if (c == SHELL && str_is(m.parent, k->now.id)) {
        keep_reply(&k->now, m.content);
    } else if (c == STDIN && str_is(m.type, "input_request") && str_is(m.parent, k->now.id)) {
        struct str prompt = json_get_str(m.content, "prompt");
        free(k->now.prompt);
        k->now.prompt = strndup(prompt.p ? prompt.p : "", prompt.n < 4096 ? prompt.n : 4096);
        k->now.password = json_get_bool(m.content, "password", false);
        k->now.asking = true;
    }
    arena_reset(&k->scratch);
}

/* --- descriptors --- */

static int connect_to(struct kernel *k, enum channel c)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    channel_path(k, c, to.sun_path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        return -errno;
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    zmtp_init(&k->zmtp[c], c == IOPUB ? ZMTP_SUB : ZMTP_DEALER, k->identity);
    k->fd[c] = TAKE_FD(fd);
    return 0;
}

static bool flush(struct kernel *k, enum channel c)
{
    struct zmtp *z = &k->zmtp[c];

    while (z->out.n) {
        ssize_t n = send(k->fd[c], z->out.p, z->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n <= 0)
            return false;
        buf_eat(&z->out, (size_t)n);
    }
    return true;
}

static bool take(struct kernel *k, enum channel c)
{
    struct zmtp *z = &k->zmtp[c];
    struct zmtp_message m;
    struct err e;

    void *to = buf_room(&z->in, READ_MAX);
    ssize_t n = to ? recv(k->fd[c], to, READ_MAX, MSG_DONTWAIT) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    buf_grew(&z->in, (size_t)n);
    int r;
    while ((r = zmtp_next(z, &m, &e)) > 0)
        on_message(k, c, &m);
    if (r < 0)
        k->garbage = true;
    return r >= 0;
}

static size_t watch_list(const struct kernel *k, struct pollfd *p, enum channel *which)
{
    size_t n = 0;

    for (int c = 0; c < CHANNELS; c++)
        if (k->fd[c] >= 0) {
            which[n] = (enum channel)c;
            p[n++] = (struct pollfd){ k->fd[c], (short)(POLLIN | (k->zmtp[c].out.n ? POLLOUT : 0)), 0 };
        }
    if (k->peer.pidfd >= 0)
        p[n++] = (struct pollfd){ k->peer.pidfd, POLLIN, 0 };
    if (k->peer.out >= 0)
        p[n++] = (struct pollfd){ k->peer.out, POLLIN, 0 };
    if (k->peer.err >= 0)
        p[n++] = (struct pollfd){ k->peer.err, POLLIN, 0 };
    return n;
}

/* One turn. False: the kernel is gone, or what is there is none. */
static bool turn(struct hand *h, struct kernel *k, int64_t timeout_ms)
{
    struct pollfd p[CHANNELS + 3];
    enum channel which[CHANNELS];
    bool fine = true;

    for (int c = 0; c < CHANNELS; c++)
        if (k->fd[c] >= 0 && !flush(k, (enum channel)c))
            fine = false;
    size_t n = watch_list(k, p, which);
    (void)driver_poll(h, p, n, timeout_ms);
    for (size_t i = 0; i < n; i++) {
        if (!p[i].revents)
            continue;
        size_t c = 0;
        while (c < CHANNELS && k->fd[c] != p[i].fd)
            c++;
        if (c < CHANNELS && p[i].revents & (POLLIN | POLLHUP | POLLERR) && !take(k, (enum channel)c))
            fine = false;
    }
    peer_drain(&k->peer);
    return fine && !peer_ended(&k->peer);
}

/* --- starting --- */

static int write_connection_file(const struct kernel *k, const char *path, struct err *e)
{
    AUTO(buf_done) struct buf b = { .cap = 4 * KiB };
    struct jw w = { .out = &b };
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    jw_obj(&w);
    jw_kz(&w, "transport", "ipc");
    jw_kz(&w, "ip", k->prefix);
    jw_kint(&w, "shell_port", SHELL + 1);
    jw_kint(&w, "iopub_port", IOPUB + 1);
    jw_kint(&w, "stdin_port", STDIN + 1);
    jw_kint(&w, "control_port", CONTROL + 1);
    jw_kint(&w, "hb_port", CHANNELS + 1);
    jw_kz(&w, "key", k->key);
    jw_kz(&w, "signature_scheme", "hmac-sha256");
    jw_kstr(&w, "kernel_name", k->spec.name);
    jw_obj_end(&w);
    if (fd < 0 || write(fd, b.p, b.n) != (ssize_t)b.n)
        return err_sys(e, "write %s", path);
    return 0;
}

/* Our script runs ipykernel in the python3 of the box: it can stand in for that program only. */
static bool is_ours(const struct kernel_spec *s)
{
    static const char *const words[] = { "-m", "ipykernel_launcher", "-f", "{connection_file}" };
    auto_free char *theirs = NULL, *ours = realpath("/usr/bin/python3", NULL);
    char path[256];

    if (s->argv.n != 5 || access("/usr/local/bin/python3", X_OK) == 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (!str_is(s->argv.v[i + 1], words[i]))
            return false;
    snprintf(path, sizeof path, "%s%.*s", memchr(s->argv.v[0].p, '/', s->argv.v[0].n) ? "" : "/usr/bin/",
             STR_ARG(s->argv.v[0]));
    theirs = realpath(path, NULL);
    return theirs && ours && strcmp(theirs, ours) == 0;
}

static const char *const *argv_of(struct hand *h, const struct kernel_spec *s, const char *file)
{
    const char **argv = arena_alloc(h->arena, (s->argv.n + 1) * sizeof *argv);
    static const char slot[] = "{connection_file}";

    for (size_t i = 0; i < s->argv.n; i++) {
        const char *word = arena_z(h->arena, s->argv.v[i]), *at = strstr(word, slot);
        argv[i] = at ? arena_printf(h->arena, "%.*s%s%s", (int)(at - word), word, file, at + sizeof slot - 1) : word;
    }
    return argv;
}

static bool has_settings(void)
{
    return access(BOX_HOME "/.ipython", F_OK) == 0;
}

static int start_process(struct hand *h, struct kernel *k, struct str cwd, struct err *e)
{
    const char *own[PYSERVER_MODULES + 5] = { "python3", SCRIPT_PYTHON, "kernel" };
    bool ours = is_ours(&k->spec);
    struct pair *env = arena_alloc(h->arena, (k->spec.env.n + 4) * sizeof *env);
    struct pairs more = { env, 0 };
    char *file = arena_printf(h->arena, "%s.json", k->prefix);

    int r = write_connection_file(k, file, e);
    if (r < 0)
        return r;
    env[more.n++] = (struct pair){ STR("PYDEVD_DISABLE_FILE_VALIDATION"), STR("1") };
    k->at_home = has_settings();
    if (!k->at_home) /* else the kernel would make one in the agent's home */
        env[more.n++] = (struct pair){ STR("IPYTHONDIR"), STR(BOX_USER_RUN "/ipython") };
    for (size_t i = 0; i < k->spec.env.n; i++)
        env[more.n++] = k->spec.env.v[i];
    own[3] = file;
    if (h->self->warming)
        pyserver_modules(h->init, h->arena, own + 4, PYSERVER_MODULES);
    return peer_start(h, &k->peer,
                      &(struct peer_ask){ .argv = ours ? own : argv_of(h, &k->spec, file),
                                          .cwd = arena_z(h->arena, cwd.n ? cwd : h->cwd),
                                          .env = &more,
                                          .server = ours ? pyserver_socket(h->init, PYSERVER_KERNEL) : NULL,
                                          .connection_file = file },
                      e);
}

static int gave_up(struct hand *h, struct kernel *k, struct err *e)
{
    struct str story = h->self->wish == WISH_CANCEL ? STR("cancelled")
                       : k->garbage                 ? STR("it does not speak the Jupyter protocol")
                       : peer_ended(&k->peer)       ? peer_story(&k->peer, h->arena)
                                                    : STR("it did not answer in time");

    down(h, k);
    return err_set(e, ERR_SYSTEM, "kernel %.*s did not start: %.*s", STR_ARG(k->spec.name), STR_ARG(story));
}

static int64_t start_until(const struct hand *h)
{
    int64_t until = now_ms() + START_MS;

    return h->deadline_ms && h->deadline_ms < until ? h->deadline_ms : until;
}

static int connect_all(struct hand *h, struct kernel *k, struct err *e)
{
    static const enum channel wanted[] = { SHELL, STDIN, IOPUB, CONTROL };
    int64_t until = start_until(h);

    for (size_t i = 0; i < ARRAY_LEN(wanted);) {
        if (connect_to(k, wanted[i]) == 0) {
            i++;
            continue;
        }
        if (now_ms() > until || h->self->wish == WISH_CANCEL || peer_ended(&k->peer))
            return gave_up(h, k, e);
        (void)turn(h, k, RETRY_MS);
    }
    return 0;
}

/* Ready when it has answered, and its answer was seen on the broadcast channel too. */
static int greet(struct hand *h, struct kernel *k, struct err *e)
{
    int64_t until = start_until(h);

    while (!k->now.replied || !k->now.idle) {
        request_done(&k->now);
        if (send_message(k, SHELL, "kernel_info_request", STR("{}"), k->now.id) < 0)
            return gave_up(h, k, e);
        int64_t replied_ms = 0;
        while (!k->now.idle && (!replied_ms || now_ms() - replied_ms < NUDGE_MS)) {
            if (now_ms() > until || h->self->wish == WISH_CANCEL || !turn(h, k, replied_ms ? NUDGE_MS : 1000))
                return gave_up(h, k, e);
            if (k->now.replied && !replied_ms)
                replied_ms = now_ms();
        }
        while (!k->now.replied)
            if (now_ms() > until || !turn(h, k, 1000))
                return gave_up(h, k, e);
    }
    k->up = true;
    return 0;
}

static int start(struct hand *h, struct kernel *k, struct str cwd, struct err *e)
{
    snprintf(k->prefix, sizeof k->prefix, BOX_USER_RUN "/k%d.%u", (int)getpid(), ++k->number);
    random_id(k->key);
    random_id(k->identity);
    k->garbage = false;
    outputs_done(&k->outputs);
    outputs_init(&k->outputs, h->head_bytes, h->tail_bytes);
    int r = start_process(h, k, cwd, e);
    if (r >= 0)
        r = connect_all(h, k, e);
    return r < 0 ? r : greet(h, k, e);
}

static struct kernel *kernel_new(struct hand *h)
{
    struct kernel *k = calloc(1, sizeof *k);

    if (!k)
        abort();
    for (int c = 0; c < CHANNELS; c++)
        k->fd[c] = -1;
    k->peer = (struct peer){ .pidfd = -1, .server = -1, .ctl = -1, .out = -1, .err = -1, .status = -1 };
    k->fresh = h->self->restarts > 0;
    outputs_init(&k->outputs, h->head_bytes, h->tail_bytes);
    stream_init(&k->background, LIMIT_OUTPUT_HEAD / 4, LIMIT_OUTPUT_TAIL / 4, 0);
    h->self->state = k;
    return k;
}

static int enter_directory(struct hand *h, struct kernel *k, struct str cwd, struct err *e)
{
    struct buf b = { .cap = 16 * KiB };
    struct jw w = { .out = &b };
    struct cell_end end;

    if (!str_is(k->spec.language, "python"))
        return err_set(e, ERR_INVALID, "cwd: a kernel of language %.*s is there already, and cannot be moved",
                       STR_ARG(k->spec.language));
    buf_z(&b, "(lambda os, d: (os.chdir(d), os.environ.update(PWD=d)))(__import__('os'), ");
    jw_str(&w, cwd);
    buf_z(&b, ")");
    int r = kernel_run(h, k, &(struct cell){ .code = arena_copy(h->arena, buf_view(&b)), .silent = true }, &end, e);
    buf_done(&b);
    if (r >= 0 && end.status != CELL_OK)
        r = err_set(e, ERR_NOT_FOUND, "cwd: '%.*s' cannot be entered", STR_ARG(cwd));
    return r;
}

/* --- one that waits for its session --- */

static void warm(struct hand *h)
{
    struct kernel *k = kernel_new(h);
    struct err e;

    if (kernel_spec_find(&k->own, (struct str){ 0 }, &k->spec, &e) < 0 || !is_ours(&k->spec) || k->spec.env.n ||
        start(h, k, (struct str){ 0 }, &e) < 0) {
        k->spec = (struct kernel_spec){ 0 }; /* the first call tries again, and tells */
        return;
    }
    k->unused = true;
}

/* As one that is started now: the spec, the user's settings and the packages are those with which it began. */
static bool still_good(struct hand *h, struct kernel *k, struct str name)
{
    static const char ask[] = "1 // (not __import__('sys').modules['_sandglass_carry'].stale())";
    struct kernel_spec now;
    struct cell_end end;
    struct err e;

    return turn(h, k, 0) && kernel_spec_find(h->arena, name, &now, &e) >= 0 && str_eq(now.name, k->spec.name) &&
           is_ours(&now) && !now.env.n && k->at_home == has_settings() &&
           kernel_run(h, k, &(struct cell){ .code = STR(ask), .silent = true }, &end, &e) >= 0 && end.status == CELL_OK;
}

static void begin_use(struct hand *h, struct kernel *k, struct str name)
{
    k->unused = false;
    if (!k->up || !still_good(h, k, name)) {
        down(h, k);
        k->spec = (struct kernel_spec){ 0 };
    }
    k->fresh = false; /* nothing is lost with one that never had a call */
}

int kernel_get(struct hand *h, struct str name, struct str cwd, struct kernel **ret, struct err *e)
{
    struct kernel *k = h->self->state ? h->self->state : kernel_new(h);

    *ret = k;
    if (k->unused)
        begin_use(h, k, name);
    if (k->up && turn(h, k, 0)) {
        struct kernel_spec other;
        int r = name.n ? kernel_spec_find(h->arena, name, &other, e) : 0;
        if (r < 0)
            return r;
        if (name.n && !str_eq(other.name, k->spec.name))
            return err_set(e, ERR_INVALID, "kernel_name: session has a kernel '%.*s', not '%.*s'",
                           STR_ARG(k->spec.name), STR_ARG(name));
        return cwd.n ? enter_directory(h, k, cwd, e) : 0;
    }
    if (k->up) { /* it died between two calls */
        down(h, k);
        k->fresh = true;
    }
    if (name.n || !k->spec.name.n) {
        arena_reset(&k->own);
        k->spec = (struct kernel_spec){ 0 };
        int r = kernel_spec_find(&k->own, name, &k->spec, e);
        if (r < 0)
            return r;
    }
    int r = start(h, k, cwd, e);
    if (r < 0 || !h->self->seed)
        return r;
    const char *seed = TAKE_PTR(h->self->seed); /* once */
    struct err why;
    k->carried = kernel_carry(h, k, "load", seed, &k->own, &k->lost, &why) >= 0;
    k->fresh = k->fresh || !k->carried;
    (void)unlink(seed);
    return k->up ? 0 : start(h, k, cwd, e);
}

/* --- cells --- */

static void interrupt(struct kernel *k)
{
    if (k->spec.interrupt_by_message)
        (void)send_message(k, CONTROL, "interrupt_request", STR("{}"), NULL);
    else
        peer_signal(&k->peer, SIGINT);
}

static int answer(struct kernel *k, struct str text)
{
    AUTO(buf_done) struct buf b = { .cap = LIMIT_COMMAND };
    struct jw w = { .out = &b };

    jw_obj(&w);
    jw_kstr(&w, "value", text);
    jw_obj_end(&w);
    k->now.asking = false;
    return b.full ? -EMSGSIZE : send_message(k, STDIN, "input_reply", buf_view(&b), NULL);
}

static void read_reply(struct hand *h, struct kernel *k, struct cell_end *end)
{
    struct json *j = NULL;
    char *text = arena_z(h->arena, (struct str){ k->now.reply, k->now.reply_n });

    if (json_parse(h->arena, (struct str){ text, k->now.reply_n }, &j, NULL) < 0)
        return;
    end->count = json_get_int(j, "execution_count", 0);
    if (str_is(json_get_str(j, "status"), "ok") || end->status != CELL_OK)
        return;
    const struct json *lines = json_get(j, "traceback");
    end->status = CELL_ERROR;
    end->ename = json_get_str(j, "ename");
    end->evalue = json_get_str(j, "evalue");
    end->traceback.v = arena_alloc(h->arena, 256 * sizeof(struct str));
    for (const struct json *l = lines ? lines->first : NULL; l && end->traceback.n < 256; l = l->next)
        if (l->type == JSON_STR)
            end->traceback.v[end->traceback.n++] = l->s;
}

static void died(struct hand *h, struct kernel *k, struct cell_end *end)
{
    end->status = CELL_DIED;
    if (!k->garbage) /* its sockets may be gone a moment before itself */
        (void)peer_wait(&k->peer, DEATH_MS);
    bool ended = peer_ended(&k->peer);
    end->evalue = k->garbage && !ended ? STR("it sent what is no Jupyter message") : peer_story(&k->peer, h->arena);
    down(h, k);
    k->fresh = true;
}

/* Until the cell is over, asks, or its time is. */
static void watch_cell(struct hand *h, struct kernel *k, const struct cell *c, struct cell_end *end)
{
    int64_t until = hand_until(h, c->timeout, &end->limit_s), react = 0;

    while (!k->now.replied || !k->now.idle) {
        int64_t now = now_ms();
        if (!react && (now >= until || h->self->wish != WISH_NONE)) {
            end->status = now >= until ? CELL_TIMEOUT : CELL_INTERRUPTED;
            react = now + REACT_MS;
            if (k->now.asking) /* it reads its channel, and takes no signal then */
                (void)answer(k, STR(""));
            interrupt(k);
        }
        if (react && now >= react) {
            end->lost = true;
            down(h, k);
            k->fresh = true;
            return;
        }
        if (k->now.asking && !react) {
            if (k->now.answers_used >= c->answers.n) {
                end->status = CELL_ASKING;
                end->prompt = str_of(k->now.prompt);
                end->password = k->now.password;
                return;
            }
            (void)answer(k, c->answers.v[k->now.answers_used++]);
        }
        int64_t wait = (react ? react : until) - now;
        if (!turn(h, k, wait < 1000 ? wait : 1000)) {
            died(h, k, end);
            return;
        }
    }
    read_reply(h, k, end);
}

static void finish(struct hand *h, struct kernel *k, struct cell_end *end)
{
    end->outputs = &k->outputs;
    end->msg_id = arena_copy(h->arena, str_of(k->now.id));
    end->run_us = now_us() - k->begun_us;
    if (k->outputs.too_many) {
        char line[100];
        int n = snprintf(line, sizeof line, "[%lld more outputs left out: LIMIT_CELL_OUTPUTS is %d]\n",
                         (long long)k->outputs.too_many, LIMIT_CELL_OUTPUTS);
        k->outputs.count--;
        outputs_note(&k->outputs, "stderr", (struct str){ line, (size_t)n });
    }
}

int kernel_run(struct hand *h, struct kernel *k, const struct cell *c, struct cell_end *ret, struct err *e)
{
    AUTO(buf_done) struct buf b = { .cap = LIMIT_FRAME };
    struct jw w = { .out = &b };

    *ret = (struct cell_end){ 0 };
    if (k->now.asking)
        return err_set(e, ERR_BUSY, "a cell of this session waits for input: answer it, or interrupt it");
    request_done(&k->now);
    outputs_done(&k->outputs);
    outputs_init(&k->outputs, h->head_bytes, h->tail_bytes);
    k->begun_us = now_us();
    jw_obj(&w);
    jw_kstr(&w, "code", c->code);
    jw_kbool(&w, "silent", c->silent);
    jw_kbool(&w, "store_history", !c->silent);
    jw_kraw(&w, "user_expressions", STR("{}"));
    jw_kbool(&w, "allow_stdin", !c->no_stdin);
    jw_kbool(&w, "stop_on_error", false);
    jw_obj_end(&w);
    if (send_message(k, SHELL, "execute_request", buf_view(&b), k->now.id) < 0)
        return err_set(e, ERR_LIMIT, "code: too long for LIMIT_KERNEL_MESSAGE (%ld bytes)", LIMIT_KERNEL_MESSAGE);
    watch_cell(h, k, c, ret);
    finish(h, k, ret);
    return 0;
}

int kernel_answer(struct hand *h, struct kernel *k, struct str text, double timeout, struct cell_end *ret,
                  struct err *e)
{
    *ret = (struct cell_end){ 0 };
    if (!k->up || !k->now.asking)
        return err_set(e, ERR_NOT_FOUND, "no cell of this session waits for input");
    outputs_done(&k->outputs); /* what came before the question was given with it */
    outputs_init(&k->outputs, h->head_bytes, h->tail_bytes);
    k->now.answers_used = 0;
    (void)answer(k, text);
    watch_cell(h, k, &(struct cell){ .timeout = timeout }, ret);
    finish(h, k, ret);
    return 0;
}

int kernel_request(struct hand *h, struct kernel *k, const char *type, struct str content, struct str *ret,
                   struct err *e)
{
    double limit;
    int64_t until = hand_until(h, 0, &limit);

    if (k->now.asking)
        return err_set(e, ERR_BUSY, "a cell of this session waits for input: answer it, or interrupt it");
    request_done(&k->now);
    if (send_message(k, SHELL, type, content, k->now.id) < 0)
        return err_set(e, ERR_LIMIT, "too long for LIMIT_KERNEL_MESSAGE (%ld bytes)", LIMIT_KERNEL_MESSAGE);
    while (!k->now.replied) {
        int64_t now = now_ms();
        if (now >= until || h->self->wish != WISH_NONE)
            return err_set(e, ERR_BUSY, "the kernel did not answer %s in time", type);
        if (!turn(h, k, until - now < 1000 ? until - now : 1000)) {
            struct cell_end end;
            died(h, k, &end);
            return err_set(e, ERR_SYSTEM, "the kernel ended: %.*s", STR_ARG(end.evalue));
        }
    }
    *ret = arena_copy(h->arena, (struct str){ k->now.reply, k->now.reply_n });
    return 0;
}

/* --- between calls --- */

static size_t watch(struct hand *h, struct pollfd *fds, size_t max)
{
    struct kernel *k = h->self->state;
    enum channel which[CHANNELS];

    if (!k || !k->up || max < CHANNELS + 3)
        return 0;
    return watch_list(k, fds, which);
}

/* What threads write is read, so that the kernel never waits for us; an end is noticed at the next call. */
static void idle(struct hand *h)
{
    struct kernel *k = h->self->state;

    if (!k || !k->up)
        return;
    for (int c = 0; c < CHANNELS; c++)
        if (k->fd[c] >= 0 && !take(k, (enum channel)c))
            k->garbage = true;
    peer_drain(&k->peer);
    if (k->garbage || peer_ended(&k->peer)) {
        down(h, k);
        k->fresh = true;
    }
}

const struct driver_kind jupyter_kind = {
    .name = "jupyter", .watch = watch, .idle = idle, .warm = warm, .start_ms = 500, .carry_with = "carry:kernel"
};
