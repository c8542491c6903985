/* Init's side: a pool with a queue.
 *
 *   idle --submit--> busy --whole reply--> idle --60 s--> ended (its socket is closed, it exits)
 *                    busy --deadline, cancel--> killed, the call gets its outcome; the next call starts another
 */
#include "init/hands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/child.h"
#include "init/hand.h"
#include "init/init.h"
#include "init/proc.h"
#include "init/task.h"
#include "tool/tool.h"

enum { IDLE_MS = 60000 };

struct worker {
    struct hands *hands;
    struct worker *next;
    pid_t pid;
    int fd;
    struct loop_fd *watch;
    struct loop_timer *deadline; /* made when first needed */
    struct task *task;           /* NULL: idle */
    struct hand_request request;
    size_t sent; /* of request and parameters */
    bool wants_out;
    enum outcome end; /* why it was killed; OUTCOME_OK: it was not */
    int64_t idle_since_ms;
};

struct hands {
    struct init *init;
    struct worker *list;
    size_t count;
    struct task *wait, **wait_end;
    struct loop_timer *sweep;
    bool sweeping;
};

static void next_task(struct worker *w);

static void worker_free(struct worker *w)
{
    struct hands *h = w->hands;

    for (struct worker **at = &h->list; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            h->count--;
            break;
        }
    loop_unwatch(w->watch);
    loop_timer_free(w->deadline);
    if (w->fd >= 0)
        close(w->fd);
    free(w);
}

static void fail_task(struct worker *w, int status)
{
    struct task *t = TAKE_PTR(w->task);
    struct err e;

    if (!t)
        return;
    buf_done(&t->reply);
    if (w->end == OUTCOME_TIMEOUT)
        err_set(&e, ERR_NONE, "timed out after %lld ms", (long long)t->call.timeout_ms);
    else if (w->end == OUTCOME_KILLED)
        err_set(&e, ERR_NONE, "cancelled");
    else if (WIFSIGNALED(status))
        err_set(&e, ERR_SYSTEM, "file worker ended by signal %d", WTERMSIG(status));
    else
        err_set(&e, ERR_SYSTEM, "file worker ended with status %d", WEXITSTATUS(status));
    task_fail(t, w->end == OUTCOME_OK ? OUTCOME_INFRA_ERROR : w->end, &e);
}

static void on_hand_exit(void *arg, pid_t pid, int status)
{
    struct worker *w = arg;
    struct hands *h = w->hands;

    (void)pid;
    fail_task(w, status);
    worker_free(w);
    if (h->wait) { /* its place is free for another */
        struct task *t = h->wait;
        h->wait = t->next_wait;
        if (!h->wait)
            h->wait_end = &h->wait;
        (void)hands_submit(h->init, t);
    }
}

/* A hand may have started programs (program.h). It is stopped first, so that it starts no more, and dies last, so that
 * they are below it until they are dead. */
static void end_programs(struct worker *w)
{
    auto_free char *children = proc_children(w->pid);

    if (!children)
        return;
    kill(w->pid, SIGSTOP);
    (void)tree_kill(w->hands->init, &(struct tree){ .root = w->pid });
}

/* A child that is not reaped yet keeps its pid, so the plain kill cannot hit another process. */
static void end_hand(struct worker *w, enum outcome why)
{
    if (w->end == OUTCOME_OK)
        w->end = why;
    loop_unwatch(w->watch);
    w->watch = NULL;
    end_programs(w);
    kill(w->pid, SIGKILL);
}

static void on_deadline(void *arg)
{
    end_hand(arg, OUTCOME_TIMEOUT);
}

static void cancel(struct task *t)
{
    struct worker *w = t->state;
    struct err e;

    if (w) {
        end_hand(w, OUTCOME_KILLED);
        return;
    }
    for (struct task **at = &t->init->hands->wait; *at; at = &(*at)->next_wait)
        if (*at == t) {
            *at = t->next_wait;
            if (!*at)
                t->init->hands->wait_end = at;
            break;
        }
    err_set(&e, ERR_NONE, "cancelled before it began");
    task_fail(t, OUTCOME_KILLED, &e);
}

static void on_sweep(void *arg)
{
    struct hands *h = arg;
    bool idle = false;

    for (struct worker *w = h->list; w; w = w->next) {
        if (w->task || w->fd < 0)
            continue;
        if (now_ms() - w->idle_since_ms < IDLE_MS) {
            idle = true;
            continue;
        }
        loop_unwatch(w->watch);
        w->watch = NULL;
        close(TAKE_FD(w->fd)); /* it reads end of file and exits */
    }
    h->sweeping = idle;
    if (idle)
        loop_timer_set(h->sweep, IDLE_MS / 2);
}

static void finish_task(struct worker *w)
{
    struct task *t = TAKE_PTR(w->task);
    struct hands *h = w->hands;

    if (w->deadline)
        loop_timer_set(w->deadline, -1);
    w->idle_since_ms = now_ms();
    task_reply_ready(t);
    if (h->wait)
        next_task(w);
    else if (!h->sweeping) {
        h->sweeping = true;
        loop_timer_set(h->sweep, IDLE_MS);
    }
}

static void read_reply(struct worker *w)
{
    struct task *t = w->task;
    struct frame_head head;
    struct str payload;
    size_t want = 4096;

    if (t->reply.n >= sizeof head) {
        memcpy(&head, t->reply.p, sizeof head);
        size_t missing = head.size <= LIMIT_FRAME ? sizeof head + head.size - t->reply.n : 0;
        want = missing < want ? want : missing;
    }
    void *to = buf_room(&t->reply, want);
    ssize_t n = to ? recv(w->fd, to, want, MSG_DONTWAIT) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        end_hand(w, OUTCOME_OK); /* dead already, or talking nonsense; its exit tells the story */
        return;
    }
    buf_grew(&t->reply, (size_t)n);
    int r = frame_peek(&t->reply, &head, &payload, NULL);
    if (r < 0)
        end_hand(w, OUTCOME_OK);
    else if (r > 0)
        finish_task(w);
}

/* True: all of it was written. */
static bool send_request(struct worker *w)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct task *t = w->task;
    struct str params = w->task->call.params;
    size_t head = sizeof w->request;

    while (w->sent < head + params.n) {
        struct iovec iov[2] = { { (char *)&w->request + w->sent, head - w->sent }, { (void *)params.p, params.n } };
        int first = 0;
        if (w->sent >= head) {
            first = 1;
            iov[1] = (struct iovec){ (char *)params.p + (w->sent - head), params.n - (w->sent - head) };
        }
        struct msghdr msg = { .msg_iov = iov + first, .msg_iovlen = (size_t)(2 - first) };
        if (w->sent == 0 && t->stream >= 0) {
            msg.msg_control = control.room;
            msg.msg_controllen = sizeof control.room;
            control.head = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
            memcpy(CMSG_DATA(&control.head), &t->stream, sizeof(int));
        }
        ssize_t n = sendmsg(w->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break; /* full, or dead: then its exit follows */
        w->sent += (size_t)n;
        if (t->stream >= 0)
            close(TAKE_FD(t->stream)); /* the hand has it; its end must be the end of the stream */
    }
    bool done = w->sent == head + params.n;
    if (w->wants_out != !done) {
        w->wants_out = !done;
        loop_change(w->watch, EPOLLIN | (done ? 0 : EPOLLOUT));
    }
    return done;
}

static void on_hand_ready(void *arg, uint32_t events)
{
    struct worker *w = arg;

    if (!w->task) { /* it says something unasked: end of file */
        end_hand(w, OUTCOME_OK);
        return;
    }
    if (events & EPOLLOUT)
        (void)send_request(w);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read_reply(w);
}

static bool give(struct worker *w, struct task *t)
{
    bool plain = t->call.head_bytes == 0 && t->call.tail_bytes == 0;

    w->task = t;
    w->sent = 0;
    t->state = w;
    t->cancel = cancel;
    buf_init(&t->reply, LIMIT_FRAME + (long)sizeof(struct frame_head));
    w->request = (struct hand_request){
        .tool = t->tool,
        .id = t->id,
        .begun_us = t->begun_us,
        .deadline_ms = t->call.timeout_ms > 0 ? t->begun_us / 1000 + t->call.timeout_ms : 0,
        .head_bytes = plain ? LIMIT_OUTPUT_HEAD : t->call.head_bytes,
        .tail_bytes = plain ? LIMIT_OUTPUT_TAIL : t->call.tail_bytes,
        .size = t->call.params.n,
        .stream = t->stream >= 0,
    };
    if (t->call.timeout_ms > 0) {
        if (!w->deadline)
            w->deadline = loop_timer_new(w->hands->init->loop, on_deadline, w);
        int64_t left = w->request.deadline_ms - now_ms();
        loop_timer_set(w->deadline, left > 0 ? left : 0);
    }
    return send_request(w);
}

static void next_task(struct worker *w)
{
    struct hands *h = w->hands;
    struct task *t = h->wait;

    h->wait = t->next_wait;
    if (!h->wait)
        h->wait_end = &h->wait;
    (void)give(w, t);
}

static struct worker *worker_new(struct hands *h, struct err *e)
{
    struct worker *w = calloc(1, sizeof *w);
    int fds[2];

    if (!w)
        abort();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
        free(w);
        err_sys(e, "start a file worker");
        return NULL;
    }
    *w = (struct worker){ .hands = h, .fd = fds[0] };
    struct child_place place;
    child_hold(&place);
    w->pid = child_fork(h->init, on_hand_exit, w, e);
    if (w->pid == 0) {
        hand_become(h->init, fds[1]);
        child_release(&place);
        hand_main(h->init);
    }
    child_release(&place);
    close(fds[1]);
    if (w->pid > 0)
        w->watch = loop_watch(h->init->loop, w->fd, EPOLLIN, on_hand_ready, w);
    w->next = h->list;
    h->list = w;
    h->count++;
    if (w->pid < 0) {
        worker_free(w);
        return NULL;
    }
    return w;
}

bool hands_submit(struct init *in, struct task *t)
{
    struct hands *h = in->hands;
    struct worker *w = h->list;
    struct err e;

    while (w && (w->task || w->fd < 0 || !w->watch))
        w = w->next;
    size_t streaming = 0; /* these take as long as their client likes, and have a limit of their own */
    for (const struct worker *o = h->list; o; o = o->next)
        streaming += o->task && o->task->tool->flags & TOOL_STREAM;
    if (!w && h->count - streaming < LIMIT_HANDS_PER_BOX) {
        w = worker_new(h, &e);
        if (!w && h->count == 0) {
            task_fail(t, e.sys == EAGAIN ? OUTCOME_PID_LIMIT : OUTCOME_INFRA_ERROR, &e);
            return true;
        }
    }
    if (w) {
        kill(w->pid, SIGCONT); /* it is the user's own process, who may have stopped it: "kill -STOP -1" */
        return give(w, t);
    }
    t->cancel = cancel;
    t->state = NULL;
    t->next_wait = NULL;
    *h->wait_end = t;
    h->wait_end = &t->next_wait;
    return false;
}

void hands_warm(struct init *in)
{
    struct hands *h = in->hands;
    struct err e;
    struct worker *w = worker_new(h, &e); /* if it cannot be now, the first call tells why */

    if (!w)
        return;
    w->idle_since_ms = now_ms();
    h->sweeping = true;
    loop_timer_set(h->sweep, IDLE_MS);
}

void hands_init(struct init *in)
{
    struct hands *h = calloc(1, sizeof *h);
    if (!h)
        abort();
    *h = (struct hands){ .init = in };
    h->wait_end = &h->wait;
    h->sweep = loop_timer_new(in->loop, on_sweep, h);
    in->hands = h;
}
