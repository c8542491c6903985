#include "init/hand.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "init/child.h"
#include "init/driver.h"
#include "init/init.h"
#include "init/program.h"
#include "init/task.h"
#include "tool/tool.h"

enum { KEEP_ROOM = 64 * 1024 };

bool hand_read(int fd, struct buf *b, size_t n)
{
    while (b->n < n) {
        char *to = buf_room(b, n - b->n > 4096 ? n - b->n : 4096);
        if (!to)
            return false;
        ssize_t r = read(fd, to, b->size - b->n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return false;
        buf_grew(b, (size_t)r);
    }
    return true;
}

/* As read_exactly from the empty buffer, and takes the descriptor that may travel with the first byte. */
static bool read_head(int fd, struct buf *b, size_t n, int *ret_fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = { buf_room(b, n), n };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    ssize_t r;

    do
        r = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    while (r < 0 && errno == EINTR);
    if (r <= 0)
        return false;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
    buf_grew(b, (size_t)r);
    return hand_read(fd, b, n);
}

bool hand_write(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return false;
        p += w;
        n -= (size_t)w;
    }
    return true;
}

bool hand_work(struct hand *h, const struct hand_request *req, struct str packed, struct buf *reply)
{
    const struct tool *tool = req->tool;
    void *params = arena_alloc(h->arena, tool->params_size);
    void *result = arena_alloc(h->arena, tool->result_size);
    struct buf out = { .cap = LIMIT_FRAME };
    struct err e = { 0 };
    bool measured = !tool_only_looks(tool);
    struct wire_result r = { .disk_used_bytes = measured ? program_disk_used(FIELD_ABSENT) : FIELD_ABSENT };

    int n = field_unpack(tool->params, packed, h->arena, params, tool->params_size, &e);
    if (n >= 0) {
        field_defaults(tool->result, result, tool->result_size);
        h->deadline_ms = req->deadline_ms;
        h->head_bytes = req->head_bytes;
        h->tail_bytes = req->tail_bytes;
        h->outcome = OUTCOME_OK;
        h->message = (struct str){ 0 };
        h->cpu_us = h->dropped_bytes = 0;
        h->picture_count = 0;
        if (h->self && h->self->kind->before)
            h->self->kind->before(h, tool);
        n = tool->run_hand(h, params, result, &e);
        if (h->self && h->self->kind->after)
            h->self->kind->after(h, tool, n);
    }
    if (n == -EAGAIN && h->quick)
        return false;
    if (n < 0) {
        r.outcome = outcome_of_err(&e);
        r.error = e.code;
        r.sys = e.sys;
        r.message = str_of(e.msg);
    } else {
        field_pack(tool->result, result, &out);
        r.result = buf_view(&out);
        r.outcome = h->outcome;
        r.message = h->message;
        r.dropped_bytes = h->dropped_bytes;
    }
    r.pictures = (struct rows){ h->pictures, h->picture_count };
    r.cpu_us = h->cpu_us;
    r.run_us = now_us() - req->begun_us;
    if (measured)
        r.disk_used_bytes = program_disk_used(r.disk_used_bytes);
    buf_reset(reply);
    frame_add(reply, FRAME_RESULT, req->id, 0, wire_result_fields, &r);
    if (reply->full || out.full) {
        err_set(&e, ERR_LIMIT, "result exceeds LIMIT_FRAME (%ld bytes)", LIMIT_FRAME);
        r = (struct wire_result){ .outcome = OUTCOME_TASK_ERROR,
                                  .error = e.code,
                                  .sys = e.sys,
                                  .message = str_of(e.msg),
                                  .disk_used_bytes = r.disk_used_bytes };
        buf_reset(reply);
        frame_add(reply, FRAME_RESULT, req->id, 0, wire_result_fields, &r);
    }
    buf_done(&out);
    return true;
}

static void shrink(struct buf *b)
{
    if (b->size <= KEEP_ROOM)
        return;
    size_t cap = b->cap;
    buf_done(b);
    buf_init(b, cap);
    malloc_trim(0);
}

void hand_become(struct init *in, int fd)
{
    if (dup2(fd, 3) < 0)
        _exit(1);
    (void)syscall(SYS_close_range, 4u, ~0u, 0u);
    child_limit(in);
    child_become_user(in);
    umask(022);
    if (chdir(init_workspace(in)) < 0)
        (void)!chdir("/");
}

/* What the start of any program looks up. The file system of a new box has seen none of these names, and the first look
 * at each takes far longer than the next: better while nobody waits. */
static void look_around(void)
{
    static const char *const names[] = {
#if defined(__x86_64__)
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/x86_64-linux-gnu/libc.so.6",
#elif defined(__aarch64__)
        "/lib/ld-linux-aarch64.so.1",
        "/lib/aarch64-linux-gnu/libc.so.6",
#endif
        "/etc/ld.so.cache",
        "/bin/sh",
        "/dev/null"
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        (void)!access(names[i], R_OK);
}

void hand_main(struct init *in)
{
    struct arena arena;
    struct hand h = { .arena = &arena, .cwd = str_of(init_workspace(in)), .init = in, .stream = -1 };
    struct buf request, reply;

    arena_init(&arena);
    buf_init(&request, LIMIT_FRAME + (long)sizeof(struct hand_request) + 4096);
    buf_init(&reply, LIMIT_FRAME);
    look_around();
    for (;;) {
        struct hand_request req;

        buf_reset(&request);
        if (!read_head(3, &request, sizeof req, &h.stream))
            _exit(0);
        memcpy(&req, request.p, sizeof req);
        if (!hand_read(3, &request, sizeof req + req.size))
            _exit(1);
        (void)hand_work(&h, &req, (struct str){ request.p + sizeof req, req.size }, &reply);
        if (h.stream >= 0) /* its end is told before the result, or together with it */
            close(TAKE_FD(h.stream));
        if (!hand_write(3, reply.p, reply.n))
            _exit(0);
        arena_reset(&arena);
        shrink(&request);
        shrink(&reply);
    }
}

int64_t hand_until(const struct hand *h, double timeout_s, double *ret_limit_s)
{
    enum { MARGIN_MIN_MS = 10, MARGIN_MAX_MS = 250 };
    int64_t now = now_ms(), left = h->deadline_ms ? h->deadline_ms - now : INT64_MAX;
    int64_t margin = left / 20 > MARGIN_MAX_MS ? MARGIN_MAX_MS : left / 20 < MARGIN_MIN_MS ? MARGIN_MIN_MS : left / 20;
    int64_t own = timeout_s > 0 ? (int64_t)(timeout_s * 1000) : INT64_MAX;

    *ret_limit_s = timeout_s > 0 ? timeout_s : (double)((left + 49) / 50 * 50) / 1000;
    if (own == INT64_MAX && left == INT64_MAX)
        return INT64_MAX;
    return now + (own < left - margin ? own : left - margin);
}
