/* Cold, pool hit, live session: our operations over HTTP and the baselines take turns in one run, so that whatever else
 * the machine does falls on all of them. */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PER_ROUND = 10, ID_MAX = 64 };

extern char **environ;

static char *const bwrap_argv[] = { "bwrap", "--unshare-all", "--ro-bind", "/",         "/", "--proc",
                                    "/proc", "--dev",         "/dev",      "/bin/true", NULL };
static char *const bash_argv[] = { "bash", "-c", "/bin/true", NULL };

/* --- programs on the host --- */

pid_t spawn_start(char *const argv[], int *ret_status)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    int r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (r != 0)
        die("cannot start %s: %s", argv[0], strerror(r));
    if (waitpid(pid, ret_status, 0) != pid)
        die("waitpid: %s", strerror(errno));
    return pid;
}

int64_t spawn_ns(char *const argv[])
{
    pid_t pid;
    int status;

    int64_t begin = now_ns();
    int r = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (r != 0)
        die("cannot start %s: %s", argv[0], strerror(r));
    if (waitpid(pid, &status, 0) != pid)
        die("waitpid: %s", strerror(errno));
    int64_t took = now_ns() - begin;
    if (status != 0)
        die("%s ended with status 0x%x", argv[0], (unsigned)status);
    return took;
}

static char crun_root[512], crun_bundle[512], crun_id[48];

static int64_t crun_run(void)
{
    static int serial;
    char *argv[] = { "crun",      "--root", crun_root, "--cgroup-manager=cgroupfs", "run", "--bundle",
                     crun_bundle, crun_id,  NULL };

    snprintf(crun_root, sizeof crun_root, "%s/state", opts.bundle);
    snprintf(crun_bundle, sizeof crun_bundle, "%s/true", opts.bundle);
    snprintf(crun_id, sizeof crun_id, "sgbench-%d-%d", (int)getpid(), serial++);
    return spawn_ns(argv);
}

static void crun_live(bool start)
{
    int status;

    snprintf(crun_root, sizeof crun_root, "%s/state", opts.bundle);
    snprintf(crun_bundle, sizeof crun_bundle, "%s/live", opts.bundle);
    snprintf(crun_id, sizeof crun_id, "sgbench-%d-live", (int)getpid());
    char *run[] = { "crun",      "--root", crun_root, "--cgroup-manager=cgroupfs", "run", "--detach", "--bundle",
                    crun_bundle, crun_id,  NULL };
    char *end[] = { "crun", "--root", crun_root, "delete", "--force", crun_id, NULL };
    spawn_start(start ? run : end, &status);
    if (status != 0)
        die("crun %s: status 0x%x", start ? "run --detach" : "delete", (unsigned)status);
}

static int64_t crun_exec(void)
{
    char *argv[] = { "crun", "--root", crun_root, "exec", crun_id, "/bin/true", NULL };
    return spawn_ns(argv);
}

/* --- boxes over HTTP --- */

static void box_create(struct http *h, const char *body, char id[ID_MAX])
{
    http_call(h, "POST", "/sg/v1/boxes", body);
    if (h->status != 201 || !json_text(h->body, "id", id, ID_MAX))
        die("create a box: %d %.400s", h->status, h->body);
}

static void box_call(struct http *h, const char *id, const char *body)
{
    char path[128], outcome[32];

    snprintf(path, sizeof path, "/sg/v1/boxes/%s/execute", id);
    http_call(h, "POST", path, body);
    if (h->status != 200 || !json_text(h->body, "outcome", outcome, sizeof outcome) || strcmp(outcome, "ok") != 0)
        die("%s in %s: %d %.400s", body, id, h->status, h->body);
}

static void box_run(struct http *h, const char *id, const char *command)
{
    char body[256];

    snprintf(body, sizeof body, "{\"tool\":\"bash:run\",\"params\":{\"command\":\"%s\"}}", command);
    box_call(h, id, body);
}

static void box_delete(struct http *h, const char *id)
{
    char path[128];

    snprintf(path, sizeof path, "/sg/v1/boxes/%s", id);
    http_call(h, "DELETE", path, NULL);
    http_expect(h, 200, "delete a box");
}

void destroy_all(void)
{
    struct http h;
    char id[ID_MAX];

    http_open(&h, opts.port);
    for (int i = 0; i < 100000; i++) {
        http_call(&h, "GET", "/sg/v1/boxes", NULL);
        if (h.status != 200 || !json_text(h.body, "id", id, sizeof id))
            break;
        box_delete(&h, id);
    }
    http_close(&h);
}

/* --- what exists already --- */

/* The server's control group in any hierarchy: each box, also one that waits to be given out, has a directory there. */
static int group_dir(const char *file)
{
    static const char *const trees[] = { "/memory", "/pids", "/cpu", "", "/unified" };
    char path[512];

    for (size_t i = 0; opts.group && i < sizeof trees / sizeof *trees; i++) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s%s%s", trees[i], opts.group, *file ? "/" : "", file);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            return fd;
    }
    return -1;
}

struct names {
    char (*v)[ID_MAX];
    size_t n;
};

/* Asked before each creation: a box that was there before it was asked for is not a cold one, whatever its answer says.
 */
static void names_read(struct names *s)
{
    int fd = group_dir("");
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    s->n = 0;
    for (struct dirent *x; d && (x = readdir(d));)
        if (x->d_type == DT_DIR && x->d_name[0] != '.' && strlen(x->d_name) < ID_MAX) {
            s->v = realloc(s->v, (s->n + 1) * sizeof *s->v);
            if (!s->v)
                die("out of memory");
            strcpy(s->v[s->n++], x->d_name);
        }
    if (d)
        closedir(d);
}

static bool names_has(const struct names *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->v[i], name) == 0)
            return true;
    return false;
}

/* Bytes that the kernel has charged to all boxes together; -1: not known. */
static int64_t group_bytes(void)
{
    char text[32] = "";
    int fd = group_dir("memory.usage_in_bytes");

    if (fd < 0)
        fd = group_dir("memory.current");
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    return n > 0 ? strtoll(text, NULL, 10) : -1;
}

struct cold {
    struct samples total, create, run, destroy, setup, inside;
    size_t ahead; /* boxes that existed, at least in part, before they were asked for */
};

static void cold_once(struct http *h, struct cold *c, const char *ask)
{
    static struct names before;
    char id[ID_MAX];

    names_read(&before);
    int64_t t0 = now_ns();
    box_create(h, ask, id);
    int64_t t1 = now_ns();
    c->ahead += names_has(&before, id);
    int64_t setup = json_number(h->body, "setup_us", 0);
    if (json_true(h->body, "warm"))
        die("a cold box came from the pool");
    int64_t t2 = now_ns(); /* the two lines above are the client's, not the server's */
    /* without a shell, as bwrap and crun run it */
    box_call(h, id, "{\"tool\":\"code:program\",\"params\":{\"argv\":[\"/bin/true\"]}}");
    int64_t t3 = now_ns();
    int64_t inside = json_number(h->body, "run_us", 0);
    int64_t t4 = now_ns();
    box_delete(h, id);
    int64_t t5 = now_ns();
    samples_add(&c->create, t1 - t0);
    samples_add(&c->run, t3 - t2);
    samples_add(&c->destroy, t5 - t4);
    samples_add(&c->total, t1 - t0 + t3 - t2 + t5 - t4);
    samples_add(&c->setup, setup * 1000);
    samples_add(&c->inside, inside * 1000);
}

static void wait_for_pool(struct http *h)
{
    for (int i = 0; i < 5000; i++) {
        http_call(h, "GET", "/sg/v1/status", NULL);
        http_expect(h, 200, "status");
        int64_t ready = json_number(h->body, "ready", -1), wanted = json_number(h->body, "wanted", 0);
        if (ready >= wanted)
            return;
        nap_ms(2);
    }
    die("the pool does not fill: %.300s", h->body);
}

/* The target speaks of a box of which nothing existed before the request. If parts were made ahead the ratios are
 * shown, and said to be something else. */
static void cold_rows(const struct cold *c, const struct samples *bwrap, const struct samples *crun)
{
    char ours[96];

    if (c->ahead == 0 && opts.group) {
        row_times("cold: create + /bin/true + destroy", &c->total, .5, bwrap, .5, .8);
        row_times("cold: create + /bin/true + destroy", &c->total, .5, crun, .5, .5);
        return;
    }
    snprintf(ours, sizeof ours, "%zu of %zu boxes existed in part before", c->ahead, c->total.n);
    row("cold: nothing exists before the request", ours, "", 0, NOT_MEASURED, 0);
    row_times("made ahead: create + true + destroy", &c->total, .5, bwrap, .5, 0);
    row_times("made ahead: create + true + destroy", &c->total, .5, crun, .5, 0);
}

void measure_cold(void)
{
    struct cold c = { { .name = "cold_total" },   { .name = "cold_create" },       { .name = "cold_run_true" },
                      { .name = "cold_destroy" }, { .name = "cold_server_setup" }, { .name = "cold_server_run" } };
    struct samples bwrap = { .name = "bwrap" }, crun = { .name = "crun-run" };
    struct http h;

    http_open(&h, opts.port);
    wait_for_pool(&h);
    cold_once(&h, &(struct cold){ 0 }, "{\"cold\":true}"); /* the first of each is not counted */
    spawn_ns(bwrap_argv);
    crun_run();
    while (c.total.n < opts.n) {
        for (int i = 0; i < PER_ROUND; i++)
            cold_once(&h, &c, "{\"cold\":true}");
        for (int i = 0; i < PER_ROUND; i++)
            samples_add(&bwrap, spawn_ns(bwrap_argv));
        for (int i = 0; i < PER_ROUND; i++)
            samples_add(&crun, crun_run());
    }
    cold_rows(&c, &bwrap, &crun);
    row_shown(&c.total);
    row_shown(&c.create);
    row_shown(&c.setup);
    row_shown(&c.run);
    row_shown(&c.inside);
    row_shown(&c.destroy);
    row_shown(&bwrap);
    row_shown(&crun);
    http_close(&h);
}

void measure_pool(void)
{
    struct samples hit = { .name = "pool_hit" }, create = { .name = "pool_create" },
                   run = { .name = "pool_first_echo" };
    struct samples setup = { .name = "pool_server_setup" }, inside = { .name = "pool_server_run" };
    struct samples bwrap = { .name = "bwrap" };
    struct http h;
    char id[ID_MAX];
    size_t missed = 0;

    http_open(&h, opts.port);
    spawn_ns(bwrap_argv);
    while (hit.n < opts.n) {
        for (int i = 0; i < PER_ROUND; i++) {
            wait_for_pool(&h);
            int64_t t0 = now_ns();
            box_create(&h, "{}", id);
            int64_t t1 = now_ns();
            bool warm = json_true(h.body, "warm");
            int64_t setup_us = json_number(h.body, "setup_us", 0);
            int64_t t2 = now_ns();
            box_run(&h, id, "echo hi");
            int64_t t3 = now_ns();
            if (!strstr(h.body, "hi\\n"))
                die("echo hi answered %.300s", h.body);
            if (warm) {
                samples_add(&create, t1 - t0);
                samples_add(&run, t3 - t2);
                samples_add(&hit, t1 - t0 + t3 - t2);
                samples_add(&setup, setup_us * 1000);
                samples_add(&inside, json_number(h.body, "run_us", 0) * 1000);
            } else if (++missed > opts.n) {
                die("%zu of %zu creations did not come from the pool", missed, missed + hit.n);
            }
            box_delete(&h, id);
        }
        wait_for_pool(&h); /* its filling must not slow the baseline down */
        for (int i = 0; i < PER_ROUND; i++)
            samples_add(&bwrap, spawn_ns(bwrap_argv));
    }
    row_times("pool hit: create + first echo", &hit, .5, &bwrap, .5, .2);
    row_times("pool hit: p99", &hit, .99, &bwrap, .5, 1);
    row_shown(&hit);
    row_shown(&create);
    row_shown(&setup);
    row_shown(&run);
    row_shown(&inside);
    row_shown(&bwrap);
    http_close(&h);
}

static int64_t timed_run(struct http *h, const char *id, const char *command, struct samples *inside)
{
    int64_t begin = now_ns();
    box_run(h, id, command);
    int64_t took = now_ns() - begin;
    samples_add(inside, json_number(h->body, "run_us", 0) * 1000);
    return took;
}

void measure_live(void)
{
    struct samples ours = { .name = "live_true" }, builtin = { .name = "live_builtin" };
    struct samples ours_inside = { .name = "live_true_server_run" }, inside = { .name = "live_builtin_server_run" };
    struct samples host = { .name = "host-bash" }, crun = { .name = "crun-exec" }, ignored = { 0 };
    struct http h;
    char id[ID_MAX];

    http_open(&h, opts.port);
    wait_for_pool(&h);
    crun_live(true);
    box_create(&h, "{}", id);
    for (int i = 0; i < PER_ROUND; i++) {
        timed_run(&h, id, "/bin/true", &ignored);
        timed_run(&h, id, ":", &ignored);
        spawn_ns(bash_argv);
        crun_exec();
    }
    wait_for_pool(&h);
    while (ours.n < opts.n) {
        for (int i = 0; i < PER_ROUND; i++)
            samples_add(&ours, timed_run(&h, id, "/bin/true", &ours_inside));
        for (int i = 0; i < PER_ROUND; i++)
            samples_add(&host, spawn_ns(bash_argv));
        for (int i = 0; i < PER_ROUND; i++)
            samples_add(&builtin, timed_run(&h, id, ":", &inside));
        for (int i = 0; i < PER_ROUND; i++)
            samples_add(&crun, crun_exec());
    }
    box_delete(&h, id);
    crun_live(false);
    row_times("live: /bin/true over HTTP", &ours, .5, &host, .5, 1.5);
    row_times("live: /bin/true over HTTP", &ours, .5, &crun, .5, .25);
    row_times("live: builtin over HTTP", &builtin, .5, &crun, .5, .05);
    row_shown(&ours);
    row_shown(&ours_inside);
    row_shown(&builtin);
    row_shown(&inside);
    row_shown(&host);
    row_shown(&crun);
    http_close(&h);
}

/* --- density --- */

static int64_t mem_available_kib(void)
{
    char line[128];
    long long kib = -1;
    FILE *f = fopen("/proc/meminfo", "r");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    if (kib < 0)
        die("no MemAvailable");
    return kib;
}

/* What it costs to make one more box, and to use one of those that live: `count` of them, picked evenly. */
static void sample_busy(struct http *h, char (*ids)[ID_MAX], size_t count, struct cold *c, struct samples *run)
{
    char own[ID_MAX] = "";
    struct samples ignored = { 0 };

    if (!count) {
        box_create(h, "{}", own);
        box_run(h, own, ":");
        wait_for_pool(h);
    }
    for (size_t i = 0; i < opts.n / 2; i++)
        cold_once(h, c, "{\"cold\":true}");
    for (size_t i = 0; i < opts.n / 2; i++)
        samples_add(run, timed_run(h, count ? ids[i * 7919 % count] : own, "/bin/true", &ignored));
    if (!count)
        box_delete(h, own);
}

void measure_density(void)
{
    struct cold empty = { { .name = "density_empty_total" },     { .name = "density_empty_create" },
                          { .name = "density_empty_first_run" }, { .name = "density_empty_destroy" },
                          { .name = "density_empty_setup" },     { .name = "" } };
    struct cold full = { { .name = "density_full_total" },     { .name = "density_full_create" },
                         { .name = "density_full_first_run" }, { .name = "density_full_destroy" },
                         { .name = "density_full_setup" },     { .name = "" } };
    struct samples empty_run = { .name = "density_empty_run" }, full_run = { .name = "density_full_run" };
    struct samples make = { .name = "density_make_one" };
    char(*ids)[ID_MAX] = calloc(opts.boxes, sizeof *ids);
    char ours[96], theirs[96];
    struct http h;

    if (!ids)
        die("out of memory");
    http_open(&h, opts.port);
    wait_for_pool(&h);
    sample_busy(&h, ids, 0, &empty, &empty_run);
    wait_for_pool(&h);
    nap_ms(1000);
    int64_t before = mem_available_kib(), begin = now_ns();
    for (size_t i = 0; i < opts.boxes; i++) {
        int64_t t0 = now_ns();
        box_create(&h, "{\"cold\":true}", ids[i]);
        box_run(&h, ids[i], "/bin/true"); /* also so that a later one finds it looked up, as when empty */
        samples_add(&make, now_ns() - t0);
    }
    int64_t made = now_ns() - begin;
    wait_for_pool(&h);
    nap_ms(2000);
    int64_t used = before - mem_available_kib(), charged = group_bytes();
    sample_busy(&h, ids, opts.boxes, &full, &full_run);
    begin = now_ns();
    for (size_t i = 0; i < opts.boxes; i++)
        box_delete(&h, ids[i]);
    int64_t gone = now_ns() - begin;
    nap_ms(1000);
    int64_t left = before - mem_available_kib();
    sample_busy(&h, ids, 0, &empty, &empty_run); /* before and after: the machine drifts */

    snprintf(ours, sizeof ours, "%.0f MiB (%.0f KiB each)", (double)used / 1024, (double)used / (double)opts.boxes);
    snprintf(theirs, sizeof theirs, "%.0f MiB", 1536.0 * (double)opts.boxes / 1000);
    char what[64];
    snprintf(what, sizeof what, "density: memory of %zu boxes", opts.boxes);
    row(what, ours, theirs, (double)used / 1024 / (1536.0 * (double)opts.boxes / 1000), AT_MOST, 1);
    row_times("density: cold create, full : empty", &full.create, .5, &empty.create, .5, 2);
    row_times("density: create+first run, full : empty", &full.total, .5, &empty.total, .5, 2);
    row_times("density: /bin/true, full : empty", &full_run, .5, &empty_run, .5, 2);
    snprintf(ours, sizeof ours, "%.1f s to make, %.1f s to destroy", (double)made / 1e9, (double)gone / 1e9);
    snprintf(theirs, sizeof theirs, "%.0f MiB not given back after 1 s", (double)left / 1024);
    row("  density", ours, theirs, 0, ONLY_SHOWN, 0);
    snprintf(ours, sizeof ours, "%.0f KiB for each box", (double)charged / 1024 / (double)opts.boxes);
    if (charged > 0) /* MemAvailable also moves with whatever else runs here */
        row("  charged to the boxes' control group", ours, "", 0, ONLY_SHOWN, 0);
    row_shown(&make);
    row_shown(&empty.create);
    row_shown(&full.create);
    row_shown(&empty.run);
    row_shown(&full.run);
    row_shown(&empty.destroy);
    row_shown(&full.destroy);
    row_shown(&empty_run);
    row_shown(&full_run);
    free(ids);
    http_close(&h);
}
