/* init's end of the conversation with serve: whatever comes, the link lives or is closed, and no call, result or
 * descriptor is lost. The calls themselves are made up: some finish at once, some when they are cancelled. */
#include "init/link.c"

#include <fcntl.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

void init_as_root(struct init *in)
{
    (void)in;
}
void browser_display(struct init *in, bool headed)
{
    (void)in, (void)headed;
}

bool child_given(const struct pairs *env)
{
    for (size_t i = 0; i < env->n; i++) /* reads what it was given */
        if (env->v[i].name.n > LIMIT_FRAME || env->v[i].value.n > LIMIT_FRAME)
            abort();
    return env->n > 0;
}
void driver_spare_renew(struct init *in)
{
    (void)in;
}
void shell_close(struct init *in, struct str name)
{
    (void)in;
    if (name.n > LIMIT_FRAME)
        abort();
}
void job_held(struct task *t, int64_t out, int64_t err)
{
    (void)t, (void)out, (void)err;
}

void shell_put_back(struct shell *s, uint64_t report, int64_t out, int64_t err)
{
    (void)s, (void)report, (void)out, (void)err;
}
void dial_begin(struct init *in, uint64_t id, const struct wire_dial *w)
{
    struct err e;

    (void)w;
    err_set(&e, ERR_NOT_FOUND, "nobody is there");
    link_dialed(in, id, id & 1 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1, &e);
}

struct task *task_find(struct init *in, uint64_t id)
{
    for (struct task *t = in->tasks; t; t = t->next)
        if (t->id == id)
            return t;
    return NULL;
}
void task_free(struct task *t)
{
    for (struct task **at = &t->init->tasks; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    for (int i = 0; i < 2; i++)
        if (t->reply_fds[i] >= 0)
            close(t->reply_fds[i]);
    buf_done(&t->reply);
    free(t);
}
static void finish(struct task *t)
{
    struct wire_result r = { .outcome = OUTCOME_OK, .message = STR("done") };
    unsigned fds = t->id & 2 ? 2 : 0;

    for (unsigned i = 0; i < fds; i++)
        t->reply_fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    t->finished = true;
    frame_add(&t->reply, FRAME_RESULT, t->id, fds, wire_result_fields, &r);
    link_send_result(t);
}
void task_begin(struct init *in, uint64_t id, const struct wire_call *call)
{
    size_t held = 0;

    for (struct task *t = in->tasks; t; t = t->next)
        held++;
    if (held >= LIMIT_CALLS_PER_BOX) {
        struct err e;
        err_set(&e, ERR_BUSY, "too many");
        link_refuse(in, id, &e);
        return;
    }
    struct task *t = calloc(1, sizeof *t);
    *t = (struct task){ .init = in, .id = id, .reply_fds = { -1, -1 }, .stream = -1, .next = in->tasks };
    buf_init(&t->reply, LIMIT_FRAME);
    in->tasks = t;
    if (call->params.n & 1)
        finish(t);
}
void task_cancel(struct task *t)
{
    if (!t->finished)
        finish(t);
}
void task_ack(struct task *t)
{
    if (!t->finished)
        return;
    if (t->queued)
        t->acked = true;
    else
        task_free(t);
}

/* What was sent is taken away, with the descriptors in it. */
static void drain(int peer)
{
    char bytes[4096], control[256];
    struct iovec iov = { bytes, sizeof bytes };

    for (;;) {
        struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
        if (recvmsg(peer, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
            return;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
            for (size_t i = 0; c->cmsg_type == SCM_RIGHTS && i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
                close(fd);
            }
    }
}

static int lowest_free(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct init in = { 0 };
    struct link l = { .init = &in, .listen_fd = -1 };
    int pair[2], before = lowest_free();
    size_t step = n ? 1 + data[0] * 16u : 1; /* frames come in pieces */

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    l.fd = pair[0];
    l.out_end = &l.out;
    l.fds_end = &l.fds;
    buf_init(&l.in, LIMIT_FRAME + (long)sizeof(struct frame_head));
    buf_init(&l.small, LIMIT_FRAME);
    in.link = &l;
    for (size_t at = 1; at < n && l.fd >= 0; at += step) {
        (void)!send(pair[1], data + at, n - at < step ? n - at : step, MSG_NOSIGNAL);
        on_ready_link(&l, EPOLLIN);
        drain(pair[1]);
        pump(&l);
    }
    shutdown(pair[1], SHUT_WR);
    while (l.fd >= 0) { /* until it has read the end */
        drain(pair[1]);
        on_ready_link(&l, EPOLLIN | EPOLLOUT);
    }
    if (l.out || l.fds || l.small.n)
        abort(); /* of a connection that is over nothing waits */
    while (in.tasks)
        task_free(in.tasks);
    buf_done(&l.in);
    buf_done(&l.small);
    arena_done(&l.scratch);
    close(pair[1]);
    if (lowest_free() != before)
        abort(); /* a descriptor was lost */
    return 0;
}
