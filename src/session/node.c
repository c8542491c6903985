#include "session/garbage.h"
#include "session/node.h"
#include "session/retention.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/limits.h"
#include "base/log.h"
#include "session/call.h"
#include "session/link.h"
#include "session/restore.h"
#include "store/recorder_client.h"

enum { SWEEP_MS = 500 };

void random_hex(char *out, size_t digits)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bytes[32];

    if (digits > sizeof bytes || getrandom(bytes, digits, 0) != (ssize_t)digits)
        abort();
    for (size_t i = 0; i < digits; i++)
        out[i] = hex[bytes[i] & 15];
    out[digits] = 0;
}

void iso_time(int64_t wall_us_, char out[32])
{
    static char second[24]; /* the last one: most times that are told are of the same second */
    static time_t at = -1;
    static size_t n;
    time_t t = wall_us_ / 1000000;
    int us = (int)(wall_us_ % 1000000);
    struct tm tm;

    if (t != at) {
        gmtime_r(&t, &tm);
        n = strftime(second, sizeof second, "%Y-%m-%dT%H:%M:%S", &tm);
        at = t;
    }
    memcpy(out, second, n);
    out[n] = '.';
    for (int i = 6; i > 0; i--, us /= 10)
        out[n + (size_t)i] = (char)('0' + us % 10);
    out[n + 7] = 0;
}

void utc_time(int64_t wall_us_, char out[32])
{
    iso_time(wall_us_, out);
    strcat(out, "Z");
}

/* Call ids grow over restarts, too: they begin at the time of the start. */
uint64_t node_call_id(struct node *n)
{
    return ++n->last_call;
}

int node_append(struct node *n, enum record_type type, const struct str *parts, size_t count, struct err *e)
{
    return journal_append(n->journal, type, parts, count, NULL, e);
}

/* Each call that is refused hears why; whoever runs the server should, too, and once. */
static void watch_room(struct node *n)
{
    struct err e;
    bool full = journal_check(n->journal, &e) < 0;

    if (full && !n->full)
        log_error("log full", "error='%s', refusing new calls", e.msg);
    if (!full && n->full)
        log_info("log has room", "taking calls again");
    n->full = full;
}

static void sweep(void *arg)
{
    struct node *n = arg;
    int64_t now = wall_us();
    struct worker *w;
    struct box *b;
    struct err e;

    for (size_t i = 0; (w = map_next(&n->workers, &i));)
        worker_sweep(w, now);
    for (size_t i = 0; (b = map_next(&n->boxes, &i));)
        link_flush(b->link);
    for (size_t i = 0; (b = map_next(&n->boxes, &i));)
        if (b->expires_us && b->expires_us <= now && b->state != BOX_CLOSING && !b->running)
            box_close(b, "expired", NULL, NULL);
    if (tenant_quotas_load(n, &e) < 0)
        log_warn("quotas not read", "error='%s', going on with the old ones", e.msg);
    call_cancel_backstop(n, now_ms());
    watch_room(n);
    garbage_sweep(n);
    retention_sweep(n);
    loop_timer_set(n->sweep, SWEEP_MS);
}

static void on_up(void *arg)
{
    struct node *n = arg;
    restore_boxes(n); /* also after supervise alone was restarted: boxes that died unseen are found */
}

/* Says who wrote what follows: an old log stays readable, and a person sees where a server began. */
static int record_start(struct node *n, struct err *e)
{
    struct jw w = { .out = &n->scratch };

    jw_obj(&w);
    jw_kint(&w, "time", n->started_us);
    jw_kz(&w, "version", SANDGLASS_VERSION);
    jw_kz(&w, "revision", SANDGLASS_REV);
    jw_obj_end(&w);
    struct str body = buf_view(w.out);
    return node_append(n, RECORD_START, &body, 1, e);
}

struct node *node_new(struct loop *l, const struct node_opts *o, struct err *e)
{
    struct node *n = calloc(1, sizeof *n);
    char path[512];

    if (!n)
        abort();
    *n = (struct node){ .loop = l, .opts = *o, .started_us = wall_us() };
    n->last_call = (uint64_t)n->started_us;
    buf_init(&n->scratch, LIMIT_RECORD);
    snprintf(path, sizeof path, "%s/log", o->home);
    if (journal_open(path, &n->journal, e) < 0 || record_start(n, e) < 0) {
        journal_close(n->journal);
        buf_done(&n->scratch);
        free(n);
        return NULL;
    }
    n->tenant = tenant_get(n, STR(TENANT_DEFAULT), e);
    if (tenant_quotas_load(n, e) < 0 || secrets_open(o->home, o->secret_key_file, &n->secrets, e) < 0) {
        node_free(n);
        return NULL;
    }
    n->recorder = recorder_client_new(l, o->home);
    n->seats = seats_new(l, &(struct seats_opts){ .home = o->home, .dead = on_box_dead, .up = on_up, .arg = n });
    loop_each_turn(l, call_commit, n);
    n->sweep = loop_timer_new(l, sweep, n);
    loop_timer_set(n->sweep, SWEEP_MS);
    return n;
}

void node_free(struct node *n)
{
    if (!n)
        return;
    loop_timer_free(n->sweep);
    seats_free(n->seats);
    recorder_client_free(n->recorder);
    journal_close(n->journal);
    secrets_free(n->secrets);
    buf_done(&n->scratch);
    free(n);
}
