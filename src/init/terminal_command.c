/* The commands of a terminal: one after the other, each with its output, its end, and those who wait for it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/init.h"
#include "init/terminal_parts.h"

enum {
    POLITE_MS = 150, /* after SIGINT, before SIGKILL */
    ROUND_MS = 50,
    GIVE_UP_MS = 1500, /* bash itself does not come back: it is killed, too */
    AGAIN_MS = 50,     /* somebody's own program is in front: look again */
};

struct command_wait {
    struct command_wait *next;
    struct command *command;
    struct command_wait_opts o;
    struct loop_timer *limit, *quiet;
};

/* --- waiting --- */

static void wait_free(struct command_wait *w)
{
    for (struct command_wait **at = &w->command->waits; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    loop_timer_free(w->limit);
    loop_timer_free(w->quiet);
    free(w);
}

static void fire(struct command_wait *w, enum command_news why)
{
    struct command_wait_opts o = w->o;
    struct command *c = w->command;

    if (why == NEWS_QUIET)
        c->silent = true;
    wait_free(w);
    o.cb(o.arg, c, why);
}

static void on_limit(void *arg)
{
    fire(arg, NEWS_TIME);
}

static void on_quiet(void *arg)
{
    struct command_wait *w = arg;
    int64_t since = w->command->last_output_us;
    int64_t left = w->o.quiet_ms - (now_us() - since) / 1000;

    if (!since || left > 0) /* it has not begun, or said something meanwhile */
        loop_timer_set(w->quiet, since ? left : w->o.quiet_ms);
    else
        fire(w, NEWS_QUIET);
}

static void wake(struct command *c, enum command_news why)
{
    for (struct command_wait *w = c->waits, *next; w; w = next) {
        next = w->next;
        if (why == NEWS_END || w->o.output)
            fire(w, why);
    }
}

void command_wait(struct command *c, const struct command_wait_opts *o)
{
    struct command_wait *w = calloc(1, sizeof *w);
    struct loop *l = c->terminal->init->loop;

    if (!w)
        abort();
    *w = (struct command_wait){ .command = c, .o = *o, .next = c->waits };
    c->waits = w;
    w->limit = loop_timer_new(l, on_limit, w);
    w->quiet = loop_timer_new(l, on_quiet, w);
    if (o->ms >= 0)
        loop_timer_set(w->limit, o->ms);
    if (o->quiet_ms > 0)
        loop_timer_set(w->quiet, o->quiet_ms);
}

void command_unwait(struct init *in, void *arg)
{
    for (struct terminal *t = in->terminals; t; t = t->next)
        for (struct command *c = t->commands; c; c = c->next)
            for (struct command_wait *w = c->waits, *next; w; w = next) {
                next = w->next;
                if (w->o.arg == arg)
                    wait_free(w);
            }
}

/* --- the list --- */

static void command_free(struct command *c)
{
    struct terminal *t = c->terminal;

    for (struct command **at = &t->commands; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    t->kept--;
    while (c->waits)
        wait_free(c->waits);
    stream_done(&c->out);
    free(c->text);
    free(c->prompt);
    free(c->script);
    free(c);
}

static bool is_over(const struct command *c)
{
    return c->status != COMMAND_WAITING && c->status != COMMAND_RUNNING;
}

static void forget_old(struct terminal *t)
{
    for (struct command *c = t->commands, *next; c && t->kept > LIMIT_CONSOLE_RECORDS; c = next) {
        next = c->next;
        if (is_over(c) && !c->waits)
            command_free(c);
    }
}

struct command *terminal_first(const struct terminal *t)
{
    return t->commands;
}

struct command *terminal_last(const struct terminal *t)
{
    struct command *last = NULL;

    for (struct command *c = t->commands; c; c = c->next) {
        last = c;
        if (!is_over(c))
            break;
    }
    return last;
}

bool terminal_busy(const struct terminal *t)
{
    for (const struct command *c = t->commands; c; c = c->next)
        if (!is_over(c))
            return true;
    return false;
}

static void on_hard(void *arg);
static void on_ending(void *arg);

void commands_init(struct terminal *t)
{
    t->hard = loop_timer_new(t->init->loop, on_hard, t);
    t->ending = loop_timer_new(t->init->loop, on_ending, t);
}

void commands_done(struct terminal *t)
{
    while (t->commands)
        command_free(t->commands);
    loop_timer_free(t->hard);
    loop_timer_free(t->ending);
}

/* --- running --- */

static void quote(struct buf *b, struct str s)
{
    buf_char(b, '\'');
    for (size_t i = 0; i < s.n; i++)
        s.p[i] == '\'' ? buf_z(b, "'\\''") : buf_char(b, s.p[i]);
    buf_char(b, '\'');
}

/* The text is a file of its own, so that it begins in line 1, and what is in front of it is not in its lines: variables
 * in front of "." are for its time only. The first line is the number, by which the shell knows what it has done. */
static int write_script(struct command *c, const struct command_ask *ask, struct err *e)
{
    AUTO(buf_done) struct buf b = { .cap = 16 * MiB };

    buf_printf(&b, "#%u\n", c->seq);
    if (ask->cwd) {
        buf_printf(&b, "\\builtin cd %s -- ", ask->logical ? "-L" : "-P");
        quote(&b, str_of(ask->cwd));
        buf_z(&b, "\n");
    }
    for (size_t i = 0; i < ask->env.n; i++) {
        buf_str(&b, ask->env.v[i].name);
        buf_char(&b, '=');
        quote(&b, ask->env.v[i].value);
        buf_char(&b, ' ');
    }
    buf_printf(&b, "\\. %s/text\n", c->terminal->dir);
    if (b.full || !buf_char(&b, 0))
        return err_set(e, ERR_LIMIT, "env is larger than %ld bytes", 16 * MiB);
    c->script = strdup(b.p);
    return 0;
}

static int put_file(struct terminal *t, const char *name, const char *text)
{
    char path[48];
    size_t n = strlen(text);

    snprintf(path, sizeof path, "%s/%s", t->dir, name);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (size_t at = 0; fd >= 0 && at < n;) {
        ssize_t w = write(fd, text + at, n - at);
        if (w <= 0)
            return -errno;
        at += (size_t)w;
    }
    return fd < 0 ? -errno : 0;
}

static int put_script(struct terminal *t, const struct command *c)
{
    char path[48], next[48];

    snprintf(path, sizeof path, "%s/cmd", t->dir);
    snprintf(next, sizeof next, "%s/cmd.new", t->dir);
    int r = put_file(t, "text", c->text);
    if (r == 0)
        r = put_file(t, "cmd.new", c->script);
    return r < 0 || rename(next, path) == 0 ? r : -errno; /* somebody may press Enter at any time: never half a file */
}

/* A new bash has done nothing yet: it would do once more what it finds. */
static void drop_script(struct terminal *t)
{
    char path[48];

    snprintf(path, sizeof path, "%s/cmd", t->dir);
    (void)unlink(path);
}

static void set_prompt(struct terminal *t, struct command *c)
{
    char host[65] = "box";
    const char *at = t->cwd;
    bool home = strncmp(at, BOX_HOME, strlen(BOX_HOME)) == 0 && (at[strlen(BOX_HOME)] == '/' || !at[strlen(BOX_HOME)]);

    (void)gethostname(host, sizeof host - 1);
    if (asprintf(&c->prompt, "gem@%s:%s%s$ ", host, home ? "~" : "", home ? at + strlen(BOX_HOME) : at) < 0)
        abort();
}

static void end_command(struct terminal *t, enum command_status status, int exit_code)
{
    struct command *c = t->current;

    t->current = NULL;
    loop_timer_set(t->hard, -1);
    loop_timer_set(t->ending, -1);
    procs_done(&t->doomed);
    buf_reset(&t->early); /* it never began */
    if (!c)
        return;
    c->status = status;
    c->exit_code = exit_code;
    c->silent = false;
    t->last_us = wall_us();
    wake(c, NEWS_END);
    forget_old(t);
}

void commands_next(struct terminal *t)
{
    struct command *c = t->commands;
    struct err e = { 0 };

    if (t->current || t->closing)
        return;
    while (c && c->status != COMMAND_WAITING)
        c = c->next;
    if (!c)
        return;
    if (t->state != TERMINAL_DOWN && t->state != TERMINAL_STARTING && t->state != TERMINAL_IDLE)
        return;
    if (t->state == TERMINAL_IDLE && !terminal_at_prompt(t)) { /* a person runs something */
        loop_timer_set(t->ending, AGAIN_MS);
        return;
    }
    t->current = c;
    free(t->before); /* now: once it has begun, its own children are there */
    t->before = t->pid ? proc_children(t->pid) : NULL;
    t->before_tick = proc_tick();
    if (!c->prompt)
        set_prompt(t, c);
    int r = put_script(t, c);
    free(TAKE_PTR(c->script));
    if (r == 0 && t->state == TERMINAL_DOWN)
        r = terminal_start(t, &e);
    else if (r == 0 && t->state == TERMINAL_IDLE)
        terminal_press(t, t->typed ? "\025\n" : "\n"); /* ^U: what a person began to type */
    if (r < 0) {
        const char *text = e.msg[0] ? e.msg : strerror(-r);
        stream_add(&c->out, text, strlen(text));
        end_command(t, COMMAND_TERMINATED, 126);
    }
}

struct command *terminal_run(struct terminal *t, const struct command_ask *ask, struct err *e)
{
    struct command *c = calloc(1, sizeof *c);
    struct command **at = &t->commands;

    if (!c)
        abort();
    c->terminal = t;
    c->seq = ++t->seq;
    c->hard_ms = ask->hard_ms;
    c->text = strndup(ask->text.p, ask->text.n);
    stream_init(&c->out, LIMIT_CONSOLE_OUTPUT / 2, LIMIT_CONSOLE_OUTPUT / 2, 0);
    t->kept++;
    if (write_script(c, ask, e) < 0) {
        c->next = NULL;
        command_free(c);
        return NULL;
    }
    while (*at)
        at = &(*at)->next;
    *at = c;
    t->last_us = wall_us();
    if (t->current && t->current->silent)
        command_kill(t->current);
    commands_next(t);
    return c;
}

void commands_output(struct terminal *t, const char *p, size_t n)
{
    struct command *c = t->current;

    if (!c || c->status != COMMAND_RUNNING)
        return;
    c->last_output_us = now_us();
    c->silent = false;
    while (n) {
        if (t->cr && *p != '\n')
            stream_add(&c->out, "\r", 1);
        t->cr = false;
        const char *cr = memchr(p, '\r', n);
        size_t run = cr ? (size_t)(cr - p) : n;
        stream_add(&c->out, p, run);
        p += run;
        n -= run;
        if (cr) {
            t->cr = true;
            p++;
            n--;
        }
    }
    wake(c, NEWS_OUTPUT);
}

static void begun(struct terminal *t, unsigned seq)
{
    struct command *c = t->current;

    if (!c || c->seq != seq)
        return;
    if (t->state !=
        TERMINAL_ENDING) /* it may have been killed on its way to bash: then the rounds of on_ending go on */
        t->state = TERMINAL_BUSY;
    t->cr = false;
    c->status = COMMAND_RUNNING;
    c->begun_us = c->last_output_us = now_us();
    if (c->hard_ms > 0)
        loop_timer_set(t->hard, c->hard_ms);
    terminal_type_early(t);
}

static struct tree tree_of(const struct terminal *t)
{
    return (struct tree){ .root = t->pid, .before = t->before, .before_tick = t->before_tick, .also = &t->doomed };
}

/* Bash came back. Of a command that was ended a child may be left that was born while bash gave it up. */
static void came_back(struct terminal *t, int status)
{
    struct tree tree = tree_of(t);

    if (t->state == TERMINAL_ENDING)
        (void)tree_signal(t->init, &tree, SIGKILL);
    end_command(t, t->state == TERMINAL_ENDING ? t->why : COMMAND_COMPLETED, status);
}

static void done(struct terminal *t, unsigned seq, int status)
{
    if (t->current && t->current->seq == seq)
        came_back(t, status);
}

static void set_cwd(struct terminal *t, const char *cwd)
{
    if (cwd[0] != '/' || strcmp(cwd, t->cwd) == 0)
        return;
    free(t->cwd);
    t->cwd = strdup(cwd);
}

void commands_mark(struct terminal *t, char kind, char *text)
{
    unsigned seq = text[0] == '#' ? (unsigned)strtoul(text + 1, NULL, 10) : 0;
    const char *status = strchr(text, ';'), *cwd = kind == 'I' ? text : status ? strchr(status + 1, ';') : NULL;

    if (kind == 'B') {
        begun(t, seq);
    } else if (kind == 'D' && status && cwd) {
        set_cwd(t, cwd + 1);
        done(t, seq, atoi(status + 1));
    } else if (kind == 'I') {
        set_cwd(t, cwd);
        if (t->state == TERMINAL_ENDING && t->current && t->current->status == COMMAND_WAITING)
            return; /* the interrupt was faster than the command, which bash will read now; then it ends */
        if (t->current && t->current->status == COMMAND_RUNNING) /* SIGINT made bash give it up */
            came_back(t, 128 + SIGINT);
        bool starting = t->state == TERMINAL_STARTING;
        t->state = TERMINAL_IDLE;
        t->typed = false;
        if (starting && t->current) /* it was written after bash had looked */
            terminal_press(t, "\n");
        commands_next(t);
    }
}

void commands_shell_gone(struct terminal *t, int exit_code)
{
    struct command *c = t->current;
    bool asked = t->state == TERMINAL_ENDING || t->closing;

    if (c && c->status == COMMAND_RUNNING) {
        c->shell_exited = true;
        end_command(t, t->closing ? COMMAND_TERMINATED : asked ? t->why : COMMAND_COMPLETED, exit_code);
    } else if (c && !t->closing) { /* before it could begin; another try might end the same way, for ever */
        c->shell_exited = true;
        end_command(t, COMMAND_TERMINATED, exit_code);
    }
    t->state = TERMINAL_DOWN;
    drop_script(t);
    if (t->closing) {
        t->current = NULL;
        for (struct command *w = t->commands; w; w = w->next)
            if (!is_over(w)) {
                w->status = COMMAND_TERMINATED;
                w->exit_code = exit_code;
                wake(w, NEWS_END);
            }
        return;
    }
    commands_next(t);
}

/* --- ending --- */

static void end_now(struct terminal *t, enum command_status why)
{
    struct tree tree = tree_of(t);

    if (t->state == TERMINAL_ENDING || !t->pid)
        return;
    t->state = TERMINAL_ENDING;
    t->why = why;
    t->ending_since_ms = now_ms();
    procs_done(&t->doomed);
    (void)procs_scan(t->init, &tree, &t->doomed);
    kill(t->pid, SIGINT); /* before its children: so bash gives up the whole command */
    (void)procs_signal(&t->doomed, SIGINT);
    loop_timer_set(t->ending, POLITE_MS);
}

static void on_ending(void *arg)
{
    struct terminal *t = arg;
    struct tree tree = tree_of(t);

    if (t->state != TERMINAL_ENDING) {
        commands_next(t);
        return;
    }
    if (now_ms() - t->ending_since_ms >= GIVE_UP_MS) {
        kill(t->pid, SIGSTOP);
        (void)tree_kill(t->init, &tree);
        kill(t->pid, SIGKILL);
        return;
    }
    (void)tree_signal(t->init, &tree, SIGKILL); /* nobody is stopped first: bash would take that for a ^Z, and go on */
    kill(t->pid, SIGINT);
    loop_timer_set(t->ending, ROUND_MS);
}

static void on_hard(void *arg)
{
    end_now(arg, COMMAND_HARD_TIMEOUT);
}

void command_kill(struct command *c)
{
    struct terminal *t = c->terminal;

    if (c->status == COMMAND_WAITING && t->current != c) {
        c->status = COMMAND_TERMINATED;
        c->exit_code = 128 + SIGKILL;
        wake(c, NEWS_END);
    } else if (!is_over(c)) {
        end_now(t, COMMAND_TERMINATED);
    }
}
