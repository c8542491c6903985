#include "init/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/child.h"
#include "init/fifo.h"
#include "init/init.h"
#include "init/leftover.h"
#include "init/line.h"
#include "init/proc.h"
#include "init/stream.h"
#include "wire/frame.h"

enum {
    LOOK_FIRST_MS = 60, /* quiet for so long: is it waiting for input? */
    LOOK_LAST_MS = 2000,
    POLITE_MS = 100, /* after SIGINT, before SIGKILL */
    ROUND_MS = 50,
    GIVE_UP_MS = 500,           /* bash itself does not come back: it is killed, too */
    UNWATCHED_HEAD = 64 * 1024, /* output kept while no call waits for the command */
    FILES_MIN = 7,              /* descriptors that bash needs to redirect a command's streams */
    EXIT_LOST = 125,
};

enum state { DOWN, IDLE, RUNNING, WAITING, ENDING };

struct shell {
    struct init *init;
    struct shell *next;
    char *name; /* NULL: closed; free for another name once its bash is gone */
    char dir[32];
    enum state state;
    pid_t pid;
    int ctl;    /* bash's stdin: lines to execute */
    int cmd_fd; /* the file that bash sources */
    struct fifo in, out, err, status;
    struct buf record; /* the beginning of a report */
    struct loop_fd *out_watch, *err_watch, *status_watch, *in_watch;

    size_t told; /* bytes of lines that this bash was sent */
    bool lost;   /* the last bash died between two calls: the next report says so */
    bool fed;    /* something was written to its stdin */
    bool closed; /* all of its stdin was given with the command */
    bool interrupted;
    bool borrowed_cwd;  /* the command runs in another directory than the shell */
    bool doubted;       /* a command spoke of PWD: it may be read-only since */
    bool asked;         /* the report tells disabled builtins */
    bool crippled;      /* it did: some of those that we need */
    enum shell_end why; /* ENDING: how it is to be reported */
    int end_exit;       /* ENDING because of SHELL_DONE or SHELL_LOST: the command's status */
    unsigned seq;       /* of the command under way: a report with another number is of an earlier one */
    int last_exit;
    char *cwd;
    char *text;   /* the beginning of the command under way */
    char *before; /* bash's children when the command began */
    uint64_t before_tick;
    struct procs doomed; /* ENDING: the tree as it was; a sudo's orphans are children of init afterwards */

    struct shell_watch watch; /* cb NULL: nobody is waiting */
    struct stream out_text, err_text;
    struct leftover leftover; /* what children of earlier commands write */
    char *scratch;
    struct buf feed; /* not yet written to in */
    uint64_t reports;
    struct buf said[2]; /* the ends of what the last one had of a command that goes on */
    bool feed_eof;
    struct loop_timer *limit, *look;
    int look_ms;
    int64_t last_output_ms, ending_since_ms;
};

/* SIGINT does not end every command: bash gives up only if the program that it waits for dies of SIGINT, too, and goes on
 * with what follows if that one ends otherwise, or if the command has a trap. A trap of ours is heard before anything that
 * follows, whatever the program did. */
#define END_SIGNAL SIGRTMAX
static const char shell_setup[] = "set +o history +H; unset HISTFILE MAILCHECK; PS1='$ ' PS2='> '; "
                                  "trap '\\builtin trap - INT; \\builtin kill -INT \"$$\"' RTMAX\n";

static bool bash_ran; /* in this box, once */

static void on_output(void *arg, uint32_t events);
static void on_errors(void *arg, uint32_t events);
static void on_status(void *arg, uint32_t events);
static void on_feedable(void *arg, uint32_t events);
static void on_limit(void *arg);
static void on_look(void *arg);
static void on_bash_exit(void *arg, pid_t pid, int status);
static void settle(struct shell *s);

struct shell *shell_find(struct init *in, struct str name)
{
    for (struct shell *s = in->shells; s; s = s->next)
        if (s->name && str_is(name, s->name))
            return s;
    return NULL;
}

struct shell *shell_next(struct init *in, struct shell *s)
{
    s = s ? s->next : in->shells;
    while (s && !s->name)
        s = s->next;
    return s;
}

static void set_cwd(struct shell *s, const char *cwd)
{
    if (s->cwd && strcmp(s->cwd, cwd) == 0)
        return;
    free(s->cwd);
    s->cwd = strdup(cwd);
}

static struct tree tree_of(const struct shell *s)
{
    return (struct tree){ .root = s->pid, .before = s->before, .before_tick = s->before_tick, .also = &s->doomed };
}

/* Starting bash */

static int make_dir(struct shell *s, struct err *e)
{
    for (unsigned no = 0; no < 100000; no++) {
        snprintf(s->dir, sizeof s->dir, "%s/%u", BOX_RUN_DIR, no);
        if (mkdir(s->dir, 0755) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    return err_sys(e, "make %s", s->dir);
}

struct shell *shell_get(struct init *in, struct str name, struct err *e)
{
    struct shell *s = shell_find(in, name);
    size_t n = 0;

    if (s)
        return s;
    for (struct shell *other = in->shells; other; other = other->next) {
        n++;
        if (other->state == DOWN && (!s || !other->name))
            s = other;
    }
    if (s && (!s->name || n >= LIMIT_SHELLS_PER_BOX)) { /* one whose bash has exited is free for another name */
        settle(s);
        leftover_clear(&s->leftover);
        free(s->name);
        s->name = strndup(name.p ? name.p : "", name.n);
        set_cwd(s, init_workspace(in));
        s->lost = false;
        return s;
    }
    if (n >= LIMIT_SHELLS_PER_BOX) {
        err_set(e, ERR_LIMIT, "box already has LIMIT_SHELLS_PER_BOX (%d) shells", LIMIT_SHELLS_PER_BOX);
        return NULL;
    }
    s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s =
        (struct shell){ .init = in, .ctl = -1, .cmd_fd = -1, .in.fd = -1, .out.fd = -1, .err.fd = -1, .status.fd = -1 };
    if (make_dir(s, e) < 0) {
        free(s);
        return NULL;
    }
    s->name = strndup(name.p ? name.p : "", name.n);
    set_cwd(s, init_workspace(in));
    buf_init(&s->record, LIMIT_PATH + 64);
    stream_init(&s->out_text, 0, 0, 0);
    stream_init(&s->err_text, 0, 0, 0);
    leftover_init(&s->leftover, in->loop);
    buf_init(&s->feed, LIMIT_FILE_IO);
    s->limit = loop_timer_new(in->loop, on_limit, s);
    s->look = loop_timer_new(in->loop, on_look, s);
    s->next = in->shells;
    in->shells = s;
    return s;
}

static int open_pipes(struct shell *s, struct err *e)
{
    static const char *const names[] = { "in", "out", "err", "st" };
    struct fifo *fifos[] = { &s->in, &s->out, &s->err, &s->status };
    char path[48];

    (void)mkdir(BOX_RUN_DIR, 0755); /* root of the box may have removed them */
    (void)mkdir(s->dir, 0755);
    for (size_t i = 0; i < ARRAY_LEN(fifos); i++) {
        int r = fifo_open(fifos[i], s->dir, names[i], e);
        if (r < 0)
            return r;
    }
    snprintf(path, sizeof path, "%s/cmd", s->dir);
    s->cmd_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (s->cmd_fd < 0)
        return err_sys(e, "make %s", path);
    struct loop *l = s->init->loop;
    s->out_watch = loop_watch(l, s->out.fd, EPOLLIN, on_output, s);
    s->err_watch = loop_watch(l, s->err.fd, EPOLLIN, on_errors, s);
    s->status_watch = loop_watch(l, s->status.fd, EPOLLIN, on_status, s);
    return s->out_watch && s->err_watch && s->status_watch ? 0 : err_sys(e, "watch the pipes of a shell");
}

static void close_pipes(struct shell *s)
{
    loop_unwatch(TAKE_PTR(s->out_watch));
    loop_unwatch(TAKE_PTR(s->err_watch));
    loop_unwatch(TAKE_PTR(s->status_watch));
    loop_unwatch(TAKE_PTR(s->in_watch));
    fifo_close(&s->in);
    fifo_close(&s->out);
    fifo_close(&s->err);
    fifo_close(&s->status);
    if (s->ctl >= 0)
        close(TAKE_FD(s->ctl));
    if (s->cmd_fd >= 0)
        close(TAKE_FD(s->cmd_fd));
}

/* Interactive, because only an interactive bash survives SIGINT and gives up the command it is in. Its own stdout and
 * stderr, where prompts and job notices go, are /dev/null. */
static int start_bash(struct shell *s, struct err *e)
{
    static const char *const argv[] = { "bash", "--noediting", "--norc", "--noprofile", "-i", NULL };
    AUTO(arena_done) struct arena a = { 0 };
    auto_close int theirs = -1;
    int ends[2];

    int r = open_pipes(s, e);
    if (r < 0)
        return r;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, "start bash");
    theirs = ends[0];
    s->ctl = ends[1];
    (void)fcntl(s->ctl, F_SETFL, O_NONBLOCK);
    struct child_opts o = {
        .file = "/bin/bash",
        .argv = argv,
        .env = child_env(&a, false, s->cwd, NULL),
        .fds = { theirs, -1, -1 },
        .cwd = s->cwd,
        .subreaper = true, /* daemons of a command stay below bash, where a timeout finds them */
        .session = true,
    };
    s->pid = child_start(s->init, &o, on_bash_exit, s, e);
    if (s->pid < 0) {
        r = s->pid;
        s->pid = 0;
        return r;
    }
    s->told = sizeof shell_setup - 1;
    s->last_exit = 0;
    free(TAKE_PTR(s->before));
    (void)!write(s->ctl, shell_setup, sizeof shell_setup - 1);
    s->state = IDLE;
    return 0;
}

/* Children that outlive their command */

static void part(struct shell *s, struct fifo *f, struct loop_fd **watch, on_ready *cb)
{
    loop_unwatch(*watch);
    int reader = fifo_part(f, NULL);
    *watch = f->fd >= 0 ? loop_watch(s->init->loop, f->fd, EPOLLIN, cb, s) : NULL;
    if (reader >= 0)
        leftover_add(&s->leftover, reader);
}

static void remember_children(struct shell *s, char *take_children)
{
    free(s->before);
    s->before = take_children;
    s->before_tick = proc_tick();
}

/* After a command: children that it left behind may hold its pipes. Nothing they write later may be taken for output
 * of the next command, and nothing that the next one is given may be read by them. */
static void part_with_children(struct shell *s)
{
    auto_free char *children = proc_children(s->pid);

    if (children && (!s->before || strcmp(children, s->before) != 0)) {
        part(s, &s->out, &s->out_watch, on_output);
        part(s, &s->err, &s->err_watch, on_errors);
        s->fed = true;
    }
    if (s->fed) { /* what it did not read is gone with the old pipe */
        loop_unwatch(TAKE_PTR(s->in_watch));
        (void)fifo_renew(&s->in, NULL);
        s->fed = false;
    }
    remember_children(s, TAKE_PTR(children));
}

/* Reporting */

static void begin_watch(struct shell *s, const struct shell_watch *w)
{
    s->watch = *w;
    stream_init(&s->out_text, w->head_bytes, w->tail_bytes, w->kept_bytes);
    stream_init(&s->err_text, w->head_bytes, w->tail_bytes, w->kept_bytes);
    s->state = RUNNING;
    s->look_ms = LOOK_FIRST_MS;
    s->last_output_ms = now_ms();
    loop_timer_set(s->look, s->look_ms);
    if (w->timeout_ms > 0)
        loop_timer_set(s->limit, w->timeout_ms);
}

static void report(struct shell *s, struct shell_report r)
{
    struct shell_watch w = s->watch;

    s->watch = (struct shell_watch){ 0 };
    loop_timer_set(s->limit, -1);
    if (!w.cb)
        return; /* the output stays until the next call asks */
    r.cwd = s->cwd;
    r.interrupted = s->interrupted;
    r.number = ++s->reports;
    r.out = &s->out_text;
    r.err = &s->err_text;
    r.background = &s->leftover.text;
    r.restarted = r.restarted || s->lost;
    s->lost = false;
    w.cb(w.arg, &r);
    stream_done(&s->out_text);
    stream_done(&s->err_text);
    leftover_clear(&s->leftover);
}

static void drain(struct shell *s)
{
    if (s->out.fd >= 0)
        (void)stream_drain(&s->out_text, s->out.fd, &s->scratch);
    if (s->err.fd >= 0)
        (void)stream_drain(&s->err_text, s->err.fd, &s->scratch);
}

static void rest(struct shell *s)
{
    loop_timer_set(s->look, -1);
    buf_reset(&s->feed);
    s->feed_eof = false;
    free(TAKE_PTR(s->text));
    procs_done(&s->doomed);
    if (s->scratch) { /* only after much output */
        free(TAKE_PTR(s->scratch));
        fifo_shrink(&s->out);
        fifo_shrink(&s->err);
    }
}

/* Commands may take from their shell what it needs. With too few descriptors it cannot redirect a command's streams, says so
 * where nobody hears it, and reports status 1. */
static bool has_no_files(const struct shell *s, int exit_code)
{
    int64_t max = exit_code != 1 || s->out_text.total || s->err_text.total ? -1 : proc_files_max(s->pid);

    return max >= 0 && max < FILES_MIN;
}

/* It closed the descriptor that its own stdin was kept at. */
static bool is_deaf(const struct shell *s)
{
    struct pollfd lines = { .fd = s->ctl };

    return poll(&lines, 1, 0) > 0;
}

/* Its exit is what is reported. Its children live on, as after any exit of a shell. */
static void replace_bash(struct shell *s, enum shell_end why, int exit_code)
{
    s->state = ENDING;
    s->why = why;
    s->end_exit = exit_code;
    loop_timer_set(s->limit, -1);
    loop_timer_set(s->look, -1);
    kill(s->pid, SIGKILL);
}

static void on_command_end(struct shell *s, int exit_code)
{
    struct shell_report r = { .end = SHELL_DONE, .exit_code = exit_code };

    if (s->state == ENDING) { /* whatever the command left behind goes with it */
        struct tree t = tree_of(s);
        (void)tree_kill(s->init, &t);
        r.end = s->why;
    }
    drain(s);
    bool useless = s->crippled || has_no_files(s, exit_code);
    if (s->state != ENDING && (useless || is_deaf(s))) {
        replace_bash(s, useless ? SHELL_LOST : SHELL_DONE, useless ? EXIT_LOST : exit_code);
        return;
    }
    part_with_children(s);
    s->last_exit = exit_code;
    s->state = IDLE;
    rest(s);
    report(s, r);
    s->interrupted = false;
}

/* $PWD, unless it was tampered with: a name that has symlinks in it is worth more than one that has none. To look
 * costs some hundredths of a builtin's whole call: not where nothing changed, in a shell that nobody told of it. */
static void take_cwd(struct shell *s, const char *told)
{
    if (!s->doubted && s->cwd && strcmp(s->cwd, told) == 0)
        return;
    auto_free char *real = proc_cwd(s->pid);
    struct stat here, there;
    char path[32];

    snprintf(path, sizeof path, "/proc/%d/cwd", s->pid);
    if (real && strcmp(real, told) != 0 && stat(path, &here) == 0 && here.st_nlink &&
        (*told != '/' || stat(told, &there) < 0 || there.st_ino != here.st_ino || there.st_dev != here.st_dev))
        told = real;
    if (*told == '/')
        set_cwd(s, told);
}

static void add_status(const struct shell *s, struct buf *b, bool failed)
{
    struct line_status l = {
        .number = s->seq, .back_to = s->borrowed_cwd ? s->cwd : NULL, .builtins = s->asked, .failed = failed
    };

    line_add_status(b, s->dir, &l);
}

/* A command that bash could not begin for want of a builtin says so like this, but so may others. */
static bool ask_again(struct shell *s, int exit_code)
{
    static const char words[] = "builtin: ";
    AUTO(buf_done) struct buf b = { .cap = 64 * KiB };

    if (s->asked || exit_code != 1 || s->state == ENDING)
        return false;
    drain(s);
    if (!s->err_text.head_n || !memmem(s->err_text.head, s->err_text.head_n, words, sizeof words - 1))
        return false;
    s->asked = true;
    add_status(s, &b, true);
    return write(s->ctl, b.p, b.n) == (ssize_t)b.n;
}

static void on_record(struct shell *s, const char *record, bool whole)
{
    struct line_report r;

    if (!line_read_status(record, &r) || r.number != s->seq)
        return;
    bash_ran = true;
    if (s->state != RUNNING && s->state != WAITING && s->state != ENDING)
        return;
    if (s->state == ENDING && (s->why == SHELL_DONE || s->why == SHELL_LOST))
        return; /* its exit is awaited */
    s->crippled = r.crippled;
    if (ask_again(s, r.status))
        return;
    take_cwd(s, whole ? r.cwd : ""); /* of a record that was too long, it has no end */
    on_command_end(s, r.status);
}

static void on_status(void *arg, uint32_t events)
{
    struct shell *s = arg;
    char text[LIMIT_PATH + 64];
    ssize_t n = read(s->status.fd, text, sizeof text);

    (void)events;
    for (ssize_t i = 0; i < n; i++) { /* a directory with a newline comes in pieces */
        if (text[i]) {
            (void)buf_char(&s->record, text[i]);
            continue;
        }
        auto_free char *record = strndup(s->record.p ? s->record.p : "", s->record.n);
        bool whole = !s->record.full;
        buf_reset(&s->record);
        on_record(s, record, whole);
    }
}

static void on_bytes(struct shell *s, struct stream *to, struct fifo *f)
{
    int64_t before = to->total;

    (void)stream_drain(to, f->fd, &s->scratch);
    if (s->scratch && to->total - before >= 65536)
        fifo_grow(f);
    if (to->total != before) {
        s->last_output_ms = now_ms();
        s->look_ms = LOOK_FIRST_MS;
    }
}

static void on_output(void *arg, uint32_t events)
{
    struct shell *s = arg;
    (void)events;
    on_bytes(s, &s->out_text, &s->out);
}

static void on_errors(void *arg, uint32_t events)
{
    struct shell *s = arg;
    (void)events;
    on_bytes(s, &s->err_text, &s->err);
}

/* What ended without having read a line was no bash, or none that runs; whatever number it ended with, the command had no
 * part in it. */
static bool took_lines(const struct shell *s)
{
    int unread;

    return ioctl(s->ctl, FIONREAD, &unread) < 0 || (size_t)unread < s->told;
}

static void on_bash_exit(void *arg, pid_t pid, int status)
{
    struct shell *s = arg;
    bool ended = s->state == ENDING;
    struct shell_report r = { .end = ended ? s->why : SHELL_DONE, .exited = !ended, .restarted = ended };

    (void)pid;
    r.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (ended && (s->why == SHELL_DONE || s->why == SHELL_LOST))
        r.exit_code = s->end_exit;
    else if (took_lines(s))
        bash_ran = true;
    else if (WIFEXITED(status))
        r.end = bash_ran ? SHELL_RUINED : SHELL_BROKEN;
    drain(s);
    s->pid = 0;
    loop_unwatch(TAKE_PTR(s->out_watch));
    loop_unwatch(TAKE_PTR(s->err_watch));
    for (int i = 0; i < 2; i++) { /* children that live on may hold these */
        int reader = fifo_part(i ? &s->err : &s->out, NULL);
        if (reader >= 0)
            leftover_add(&s->leftover, reader);
    }
    close_pipes(s);
    if (!ended && WIFEXITED(status))
        set_cwd(s,
                init_workspace(s->init)); /* it was asked to exit; a shell that was killed is continued where it was */
    s->lost = s->state == IDLE || s->state == WAITING;
    s->state = DOWN;
    rest(s);
    report(s, r);
    s->interrupted = false;
}

/* Running */

int shell_check_free(const struct shell *s, struct err *e)
{
    if (s->state == DOWN || s->state == IDLE)
        return 0;
    return err_set(e, ERR_BUSY,
                   "the shell is busy with \"%s\"%s; continue it with bash:input, or end it with bash:interrupt or "
                   "bash:kill",
                   s->text ? s->text : "", s->state == WAITING ? ", which waits for input" : "");
}

static int send_lines(struct shell *s, const struct shell_command *c, struct err *e)
{
    AUTO(buf_done) struct buf b = { .cap = 64 * KiB };

    s->borrowed_cwd = c->cwd.p != NULL;
    s->seq++;
    buf_reset(&s->record);
    int r = line_add_command(&b, s->dir, c, s->last_exit, e);
    if (r < 0)
        return r;
    s->asked = memmem(c->text.p, c->text.n, "enable", 6) != NULL;
    add_status(s, &b, false);
    if (write(s->ctl, b.p, b.n) != (ssize_t)b.n)
        return err_sys(e, "write to bash");
    s->told += b.n;
    return 0;
}

/* Output that arrived when nobody was waiting belongs to the background. */
static void settle(struct shell *s)
{
    struct stream *streams[] = { &s->out_text, &s->err_text };

    for (int i = 0; i < 2; i++) {
        AUTO(arena_done) struct arena a = { 0 };
        if (streams[i]->total) {
            struct str text = stream_text(streams[i], &a);
            stream_add(&s->leftover.text, text.p, text.n);
        }
        stream_done(streams[i]);
    }
}

int shell_run(struct shell *s, const struct shell_command *c, const struct shell_watch *w, struct err *e)
{
    int r = shell_check_free(s, e);
    if (r < 0)
        return r;
    settle(s);
    if (s->state == DOWN)
        r = start_bash(s, e);
    else if (s->before) /* daemons of earlier commands: whoever is there now is not of this one */
        remember_children(s, proc_children(s->pid));
    if (r == 0)
        r = line_put_command(s->cmd_fd, c->text, e);
    if (r == 0)
        r = send_lines(s, c, e);
    if (r < 0) {
        if (s->pid)
            kill(s->pid, SIGKILL); /* half a line may be in its pipe; the next call gets a fresh one */
        else
            close_pipes(s);
        return r;
    }
    s->text = strndup(c->text.p, c->text.n < 80 ? c->text.n : 80);
    s->doubted |= memmem(c->text.p, c->text.n, "PWD", 3) != NULL;
    begin_watch(s, w);
    s->closed = c->stdin_text.p != NULL;
    return 0;
}

/* Input */

static void feed(struct shell *s)
{
    while (s->feed.n) {
        ssize_t n = write(s->in.fd, s->feed.p, s->feed.n);
        if (n <= 0)
            break;
        buf_eat(&s->feed, (size_t)n);
    }
    if (s->feed.n && !s->in_watch)
        s->in_watch = loop_watch(s->init->loop, s->in.fd, EPOLLOUT, on_feedable, s);
    if (s->feed.n)
        return;
    loop_unwatch(TAKE_PTR(s->in_watch));
    if (s->feed_eof)
        fifo_close(&s->in); /* the last writer: readers see the end */
}

static void on_feedable(void *arg, uint32_t events)
{
    (void)events;
    feed(arg);
}

/* Watches a command that is under way; what came since the last answer goes into the next one. */
static void watch_again(struct shell *s, const struct shell_watch *w)
{
    struct stream out = s->out_text;
    struct stream err = s->err_text;

    begin_watch(s, w);
    stream_add(&s->out_text, out.head, out.head_n);
    stream_add(&s->err_text, err.head, err.head_n);
    stream_done(&out);
    stream_done(&err);
}

/* What serve may have put back: it alone knows what may be the beginning of a secret. */
static void keep_ends(struct shell *s)
{
    AUTO(arena_done) struct arena a = { 0 };
    const struct stream *streams[] = { &s->out_text, &s->err_text };

    for (int i = 0; i < 2; i++) {
        struct str text = stream_text(streams[i], &a);
        size_t n = text.n < WIRE_HELD_MAX ? text.n : WIRE_HELD_MAX;
        buf_done(&s->said[i]);
        buf_init(&s->said[i], WIRE_HELD_MAX);
        buf_add(&s->said[i], text.p + text.n - n, n);
    }
}

void shell_put_back(struct shell *s, uint64_t number, int64_t out, int64_t err)
{
    struct stream *streams[] = { &s->out_text, &s->err_text };
    const int64_t counts[] = { out, err };

    for (int i = 0; i < 2; i++) {
        bool fits = number == s->reports && counts[i] > 0 && counts[i] <= (int64_t)s->said[i].n;
        size_t n = fits ? (size_t)counts[i] : 0;
        if (n)
            (void)stream_put_back(streams[i], s->said[i].p + s->said[i].n - n, n);
        buf_done(&s->said[i]);
    }
}

int shell_input(struct shell *s, struct str data, bool eof, const struct shell_watch *w, struct err *e)
{
    if (s->state != RUNNING && s->state != WAITING)
        return err_set(e, ERR_NOT_FOUND, "the shell has no command that could take input");
    if (s->watch.cb)
        return err_set(e, ERR_BUSY, "another call already waits for \"%s\"", s->text ? s->text : "");
    if (s->in.fd < 0)
        return err_set(e, ERR_INVALID, "the command's stdin is already at its end");

    s->fed = true;
    s->feed_eof = eof;
    (void)buf_str(&s->feed, data);
    watch_again(s, w);
    feed(s);
    return 0;
}

/* Looking and ending */

/* Before its children get theirs: bash gives up the whole command only if it was interrupted before the child that it
 * waits for died of it. Bash gives up the line it is in. If that was the one that reports the status, nothing would
 * follow, so it is asked again; a second report of the same command is ignored. */
static void interrupt_bash(struct shell *s, int sig)
{
    AUTO(buf_done) struct buf b = { .cap = 64 * KiB };

    kill(s->pid, sig);
    s->asked = false;
    add_status(s, &b, false);
    (void)!write(s->ctl, b.p, b.n);
}

static void end_rounds(struct shell *s)
{
    struct tree t = tree_of(s);
    int64_t since = now_ms() - s->ending_since_ms;

    if (since >= GIVE_UP_MS) {
        char *cwd = s->borrowed_cwd ? NULL : proc_cwd(s->pid);
        if (cwd)
            set_cwd(s, cwd);
        free(cwd);
        kill(s->pid, SIGSTOP); /* it must not start the next program while the tree is killed */
        (void)tree_kill(s->init, &t);
        kill(s->pid, SIGKILL);
        return;
    }
    (void)tree_kill(s->init, &t);
    interrupt_bash(s, SIGINT);
    loop_timer_set(s->look, ROUND_MS);
}

static void end_command(struct shell *s, enum shell_end why)
{
    struct tree t = tree_of(s);

    if (s->state == ENDING)
        return;
    s->state = ENDING;
    s->why = why;
    s->ending_since_ms = now_ms();
    loop_timer_set(s->limit, -1);
    /* First as ^C does it: programs may say where they were, and bash gives up the rest of the command. A read of bash
     * itself ends only by the SIGINT of the rounds that follow. */
    procs_done(&s->doomed);
    (void)procs_scan(s->init, &t, &s->doomed);
    interrupt_bash(s, END_SIGNAL);
    (void)procs_signal(&s->doomed, SIGINT);
    loop_timer_set(s->look, POLITE_MS);
}

static void detach(struct shell *s, enum shell_end how)
{
    drain(s);
    keep_ends(s);
    if (how == SHELL_WAITING)
        s->state = WAITING;
    report(s, (struct shell_report){ .end = how });
    stream_init(&s->out_text, UNWATCHED_HEAD, 0, 0);
    stream_init(&s->err_text, UNWATCHED_HEAD, 0, 0);
}

static void on_limit(void *arg)
{
    struct shell *s = arg;

    if (s->watch.let_run)
        detach(s, SHELL_RUNNING);
    else
        end_command(s, SHELL_TIMEOUT);
}

/* Bash waits for another line: it has executed those that it was given, also the one that reports the status. */
static bool at_prompt(const struct shell *s)
{
    struct stat lines;
    int unread;

    return fstat(s->ctl, &lines) == 0 && ioctl(s->ctl, FIONREAD, &unread) == 0 && unread == 0 &&
           proc_reads(s->pid, lines.st_dev, lines.st_ino);
}

static void on_look(void *arg)
{
    struct shell *s = arg;

    if (s->state == ENDING) {
        end_rounds(s);
        return;
    }
    if (s->state != RUNNING || !s->watch.cb)
        return;
    int64_t quiet = now_ms() - s->last_output_ms;
    if (quiet < LOOK_FIRST_MS) {
        loop_timer_set(s->look, LOOK_FIRST_MS - quiet);
        return;
    }
    if (at_prompt(s)) {
        on_status(s, 0);
        if (s->state == RUNNING) {
            if (!s->borrowed_cwd)
                take_cwd(s, "");
            replace_bash(s, SHELL_LOST, EXIT_LOST);
        }
        return;
    }
    struct tree t = tree_of(s);
    if (!s->closed && s->in.fd >= 0 && !s->feed.n && tree_reads(s->init, &t, s->in.dev, s->in.ino)) {
        detach(s, SHELL_WAITING);
        return;
    }
    s->look_ms = s->look_ms * 2 < LOOK_LAST_MS ? s->look_ms * 2 : LOOK_LAST_MS;
    loop_timer_set(s->look, s->look_ms);
}

int shell_interrupt(struct shell *s, const struct shell_watch *w, struct err *e)
{
    struct tree t = tree_of(s);

    if (s->state != RUNNING && s->state != WAITING)
        return err_set(e, ERR_NOT_FOUND, "the shell runs nothing");
    s->interrupted = true;
    bool watched = s->watch.cb != NULL;
    if (!watched)
        watch_again(s, w);
    interrupt_bash(s, SIGINT);
    (void)tree_signal(s->init, &t, SIGINT);
    return watched;
}

int shell_kill(struct shell *s, const struct shell_watch *w, struct err *e)
{
    if (s->state != RUNNING && s->state != WAITING)
        return err_set(e, ERR_NOT_FOUND, "the shell runs nothing");
    bool watched = s->watch.cb != NULL;
    if (!watched)
        watch_again(s, w);
    end_command(s, SHELL_KILLED);
    return watched;
}

/* Bash first stands still, so that it starts nothing more while its children are killed. */
void shell_close(struct init *in, struct str name)
{
    struct shell *s = shell_find(in, name);

    if (!s)
        return;
    free(TAKE_PTR(s->name));
    if (s->pid) {
        struct tree all = { .root = s->pid, .also = &s->doomed };
        kill(s->pid, SIGSTOP);
        (void)tree_kill(in, &all);
        kill(s->pid, SIGKILL);
    }
}

struct shell_info shell_describe(const struct shell *s)
{
    static const char *const names[] = { "down", "idle", "running", "waiting_for_input", "ending" };

    return (struct shell_info){
        .name = s->name, .state = names[s->state], .command = s->text, .cwd = s->cwd, .pid = s->pid
    };
}
