/* How much a tenant may have at once. The file is the operator's; it is read again when it changes. What is there when
 * a quota shrinks stays: only what is new is refused. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/field.h"
#include "base/json.h"
#include "base/limits.h"
#include "session/node.h"

enum { FILE_MAX = 1024 * 1024, BOX_RETRY_MS = 5000 };

struct quota_row {
    int64_t boxes, memory_bytes, disk_bytes, trajectories;
    double cpu, calls_per_second;
};
static const struct field quota_fields[] = {
    FIELD(INT, struct quota_row, boxes, "at once", .min = 0, .max = 1e9),
    FIELD(INT, struct quota_row, memory_bytes, "of all boxes together", .min = 0, .max = 1e18),
    FIELD(INT, struct quota_row, disk_bytes, "of all boxes together", .min = 0, .max = 1e18),
    FIELD(NUM, struct quota_row, cpu, "cores of all boxes together", .min = 0, .max = 1e6),
    FIELD(NUM, struct quota_row, calls_per_second, "of tools", .min = 0, .max = 1e6),
    FIELD(INT, struct quota_row, trajectories, "that are recorded", .min = 0, .max = 1e12),
    { 0 },
};

static struct tenant_quota of_row(const struct quota_row *r)
{
    return (struct tenant_quota){ .most = { .boxes = r->boxes,
                                            .memory_bytes = r->memory_bytes,
                                            .disk_bytes = r->disk_bytes,
                                            .cpu_milli = (int64_t)(r->cpu * 1000),
                                            .trajectories = r->trajectories },
                                  .calls_per_second = r->calls_per_second };
}

static int read_rows(struct node *n, const struct json *file, struct arena *a, bool apply, struct err *e)
{
    struct quota_row r;
    struct tenant *t;

    if (file->type != JSON_OBJ)
        return err_set(e, ERR_TYPE, "quota.file: expected an object with a member for each tenant");
    for (const struct json *m = file->first; m; m = m->next) {
        int err = field_bind(quota_fields, m, a, &r, NULL, e);
        if (err < 0)
            return err_wrap(e, err, "quota.file: %.40s", m->name.p ? arena_z(a, m->name) : "");
        if (!apply)
            continue;
        if (str_is(m->name, "*"))
            n->quota = of_row(&r);
        else if ((t = tenant_get(n, m->name, e)))
            t->quota = of_row(&r);
    }
    return 0;
}

int tenant_quotas_load(struct node *n, struct err *e)
{
    const char *path = n->opts.quota_file;
    struct arena a = { 0 };
    struct json *file;
    struct tenant *t;
    struct stat st;

    if (!path || !*path)
        return 0;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "quota.file: %s", path);
    if (st.st_mtim.tv_sec == n->quota_seen.tv_sec && st.st_mtim.tv_nsec == n->quota_seen.tv_nsec)
        return 0;
    n->quota_seen = st.st_mtim; /* a bad file is complained about once */
    if (st.st_size > FILE_MAX)
        return err_set(e, ERR_LIMIT, "quota.file: %s is larger than %d bytes", path, FILE_MAX);
    char *text = arena_alloc(&a, (size_t)st.st_size + 1);
    ssize_t got = read(fd, text, (size_t)st.st_size);
    int r =
        got < 0 ? err_sys(e, "quota.file: read %s", path) : json_parse(&a, (struct str){ text, (size_t)got }, &file, e);
    if (r >= 0)
        r = read_rows(n, file, &a, false, e); /* all of it, or nothing */
    if (r >= 0) {
        n->quota = (struct tenant_quota){ 0 };
        for (size_t i = 0; (t = map_next(&n->tenants, &i));)
            t->quota.calls_per_second = -1; /* not named yet */
        r = read_rows(n, file, &a, true, e);
        for (size_t i = 0; (t = map_next(&n->tenants, &i));)
            if (t->quota.calls_per_second < 0)
                t->quota = n->quota;
    }
    arena_done(&a);
    return r;
}

static int refuse(struct tenant *t, const char *what, int64_t most, struct err *e)
{
    t->come_back_ms = BOX_RETRY_MS;
    return err_set(e, ERR_BUSY, "quota: tenant %s has used up its %s (%lld); come back when a box has ended", t->name,
                   what, (long long)most);
}

int tenant_take_box(struct tenant *t, const struct tenant_use *box, struct err *e)
{
    const struct tenant_use *most = &t->quota.most;
    const struct {
        const char *name;
        int64_t used, more, most;
    } rows[] = { { "boxes", t->use.boxes, 1, most->boxes },
                 { "memory_bytes", t->use.memory_bytes, box->memory_bytes, most->memory_bytes },
                 { "disk_bytes", t->use.disk_bytes, box->disk_bytes, most->disk_bytes },
                 { "cpu, in thousandths", t->use.cpu_milli, box->cpu_milli, most->cpu_milli } };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].most && rows[i].used + rows[i].more > rows[i].most)
            return refuse(t, rows[i].name, rows[i].most, e);
    tenant_add_box(t, box);
    return 0;
}

void tenant_add_box(struct tenant *t, const struct tenant_use *box)
{
    t->use.boxes++;
    t->use.memory_bytes += box->memory_bytes;
    t->use.disk_bytes += box->disk_bytes;
    t->use.cpu_milli += box->cpu_milli;
}

void tenant_give_box(struct tenant *t, const struct tenant_use *box)
{
    t->use.boxes--;
    t->use.memory_bytes -= box->memory_bytes;
    t->use.disk_bytes -= box->disk_bytes;
    t->use.cpu_milli -= box->cpu_milli;
}

/* A bucket that fills at the rate and holds one second's worth, at least one call. */
int tenant_take_call(struct tenant *t, int64_t now, struct err *e)
{
    double rate = t->quota.calls_per_second, room = rate > 1 ? rate : 1;

    if (rate <= 0)
        return 0;
    t->tokens += t->tokens_us ? (double)(now - t->tokens_us) / 1e6 * rate : room;
    t->tokens = t->tokens > room ? room : t->tokens;
    t->tokens_us = now;
    if (t->tokens >= 1) {
        t->tokens -= 1;
        return 0;
    }
    t->come_back_ms = (int64_t)ceil((1 - t->tokens) / rate * 1000);
    return err_set(e, ERR_BUSY, "quota: tenant %s has used up its calls_per_second (%g); come back in %lld ms", t->name,
                   rate, (long long)t->come_back_ms);
}

int tenant_take_trajectory(struct tenant *t, struct err *e)
{
    if (t->quota.most.trajectories && t->use.trajectories >= t->quota.most.trajectories) {
        t->come_back_ms = 3600000;
        return err_set(e, ERR_BUSY,
                       "quota: tenant %s has used up its trajectories (%lld); come back when one was forgotten",
                       t->name, (long long)t->quota.most.trajectories);
    }
    t->use.trajectories++;
    return 0;
}

void tenant_give_trajectory(struct tenant *t)
{
    if (t->use.trajectories > 0)
        t->use.trajectories--;
}
