#include "init/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/child.h"
#include "init/init.h"
#include "init/terminal_parts.h"

enum { COLS = 200, ROWS = 50, MARK_MAX = LIMIT_PATH + 128, NO_CHANGE_MS = 120000, MUCH = 1024 };

#define MARK "\033]777;"

static const int64_t KEPT = LIMIT_TERMINAL_KEPT;

/* Each part must work whatever a command did to the shell: the marks go to the terminal itself, errors nowhere. A
 * sourced file runs at the top level, where "declare" makes variables of the shell; a function's would be its own. */
static const char rc[] =
    "[ -r ~/.bashrc ] && . ~/.bashrc\n"
    "unset HISTFILE MAILCHECK; set +H; PS1='\\u@\\h:\\w\\$ '; __sg_last=; __sg_p=0\n"
    "__sg_ret() { return $1; }\n"
    "PROMPT_COMMAND='{ __sg_s=$?; } 2>/dev/null\n"
    "if { IFS= read -r __sg_l <%2$s/cmd && [[ $__sg_l != \"$__sg_last\" ]]; } 2>/dev/null; then\n"
    "{ __sg_last=$__sg_l; printf \"\\033]777;%1$s;B;%%s\\a\" \"$__sg_l\" >/dev/tty; __sg_ret $__sg_p; } 2>/dev/null\n"
    "\\. %2$s/cmd\n"
    "{ __sg_p=$?; printf \"\\033]777;%1$s;D;%%s;%%s;%%s\\a\" \"$__sg_l\" \"$__sg_p\" \"$PWD\" >/dev/tty; } "
    "2>/dev/null\n"
    "else { __sg_p=$__sg_s; } 2>/dev/null; fi\n"
    "{ printf \"\\033]777;%1$s;I;%%s\\a\" \"$PWD\" >/dev/tty; } 2>/dev/null'\n";

/* --- finding and making --- */

struct terminal *terminal_find(struct init *in, struct str name)
{
    for (struct terminal *t = in->terminals; t; t = t->next)
        if (!t->closing && !t->spare && str_is(name, t->name))
            return t;
    return NULL;
}

struct terminal *terminal_next(struct init *in, struct terminal *t)
{
    t = t ? t->next : in->terminals;
    while (t && (t->closing || t->spare))
        t = t->next;
    return t;
}

/* A call that named no session left its own behind. The one that was not used for the longest time may go. */
static bool make_room(struct init *in, struct err *e)
{
    struct terminal *oldest = NULL;
    size_t n = 0;

    for (struct terminal *t = NULL; (t = terminal_next(in, t));) {
        n++;
        if (!t->named && !t->listeners && !terminal_busy(t) && (!oldest || t->last_us < oldest->last_us))
            oldest = t;
    }
    if (n < LIMIT_TERMINALS_PER_BOX)
        return true;
    if (!oldest) {
        err_set(
            e, ERR_LIMIT,
            "Cannot create shell session: session limit reached, LIMIT_TERMINALS_PER_BOX (%d) sessions are named or "
            "busy; close one",
            LIMIT_TERMINALS_PER_BOX);
        return false;
    }
    terminal_close(oldest);
    return true;
}

static int make_dir(struct terminal *t, struct err *e)
{
    for (unsigned no = 0; no < 100000; no++) {
        snprintf(t->dir, sizeof t->dir, "%s/t%u", BOX_RUN_DIR, no);
        if (mkdir(t->dir, 0755) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    return err_sys(e, "make %s", t->dir);
}

static void new_number(char out[17])
{
    unsigned char b[8];

    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        abort();
    for (int i = 0; i < 8; i++)
        snprintf(out + 2 * i, 3, "%02x", b[i]);
}

static void set_text(char **to, const char *text)
{
    free(*to);
    *to = strdup(text);
}

static struct terminal *terminal_make(struct init *in, const struct terminal_opts *o, struct err *e)
{
    struct terminal *t = calloc(1, sizeof *t);
    char id[17];

    if (!t)
        abort();
    t->init = in;
    t->pty = -1;
    if (make_dir(t, e) < 0) {
        free(t);
        return NULL;
    }
    new_number(id);
    new_number(t->nonce);
    t->named = o->name.n > 0;
    t->name = o->name.n ? strndup(o->name.p, o->name.n) : strdup(id);
    set_text(&t->cwd, o->cwd ? o->cwd : init_workspace(in));
    set_text(&t->first_cwd, t->cwd);
    t->cols = o->cols ? o->cols : COLS;
    t->rows = o->rows ? o->rows : ROWS;
    t->no_change_ms = NO_CHANGE_MS;
    t->created_us = t->last_us = wall_us();
    buf_init(&t->input, LIMIT_TERMINAL_INPUT);
    buf_init(&t->early, LIMIT_TERMINAL_INPUT);
    buf_init(&t->held, MARK_MAX);
    commands_init(t);
    t->next = in->terminals;
    in->terminals = t;
    return t;
}

static struct terminal *find_spare(struct init *in)
{
    for (struct terminal *t = in->terminals; t; t = t->next)
        if (t->spare && !t->closing && t->state != TERMINAL_DOWN)
            return t;
    return NULL;
}

void terminal_warm(struct init *in)
{
    struct terminal *t = find_spare(in) ? NULL : terminal_make(in, &(struct terminal_opts){ 0 }, NULL);

    if (!t)
        return;
    t->spare = true;
    (void)terminal_start(t, NULL); /* if not, the next call will say why */
}

struct terminal *terminal_open(struct init *in, const struct terminal_opts *o, struct err *e)
{
    struct terminal *t = o->name.n ? terminal_find(in, o->name) : NULL;

    if (t)
        return t;
    if (!make_room(in, e))
        return NULL;
    t = o->name.n || o->cwd || o->cols ? NULL : find_spare(in);
    if (!t)
        return terminal_make(in, o, e);
    t->spare = false;
    t->created_us = t->last_us = wall_us();
    return t;
}

/* --- output --- */

static void keep(struct terminal *t, const char *p, size_t n)
{
    if (!t->ring && !(t->ring = malloc((size_t)KEPT)))
        abort();
    if ((int64_t)n > KEPT) {
        t->total += (int64_t)n - KEPT;
        p += (int64_t)n - KEPT;
        n = (size_t)KEPT;
    }
    while (n) {
        size_t at = (size_t)(t->total % KEPT), run = (size_t)KEPT - at < n ? (size_t)KEPT - at : n;
        memcpy(t->ring + at, p, run);
        t->total += (int64_t)run;
        p += run;
        n -= run;
    }
}

static void put_out(struct terminal *t, const char *p, size_t n)
{
    if (!n)
        return;
    keep(t, p, n);
    for (struct terminal_listener *l = t->listeners, *next; l; l = next) {
        next = l->next;
        l->on_bytes(l, p, n);
    }
    commands_output(t, p, n);
}

static void on_mark(struct terminal *t, char *text) /* without "ESC ]777;" and BEL */
{
    if (strncmp(text, t->nonce, 16) != 0 || text[16] != ';' || !text[17] || text[18] != ';')
        return; /* somebody else's */
    commands_mark(t, text[17], text + 19);
}

/* How many bytes at the end of p may be the beginning of a mark? */
static size_t half_a_mark(const char *p, size_t n)
{
    size_t len = sizeof MARK - 1;

    for (size_t k = len - 1 < n ? len - 1 : n; k; k--)
        if (memcmp(p + n - k, MARK, k) == 0)
            return k;
    return 0;
}

static void take(struct terminal *t, const char *p, size_t n)
{
    while (n) {
        const char *mark = memmem(p, n, MARK, sizeof MARK - 1);
        const char *end = mark ? memchr(mark, '\a', n - (size_t)(mark - p)) : NULL;
        if (!mark || !end) {
            size_t tail = mark ? n - (size_t)(mark - p) : half_a_mark(p, n);
            if (tail > MARK_MAX - 1)
                tail = 0; /* no mark of ours is so long */
            put_out(t, p, n - tail);
            buf_add(&t->held, p + n - tail, tail);
            return;
        }
        put_out(t, p, (size_t)(mark - p));
        char text[MARK_MAX];
        size_t len = (size_t)(end - mark) - (sizeof MARK - 1);
        if (len < sizeof text) {
            memcpy(text, mark + sizeof MARK - 1, len);
            text[len] = 0;
            on_mark(t, text);
        }
        n -= (size_t)(end + 1 - p);
        p = end + 1;
    }
}

static void drop_pty(struct terminal *t)
{
    loop_unwatch(TAKE_PTR(t->watch));
    if (t->pty >= 0)
        close(TAKE_FD(t->pty));
    buf_reset(&t->input);
    buf_reset(&t->early);
    buf_reset(&t->held);
    t->full = false;
}

static void feed(struct terminal *t);

static uint32_t pty_events(const struct terminal *t)
{
    return EPOLLET | EPOLLIN | (t->full ? EPOLLOUT : 0);
}

/* A read that finds nothing makes the kernel run, and wait for, what it had put off for this terminal: it costs more
 * than one that finds something. A look by epoll does the same, so that it looks only when something came (EPOLLET). So,
 * unless all is wanted, another read follows only much; whatever comes after the last one is told by epoll. */
static void read_pty(struct terminal *t, bool all)
{
    char chunk[MARK_MAX + 16384];

    for (int round = 0; round < 64 && t->pty >= 0; round++) { /* then others have their turn */
        size_t held = t->held.n;
        memcpy(chunk, t->held.p ? t->held.p : "", held);
        ssize_t n = read(t->pty, chunk + held, sizeof chunk - held);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) { /* EIO: nobody has the other end open any more */
            loop_unwatch(TAKE_PTR(t->watch));
            return;
        }
        buf_reset(&t->held);
        take(t, chunk, held + (size_t)n);
        if (n < MUCH && !all)
            return;
    }
    if (t->watch) /* there may be more: be told of it once more */
        loop_change(t->watch, pty_events(t));
}

static void on_pty(void *arg, uint32_t events)
{
    struct terminal *t = arg;

    if (events & EPOLLOUT)
        feed(t);
    if (events & ~(uint32_t)EPOLLOUT)
        read_pty(t, false);
}

struct str terminal_read(const struct terminal *t, int64_t *offset, size_t max, struct arena *a)
{
    int64_t first = t->total > KEPT ? t->total - KEPT : 0;
    int64_t from = *offset < first ? first : *offset > t->total ? t->total : *offset;
    size_t n = (size_t)(t->total - from) < max ? (size_t)(t->total - from) : max;
    char *text = arena_alloc(a, n + 1);

    for (size_t i = 0; i < n;) {
        size_t at = (size_t)((from + (int64_t)i) % KEPT);
        size_t run = (size_t)KEPT - at < n - i ? (size_t)KEPT - at : n - i;
        memcpy(text + i, t->ring + at, run);
        i += run;
    }
    *offset = from + (int64_t)n;
    return (struct str){ text, n };
}

void terminal_listen(struct terminal *t, struct terminal_listener *l)
{
    l->next = t->listeners;
    t->listeners = l;
}

void terminal_unlisten(struct terminal *t, struct terminal_listener *l)
{
    for (struct terminal_listener **at = &t->listeners; *at; at = &(*at)->next)
        if (*at == l) {
            *at = l->next;
            return;
        }
}

/* --- bash --- */

static void terminal_free(struct terminal *t)
{
    for (struct terminal **at = &t->init->terminals; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    drop_pty(t);
    commands_done(t);
    char path[48];
    static const char *const files[] = { "rc", "text", "cmd", "cmd.new" };
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        snprintf(path, sizeof path, "%s/%s", t->dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(t->dir);
    buf_done(&t->input);
    buf_done(&t->early);
    buf_done(&t->held);
    free(t->ring);
    free(t->name);
    free(t->cwd);
    free(t->first_cwd);
    free(t->before);
    procs_done(&t->doomed);
    free(t);
}

static void on_bash_exit(void *arg, pid_t pid, int status)
{
    struct terminal *t = arg;

    (void)pid;
    if (t->watch)
        read_pty(t, true); /* what it said last */
    t->pid = 0;
    drop_pty(t);
    if (t->closing) {
        terminal_free(t);
        return;
    }
    set_text(&t->cwd, t->first_cwd);
    commands_shell_gone(t, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

static int put_rc(struct terminal *t, struct err *e)
{
    AUTO(buf_done) struct buf b = { .cap = 64 * KiB };
    char path[48];

    snprintf(path, sizeof path, "%s/rc", t->dir);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    buf_printf(&b, rc, t->nonce, t->dir);
#pragma GCC diagnostic pop
    if (fd < 0 || write(fd, b.p, b.n) != (ssize_t)b.n)
        return err_sys(e, "write %s", path);
    return 0;
}

static int open_pty(struct terminal *t, int *ret_theirs, struct err *e)
{
    auto_close int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    struct winsize size = { .ws_col = (unsigned short)t->cols, .ws_row = (unsigned short)t->rows };
    int unlock = 0;

    if (ours < 0 && errno == ENOSPC)
        return err_set(e, ERR_LIMIT, "the box has LIMIT_PTYS_PER_BOX (%d) pseudo terminals, or the machine no more",
                       LIMIT_PTYS_PER_BOX);
    if (ours < 0 || ioctl(ours, TIOCSPTLCK, &unlock) < 0)
        return err_sys(e, "open a pseudo terminal");
    auto_close int theirs = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (theirs < 0)
        return err_sys(e, "open a pseudo terminal");
    (void)fchown(theirs, BOX_UID, BOX_GID);
    (void)ioctl(ours, TIOCSWINSZ, &size);
    t->pty = TAKE_FD(ours);
    *ret_theirs = TAKE_FD(theirs);
    return 0;
}

int terminal_start(struct terminal *t, struct err *e)
{
    AUTO(arena_done) struct arena a = { 0 };
    auto_close int theirs = -1;
    struct pair vars[] = { { STR("TERM"), STR("xterm-256color") },
                           { STR("PAGER"), STR("cat") }, /* nobody turns pages for a call */
                           { STR("GIT_PAGER"), STR("cat") },
                           { STR("COLORTERM"), STR("truecolor") } };
    struct pairs more = { vars, ARRAY_LEN(vars) };
    const char *rc_path = arena_printf(&a, "%s/rc", t->dir);
    const char *const argv[] = { "bash", "--noprofile", "--rcfile", rc_path, "-i", NULL };

    int r = put_rc(t, e);
    if (r >= 0)
        r = open_pty(t, &theirs, e);
    if (r < 0)
        return r;
    struct child_opts o = {
        .file = "/bin/bash",
        .argv = argv,
        .env = child_env(&a, false, t->cwd, &more),
        .fds = { theirs, theirs, theirs },
        .cwd = t->cwd,
        .subreaper = true,
        .session = true,
        .tty = true,
    };
    t->watch = loop_watch(t->init->loop, t->pty, pty_events(t), on_pty, t);
    r = t->watch ? 0 : err_sys(e, "watch a pseudo terminal");
    if (r == 0)
        r = t->pid = child_start(t->init, &o, on_bash_exit, t, e);
    if (r < 0) {
        t->pid = 0;
        drop_pty(t);
        return r;
    }
    t->state = TERMINAL_STARTING;
    t->typed = false;
    return 0;
}

void terminal_close(struct terminal *t)
{
    if (t->closing)
        return;
    t->closing = true;
    while (t->listeners) {
        struct terminal_listener *l = t->listeners;
        t->listeners = l->next;
        l->on_bytes(l, "", 0);
    }
    commands_shell_gone(t, 128 + SIGKILL);
    if (!t->pid) {
        terminal_free(t);
        return;
    }
    struct tree all = { .root = t->pid, .also = &t->doomed };
    kill(t->pid, SIGSTOP); /* it must start nothing more while its children are killed */
    (void)tree_kill(t->init, &all);
    kill(t->pid, SIGKILL);
}

/* --- the keyboard --- */

static void feed(struct terminal *t)
{
    while (t->input.n) {
        ssize_t n = write(t->pty, t->input.p, t->input.n);
        if (n <= 0)
            break;
        buf_eat(&t->input, (size_t)n);
    }
    bool was = t->full;
    t->full = t->input.n > 0;
    if (t->watch && t->full != was)
        loop_change(t->watch, pty_events(t));
}

void terminal_press(struct terminal *t, const char *keys)
{
    (void)buf_z(&t->input, keys);
    t->open_line = false;
    feed(t);
}

/* Until bash has begun a command its line editor may have the terminal, raw: there Enter and control-D are bytes like
 * others, and would reach the command as such. So they wait here. */
static bool is_about_to_begin(const struct terminal *t)
{
    return t->current && t->current->status == COMMAND_WAITING;
}

int terminal_type(struct terminal *t, struct str bytes, struct err *e)
{
    if (t->state == TERMINAL_DOWN) {
        int r = terminal_start(t, e);
        if (r < 0)
            return r;
    }
    if (t->input.n + t->early.n + bytes.n > LIMIT_TERMINAL_INPUT)
        return err_set(e, ERR_LIMIT, "more than LIMIT_TERMINAL_INPUT (%ld bytes) of input wait for session %s",
                       LIMIT_TERMINAL_INPUT, t->name);
    if (bytes.n)
        t->open_line = !strchr("\r\n\004", bytes.p[bytes.n - 1]);
    t->typed = true;
    t->last_us = wall_us();
    (void)buf_str(is_about_to_begin(t) ? &t->early : &t->input, bytes);
    feed(t);
    return 0;
}

int terminal_type_end(struct terminal *t, struct err *e)
{
    /* Behind a line that was begun, the first only hands it over. */
    return terminal_type(t, t->open_line ? STR("\004\004") : STR("\004"), e);
}

void terminal_type_early(struct terminal *t)
{
    (void)buf_str(&t->input, (struct str){ t->early.p, t->early.n });
    buf_reset(&t->early);
    feed(t);
}

bool terminal_at_prompt(const struct terminal *t)
{
    pid_t front = -1;

    return t->pty >= 0 && ioctl(t->pty, TIOCGPGRP, &front) == 0 && front == t->pid;
}

void terminal_resize(struct terminal *t, int cols, int rows)
{
    struct winsize size = { .ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows };

    t->cols = cols;
    t->rows = rows;
    if (t->pty >= 0)
        (void)ioctl(t->pty, TIOCSWINSZ, &size);
}

struct terminal_info terminal_describe(const struct terminal *t)
{
    return (struct terminal_info){ .name = t->name,
                                   .cwd = t->cwd,
                                   .up = t->state != TERMINAL_DOWN,
                                   .busy = terminal_busy(t),
                                   .named = t->named,
                                   .pid = t->pid,
                                   .created_us = t->created_us,
                                   .last_us = t->last_us,
                                   .total = t->total,
                                   .no_change_ms = t->no_change_ms,
                                   .cols = t->cols,
                                   .rows = t->rows };
}

void terminal_set_no_change(struct terminal *t, int64_t ms)
{
    t->no_change_ms = ms;
}

void terminal_keep(struct terminal *t)
{
    t->named = true;
}
