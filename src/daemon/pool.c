/* Seats that are made before anybody asks. Filling never stands in the way of a request: it starts when none is
 * under way and the last one is a moment ago. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/loop.h"
#include "daemon/seats.h"
#include "image/layer.h"
#include "isolate/spec.h"

enum { QUIET_MS = 20, AT_ONCE = 2, BACKOFF_MS = 1000, BACKOFF_MAX = 6 };

void pool_failed(struct seats *s, const struct err *why)
{
    int shift = s->pool_failures < BACKOFF_MAX ? s->pool_failures++ : BACKOFF_MAX;
    int64_t wait_ms = (int64_t)BACKOFF_MS << shift;

    log_warn("cannot fill the pool", "error=\"%s\", trying again in %lld ms", why->msg, (long long)wait_ms);
    s->pool_not_before_us = now_us() + wait_ms * 1000;
}

void pool_pump(struct seats *s)
{
    struct err e = { 0 };
    struct seat *x;
    int64_t now = now_us();

    if (s->closing || s->recovering || s->opts->pool_size <= 0 || s->making_asked > 0)
        return;
    if (s->parked + s->making_pool >= (unsigned)s->opts->pool_size || s->making_pool >= AT_ONCE)
        return;
    int64_t from = s->last_create_us ? s->last_create_us + QUIET_MS * 1000 : 0;
    if (from < s->pool_not_before_us)
        from = s->pool_not_before_us;
    if (now < from) {
        loop_timer_set(s->pool_timer, (from - now) / 1000 + 1);
        return;
    }
    if (seats_make(s, &s->opts->pool_spec, true, &x, &e) < 0)
        seat_end(x, &e);
    loop_timer_set(s->pool_timer, QUIET_MS);
}

/* A connection that says nothing: to init somebody is there, until the next one connects or this one closes. */
void pool_hold(struct seat *x)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%.31s.sock", x->all->box_dir, x->id);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
        log_warn("cannot hold a parked box", "id=%s errno=%d, it ends when its time alone is over", x->id, errno);
        return;
    }
    x->hold = TAKE_FD(fd);
}

static bool is_empty(int scratch, enum layer_tree t)
{
    auto_close int fd = openat(scratch, layer_tree_names[t], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    bool empty = d != NULL;

    if (d)
        fd = -1; /* its own now */
    for (struct dirent *x; empty && (x = readdir(d));)
        empty = strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0;
    if (d)
        closedir(d);
    return empty;
}

/* A program that was started in it, a browser for instance, may have left files: then it is not the bare image. */
static bool is_clean(const struct seat *x)
{
    for (enum layer_tree t = 0; t < LAYER_TREES; t++)
        if (x->proc.scratch < 0 || !is_empty(x->proc.scratch, t))
            return false;
    return true;
}

static struct seat *find_parked(struct seats *s, const struct box_spec *spec, bool clean)
{
    for (int b = 0; s->parked > 0 && b < SEAT_BUCKETS; b++)
        for (struct seat *x = s->buckets[b]; x; x = x->next)
            if (x->state == SEAT_PARKED && spec_fits(&x->spec, spec) && (!clean || is_clean(x)))
                return x;
    return NULL;
}

bool pool_take(struct seats *s, const struct seat_waiter *w, const struct box_spec *spec, bool clean)
{
    int64_t asked = now_us();
    struct err e;
    struct seat *x = find_parked(s, spec, clean);
    if (!x)
        return false;
    if ((!spec_same_limits(&x->spec, spec) && seat_limit(x, spec, &e) < 0) || state_hand_out(x, &e) < 0) {
        log_warn("parked box cannot be handed out", "id=%s error=\"%s\", making one", x->id, e.msg);
        seat_end(x, NULL);
        return false;
    }
    struct seat_reply r = { .warm = true, .unenforced = cgroups_unenforced(&s->groups), .setup_us = now_us() - asked };
    snprintf(r.id, sizeof r.id, "%s", x->id);
    x->spec = *spec;
    x->warm = true;
    seat_keep(x);
    if (x->hold >= 0)
        close(TAKE_FD(x->hold));
    seat_set_state(x, SEAT_OUT);
    seat_answer(s, w, &r);
    loop_timer_set(s->pool_timer, QUIET_MS);
    return true;
}
