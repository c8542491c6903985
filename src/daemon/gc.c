/* Removing the layers and objects that no state and no box needs. A forked worker does it: it has the list of what the
 * log names, and from supervise's memory what living boxes are made of. Whatever is younger than the grace time stays,
 * so what is being taken and recorded while it works is safe. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/loop.h"
#include "daemon/seats.h"
#include "image/layer_gc.h"

struct ending { /* what the worker says, once */
    int32_t result;
    struct err err;
    struct gc_counts counts;
    uint64_t used;
};

struct job {
    struct seats *all;
    struct seat_waiter waiter;
    pid_t pid;
    int pipe;
    struct loop_fd *watch;
};

static bool running; /* one at a time */

/* --- the worker --- */

struct marks {
    struct arena arena;
    const char **layers;
    struct state_root *roots;
    size_t layers_n, layers_size, roots_n, roots_size;
};

static void *grow(void *v, size_t n, size_t *size, size_t each)
{
    if (n < *size)
        return v;
    *size = *size ? 2 * *size : 256;
    v = realloc(v, *size * each);
    if (!v)
        abort();
    return v;
}

static void mark_layer(struct marks *m, const char *id)
{
    m->layers = grow(m->layers, m->layers_n, &m->layers_size, sizeof *m->layers);
    m->layers[m->layers_n++] = arena_z(&m->arena, str_of(id));
}

static void mark_root(struct marks *m, const char *hex)
{
    if (strlen(hex) != SHA_HEX - 1)
        return;
    m->roots = grow(m->roots, m->roots_n, &m->roots_size, sizeof *m->roots);
    memcpy(m->roots[m->roots_n++].hex, hex, SHA_HEX);
}

/* The last line is "end": a list that was cut short must remove nothing. */
static int read_list(int fd, struct marks *m, struct err *e)
{
    int copy = dup(fd);
    FILE *f = copy < 0 || lseek(copy, 0, SEEK_SET) < 0 ? NULL : fdopen(copy, "r");
    char line[256];
    bool ended = false;

    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "l ", 2) == 0)
            mark_layer(m, line + 2);
        else if (strncmp(line, "r ", 2) == 0)
            mark_root(m, line + 2);
        ended = strcmp(line, "end") == 0;
    }
    if (f)
        fclose(f);
    return ended ? 0 : err_set(e, ERR_INVALID, "the list of what stays is not complete");
}

static void mark_boxes(const struct seats *s, struct marks *m)
{
    for (int b = 0; b < SEAT_BUCKETS; b++)
        for (const struct seat *x = s->buckets[b]; x; x = x->next) {
            for (uint32_t i = 0; i < x->spec.layer_count; i++)
                mark_layer(m, x->spec.layers[i]);
            for (uint32_t i = 0; i < x->sealed_count; i++)
                mark_layer(m, x->sealed[i]);
            if (x->root[0])
                mark_root(m, x->root + strlen("sha256:"));
            if (x->spec.parent_root[0])
                mark_root(m, x->spec.parent_root + strlen("sha256:"));
        }
}

static _Noreturn void work(const struct seats *s, const struct seat_request *q, int list, int pipe)
{
    struct ending end = { 0 };
    struct marks m = { 0 };

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGTERM, SIG_DFL);
    end.result = read_list(list, &m, &end.err);
    mark_boxes(s, &m);
    const struct gc_opts o = { .home = s->opts->home,
                               .roots = m.roots,
                               .roots_n = m.roots_n,
                               .layers = m.layers,
                               .layers_n = m.layers_n,
                               .grace_ms = q->gc.grace_ms,
                               .dry = q->gc.dry };
    if (end.result >= 0)
        end.result = layer_gc(&o, &end.counts, &end.err);
    if (end.result >= 0)
        end.used = layer_disk_use(s->opts->home);
    (void)!write(pipe, &end, sizeof end);
    _exit(0);
}

/* --- supervise's side --- */

static void answer(struct seats *s, const struct seat_waiter *w, const struct ending *end)
{
    const struct gc_counts *n = &end->counts;
    struct seat_reply r = { .result = end->result < 0 ? end->result : 0, .err = end->err };

    r.gc.layers_kept = n->layers_kept;
    r.gc.layers_removed = n->layers_removed;
    r.gc.objects_kept = n->objects_kept;
    r.gc.objects_removed = n->objects_removed;
    r.gc.removed_bytes = n->bytes;
    r.gc.used_bytes = end->used;
    seat_answer(s, w, &r);
}

static void on_end(void *arg, uint32_t events)
{
    struct job *j = arg;
    struct ending end = { 0 };

    (void)events;
    if (read(j->pipe, &end, sizeof end) != (ssize_t)sizeof end)
        end.result = err_set(&end.err, ERR_SYSTEM, "removing garbage: the worker ended");
    end.err.msg[sizeof end.err.msg - 1] = 0;
    answer(j->all, &j->waiter, &end);
    loop_unwatch(j->watch);
    close(j->pipe);
    (void)waitpid(j->pid, NULL, 0);
    running = false;
    free(j);
}

void seats_gc(struct seats *s, const struct seat_waiter *w, const struct seat_request *q, int list)
{
    struct ending end = { 0 };
    int pipes[2] = { -1, -1 };
    pid_t pid = -1;

    if (list < 0)
        end.result = err_set(&end.err, ERR_INVALID, "seat request: GC without a list of what stays");
    else if (running)
        end.result = err_set(&end.err, ERR_BUSY, "garbage is being removed already");
    else if (pipe2(pipes, O_CLOEXEC) < 0 || (pid = fork()) < 0)
        end.result = err_sys(&end.err, "start removing garbage");
    if (pid == 0)
        work(s, q, list, pipes[1]);
    if (pipes[1] >= 0)
        close(pipes[1]);
    if (end.result < 0) {
        if (pipes[0] >= 0)
            close(pipes[0]);
        answer(s, w, &end);
        return;
    }
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        abort();
    *j = (struct job){ .all = s, .waiter = *w, .pid = pid, .pipe = pipes[0] };
    j->watch = loop_watch(s->loop, j->pipe, EPOLLIN, on_end, j);
    running = true;
}
