/* The box as a whole: what it is, what is installed, what runs, and what it does before it ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

enum { HOOKS_MS = 30000, PACKAGES_MAX = 20000, DISKS = 4 };

struct none_params {
    bool unused;
};
static const struct field none_fields[] = { { 0 } };

struct runtime_row {
    struct str name, version, path;
};
static const struct field runtime_fields[] = {
    FIELD(STR, struct runtime_row, name, "python3, node, git, ..."),
    FIELD(STR, struct runtime_row, version, "as it says"),
    FIELD(STR, struct runtime_row, path, "where it is"),
    { 0 },
};
struct context_result {
    struct str os, os_version, arch, user, home, workspace, timezone;
    bool sudo;
    struct strs ports;
    struct rows runtimes;
};
static const struct field context_fields[] = {
    FIELD(STR, struct context_result, os, "its name"),
    FIELD(STR, struct context_result, os_version, "its version"),
    FIELD(STR, struct context_result, arch, "of the processor"),
    FIELD(STR, struct context_result, user, "who runs the tools"),
    FIELD(STR, struct context_result, home, "that user's directory"),
    FIELD(STR, struct context_result, workspace, "where tools begin"),
    FIELD(STR, struct context_result, timezone, "of the clock"),
    FIELD(BOOL, struct context_result, sudo, "the user may become root"),
    FIELD(STRS, struct context_result, ports, "on which somebody listens", .always = true),
    FIELD(ROWS, struct context_result, runtimes, "programs that agents ask for", .always = true, .rows = runtime_fields,
          .row_size = sizeof(struct runtime_row)),
    { 0 },
};

struct packages_params {
    struct str language;
};
static const struct field packages_fields[] = {
    FIELD(STR, struct packages_params, language, "whose packages", .required = true, .choices = "python|nodejs"),
    { 0 },
};
struct packages_result {
    struct str packages;
    int64_t count;
};
static const struct field packages_result_fields[] = {
    FIELD(JSON, struct packages_result, packages, "list of name and version"),
    FIELD(INT, struct packages_result, count, "how many"),
    { 0 },
};

struct usage_params {
    int64_t top_rows;
};
static const struct field usage_fields[] = {
    FIELD(INT, struct usage_params, top_rows, "processes, by memory", .def = 10, .min = 0, .max = 1000),
    { 0 },
};
struct disk_row {
    struct str path;
    int64_t total_bytes, free_bytes, inode_total, inode_free;
};
static const struct field disk_fields[] = {
    FIELD(STR, struct disk_row, path, "mounted here"),
    FIELD(INT, struct disk_row, total_bytes, "size"),
    FIELD(INT, struct disk_row, free_bytes, "free for the user"),
    FIELD(INT, struct disk_row, inode_total, "files that it can hold"),
    FIELD(INT, struct disk_row, inode_free, "files that it can still hold"),
    { 0 },
};
struct process_row {
    int64_t pid, ppid, uid, rss_bytes, threads, fds, cpu_ticks, start_ticks;
    struct str comm, state;
};
static const struct field process_fields[] = {
    FIELD(INT, struct process_row, pid, "its number"),
    FIELD(INT, struct process_row, ppid, "its parent's"),
    FIELD(INT, struct process_row, uid, "its user's"),
    FIELD(STR, struct process_row, comm, "its name", .always = true),
    FIELD(STR, struct process_row, state, "R, S, D, Z, T"),
    FIELD(INT, struct process_row, rss_bytes, "memory"),
    FIELD(INT, struct process_row, threads, "how many"),
    FIELD(INT, struct process_row, fds, "open descriptors", .def = FIELD_ABSENT),
    FIELD(INT, struct process_row, cpu_ticks, "time of the processor, in 1/100 s"),
    FIELD(INT, struct process_row, start_ticks, "age, in 1/100 s"),
    { 0 },
};
struct usage_result {
    struct rows disks, processes;
    int64_t process_count;
};
static const struct field usage_result_fields[] = {
    FIELD(ROWS, struct usage_result, disks, "what can be written to", .always = true, .rows = disk_fields,
          .row_size = sizeof(struct disk_row)),
    FIELD(ROWS, struct usage_result, processes, "largest first", .always = true, .rows = process_fields,
          .row_size = sizeof(struct process_row)),
    FIELD(INT, struct usage_result, process_count, "all of them"),
    { 0 },
};

struct hook_params {
    struct str name, event, command;
    double timeout;
    int64_t priority;
};
static const struct field hook_fields[] = {
    FIELD(STR, struct hook_params, name, "letters, digits, _ and -", .required = true, .max = 64),
    FIELD(STR, struct hook_params, event, "when", .def_str = "shutdown", .choices = "shutdown"),
    FIELD(STR, struct hook_params, command, "what bash executes", .required = true, .max = 4096),
    FIELD(NUM, struct hook_params, timeout, "seconds", .def_num = 10, .min = 0.1, .max = 30),
    FIELD(INT, struct hook_params, priority, "lower ones first; the same at once", .def = 100, .min = -1e9, .max = 1e9),
    { 0 },
};
struct hook_row {
    struct str name, event, command, source;
    double timeout;
    int64_t priority;
};
static const struct field hook_row_fields[] = {
    FIELD(STR, struct hook_row, name, "its name", .required = true),
    FIELD(STR, struct hook_row, event, "when"),
    FIELD(STR, struct hook_row, command, "what bash executes", .required = true),
    FIELD(NUM, struct hook_row, timeout, "seconds"),
    FIELD(INT, struct hook_row, priority, "lower ones first"),
    FIELD(STR, struct hook_row, source, "api"),
    { 0 },
};
struct name_params {
    struct str name;
};
static const struct field name_fields[] = {
    FIELD(STR, struct name_params, name, "of the hook", .required = true, .max = 64),
    { 0 },
};
struct hooks_result {
    struct rows hooks;
};
static const struct field hooks_fields[] = {
    FIELD(ROWS, struct hooks_result, hooks, "in the order in which they run", .always = true, .rows = hook_row_fields,
          .row_size = sizeof(struct hook_row)),
    { 0 },
};
struct shutdown_result {
    int64_t ran, failed;
};
static const struct field shutdown_fields[] = {
    FIELD(INT, struct shutdown_result, ran, "hooks"),
    FIELD(INT, struct shutdown_result, failed, "of them"),
    { 0 },
};

#ifdef IN_BOX

#include <dirent.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "init/hand.h"
#include "init/hooks.h"
#include "init/init.h"
#include "init/program.h"
#include "init/task.h"

/* --- context --- */

static struct str slurp(struct arena *a, const char *path, size_t max)
{
    char *text = arena_alloc(a, max + 1);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t n = 0;

    for (ssize_t r; fd >= 0 && n < max && (r = read(fd, text + n, max - n)) > 0;)
        n += (size_t)r;
    return (struct str){ text, n };
}

static struct str value_of(struct arena *a, const char *text, const char *key)
{
    const char *at = strstr(text, key);

    if (!at)
        return STR("");
    at += strlen(key);
    at += *at == '"';
    return arena_copy(a, (struct str){ at, strcspn(at, "\"\n") });
}

static void add_ports(struct arena *a, const char *path, bool seen[65536])
{
    const char *text = slurp(a, path, 1 * MiB).p;

    for (const char *line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        unsigned port, state;
        if (sscanf(line + 1, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &port, &state) == 2 && state == 10)
            seen[port & 65535] = true; /* 10: LISTEN */
    }
}

static struct strs ports_of(struct arena *a)
{
    bool *seen = arena_alloc(a, 65536 * sizeof *seen);
    struct str *v = arena_alloc(a, 1024 * sizeof *v);
    size_t n = 0;

    add_ports(a, "/proc/net/tcp", seen);
    add_ports(a, "/proc/net/tcp6", seen);
    for (int i = 0; i < 65536 && n < 1024; i++)
        if (seen[i])
            v[n++] = str_of(arena_printf(a, "%d", i));
    return (struct strs){ v, n };
}

static struct str zone_of(struct hand *h)
{
    char link[256];
    const struct boot *b = &h->init->boot;
    const char *tz = b->timezone[0] ? b->timezone : b->habits.timezone;
    ssize_t n = readlink("/etc/localtime", link, sizeof link - 1);

    if (*tz)
        return str_of(tz);
    if (n > 0) {
        link[n] = 0;
        const char *at = strstr(link, "zoneinfo/");
        if (at)
            return arena_copy(h->arena, str_of(at + 9));
    }
    return STR("UTC");
}

static const char *path_of(struct arena *a, const char *name)
{
    char *dirs = arena_z(a, STR(BOX_PATH)), *save = NULL;

    for (char *dir = strtok_r(dirs, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
        char *path = arena_printf(a, "%s/%s", dir, name);
        if (access(path, X_OK) == 0)
            return path;
    }
    return NULL;
}

static size_t add_runtime(struct hand *h, const char *name, struct runtime_row *row)
{
    const char *path = path_of(h->arena, name);
    const char *const argv[] = { path, "--version", NULL };
    struct program_end end;

    if (!path ||
        program_run(h,
                    &(struct program_opts){ .argv = argv, .cwd = "/", .deadline_ms = h->deadline_ms, .head_max = 256 },
                    &end, NULL) < 0)
        return 0;
    const char *from = end.out.n ? arena_z(h->arena, end.out) : end.err.n ? arena_z(h->arena, end.err) : "";
    from += strcspn(from, "0123456789\n");
    row->name = str_of(name);
    row->path = str_of(path);
    row->version = arena_copy(h->arena, (struct str){ from, strcspn(from, " \n") });
    return 1;
}

static int context_run(struct hand *h, const void *params, void *result, struct err *e)
{
    static const char *const programs[] = { "python3", "node", "git", "gh", "uv", "pip3", "npm" };
    struct context_result *r = result;
    struct arena *a = h->arena;
    const char *release = slurp(a, "/etc/os-release", 8192).p;
    struct utsname u = { 0 };

    (void)params, (void)e;
    (void)uname(&u);
    r->os = value_of(a, release, "\nNAME=");
    if (!r->os.n)
        r->os = value_of(a, release, "NAME=");
    r->os_version = value_of(a, release, "VERSION_ID=");
    r->arch = arena_copy(a, str_of(u.machine));
    r->user = STR("gem");
    r->home = STR(BOX_HOME);
    r->workspace = str_of(init_workspace(h->init));
    r->timezone = zone_of(h);
    r->sudo = h->init->boot.sudo;
    r->ports = ports_of(a);
    struct runtime_row *rows = arena_alloc(a, ARRAY_LEN(programs) * sizeof *rows);
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        n += add_runtime(h, programs[i], &rows[n]);
    r->runtimes = (struct rows){ rows, n };
    return 0;
}

/* --- packages --- */

static const char python_script[] =
    "import json, re, importlib.metadata as m\n"
    "out = {}\n"
    "for d in m.distributions():\n" /* the first of a name is the one that is imported */
    "    name = d.metadata['Name']\n"
    "    if name: out.setdefault(re.sub('[-_.]+', '-', name).lower(), {'name': name, 'version': d.version})\n"
    "print(json.dumps([out[k] for k in sorted(out)]))\n";
static const char node_script[] =
    "const fs=require('fs'),out={};"
    "for(const d of [process.argv[1]+'/node_modules',process.env.HOME+'/node_modules','/usr/local/lib/node_modules','/usr/lib/node_modules','/usr/share/nodejs',"
    "process.env.HOME+'/.local/lib/node_modules'])try{for(let n of fs.readdirSync(d)){"
    "const list=n[0]=='@'?fs.readdirSync(d+'/'+n).map(x=>n+'/'+x):[n];for(const p of list)try{"
    "const "
    "j=JSON.parse(fs.readFileSync(d+'/'+p+'/"
    "package.json'));if(j.name&&!out[j.name])out[j.name]=j.version||''}catch{}}}catch{}"
    "console.log(JSON.stringify(Object.keys(out).sort().map(n=>({name:n,version:String(out[n])}))))";

static int packages_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct packages_params *p = params;
    struct packages_result *r = result;
    bool python = str_is(p->language, "python");
    const char *const argv[] = { python ? "python3" : "node", python ? "-c" : "-e",
                                 python ? python_script : node_script, init_workspace(h->init), NULL };
    struct program_end end;
    struct json *list = NULL;

    r->packages = STR("[]");
    int n = program_run(
        h, &(struct program_opts){ .argv = argv, .cwd = "/", .deadline_ms = h->deadline_ms, .head_max = 4 * MiB }, &end,
        e);
    if (n < 0 && e->code == ERR_NOT_FOUND) /* nothing is installed for what is not there */
        return 0;
    if (n < 0)
        return n;
    if (end.exit_code)
        return err_set(e, ERR_SYSTEM, "%s failed: %.*s", argv[0], (int)(end.err.n < 200 ? end.err.n : 200), end.err.p);
    while (end.out.n && end.out.p[end.out.n - 1] == '\n')
        end.out.n--;
    n = json_parse(h->arena, end.out, &list, e);
    if (n < 0 || list->type != JSON_ARR || list->count > PACKAGES_MAX)
        return err_set(e, ERR_SYSTEM, "%s did not print a list of packages", argv[0]);
    r->packages = end.out;
    r->count = (int64_t)list->count;
    return 0;
}

/* --- usage --- */

static bool read_process(struct arena *a, const char *pid, int64_t now_ticks, struct process_row *row)
{
    struct str stat = slurp(a, arena_printf(a, "/proc/%s/stat", pid), 1024);
    const char *close = stat.n ? memrchr(stat.p, ')', stat.n) : NULL,
               *open = stat.n ? memchr(stat.p, '(', stat.n) : NULL;
    unsigned long long utime, stime, threads, start;
    long long rss;
    int ppid;
    char state;

    if (!close || !open ||
        sscanf(close + 2, "%c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %llu %*d %llu %*u %lld",
               &state, &ppid, &utime, &stime, &threads, &start, &rss) != 7)
        return false;
    *row = (struct process_row){ .pid = atoi(pid),
                                 .ppid = ppid,
                                 .rss_bytes = rss * sysconf(_SC_PAGESIZE),
                                 .threads = (int64_t)threads,
                                 .fds = FIELD_ABSENT,
                                 .cpu_ticks = (int64_t)(utime + stime),
                                 .start_ticks = now_ticks - (int64_t)start,
                                 .comm = arena_copy(a, (struct str){ open + 1, (size_t)(close - open - 1) }),
                                 .state = arena_copy(a, (struct str){ &state, 1 }) };
    const char *status = slurp(a, arena_printf(a, "/proc/%s/status", pid), 2048).p, *uid = strstr(status, "\nUid:");
    row->uid = uid ? atoi(uid + 5) : 0;
    DIR *d = opendir(arena_printf(a, "/proc/%s/fd", pid));
    if (d) {
        row->fds = -2;
        while (readdir(d))
            row->fds++;
        closedir(d);
    }
    return true;
}

static int by_rss(const void *a, const void *b)
{
    int64_t x = ((const struct process_row *)a)->rss_bytes, y = ((const struct process_row *)b)->rss_bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int usage_run(struct hand *h, const void *params, void *result, struct err *e)
{
    static const char *const places[DISKS] = { "/", "/home/gem", "/tmp", "/dev/shm" };
    const struct usage_params *p = params;
    struct usage_result *r = result;
    struct disk_row *disks = arena_alloc(h->arena, DISKS * sizeof *disks);
    size_t size = 64, n = 0;
    struct process_row *rows = arena_alloc(h->arena, size * sizeof *rows);
    int64_t now = (int64_t)(strtod(slurp(h->arena, "/proc/uptime", 64).p, NULL) * 100);
    struct statvfs fs;

    (void)e;
    for (int i = 0; i < DISKS; i++)
        if (statvfs(places[i], &fs) == 0)
            disks[r->disks.n++] = (struct disk_row){ .path = str_of(places[i]),
                                                     .total_bytes = (int64_t)(fs.f_blocks * fs.f_frsize),
                                                     .free_bytes = (int64_t)(fs.f_bavail * fs.f_frsize),
                                                     .inode_total = (int64_t)fs.f_files,
                                                     .inode_free = (int64_t)fs.f_favail };
    r->disks.v = disks;
    DIR *d = opendir("/proc");
    for (struct dirent *ent; d && (ent = readdir(d));) {
        if (ent->d_name[0] < '0' || ent->d_name[0] > '9')
            continue;
        if (n == size) {
            struct process_row *more = arena_alloc(h->arena, 2 * size * sizeof *more);
            memcpy(more, rows, n * sizeof *rows);
            rows = more;
            size *= 2;
        }
        n += read_process(h->arena, ent->d_name, now, &rows[n]);
    }
    if (d)
        closedir(d);
    qsort(rows, n, sizeof *rows, by_rss);
    r->process_count = (int64_t)n;
    r->processes = (struct rows){ rows, n < (size_t)p->top_rows ? n : (size_t)p->top_rows };
    return 0;
}

/* --- hooks --- */

static struct hook_row row_of(const struct hook *h)
{
    return (struct hook_row){ .name = str_of(h->name),
                              .event = STR("shutdown"),
                              .command = str_of(h->command),
                              .source = STR("api"),
                              .timeout = h->timeout,
                              .priority = h->priority };
}

static void hook_begin(struct task *t, const void *params)
{
    const struct hook_params *p = params;
    struct err e = { 0 };

    for (size_t i = 0; i < p->name.n; i++)
        if (!p->name.p[i] || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-", p->name.p[i]))
            err_set(&e, ERR_TYPE, "name: '%.*s' has other characters than letters, digits, _ and -", STR_ARG(p->name));
    if (!p->name.n)
        err_set(&e, ERR_TYPE, "name: it is empty");
    else if (!e.code && (!p->command.n || memchr(p->command.p, 0, p->command.n)))
        err_set(&e, ERR_TYPE, "command: it is empty or contains a NUL byte");
    struct hook *h = e.code ? NULL : hook_add(t->init, p->name, p->command, p->timeout, p->priority, &e);
    if (!h) {
        task_fail(t, outcome_of_err(&e), &e);
        return;
    }
    struct hook_row row = row_of(h);
    task_finish(t, OUTCOME_OK, NULL, &row, 0, NULL);
}

static void hooks_begin(struct task *t, const void *params)
{
    struct hooks_result out = { 0 };
    size_t n = 0;

    (void)params;
    for (struct hook *h = t->init->hooks; h; h = h->next)
        n++;
    struct hook_row *rows = arena_alloc(&t->arena, (n + 1) * sizeof *rows);
    for (struct hook *h = t->init->hooks; h; h = h->next)
        rows[out.hooks.n++] = row_of(h);
    out.hooks.v = rows;
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void unhook_begin(struct task *t, const void *params)
{
    const struct name_params *p = params;
    struct hook *h = hook_find(t->init, p->name);
    struct err e;

    if (!h) {
        err_set(&e, ERR_NOT_FOUND, "Hook not found: %.*s", STR_ARG(p->name));
        task_fail(t, outcome_of_err(&e), &e);
        return;
    }
    struct hook_row row = row_of(h);
    row.name = arena_copy(&t->arena, row.name);
    row.command = arena_copy(&t->arena, row.command);
    hook_remove(t->init, h);
    task_finish(t, OUTCOME_OK, NULL, &row, 0, NULL);
}

static void on_shutdown(void *arg, int64_t ran, int64_t failed)
{
    struct shutdown_result out = { ran, failed };

    task_finish(arg, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void shutdown_begin(struct task *t, const void *params)
{
    (void)params;
    hooks_run(t->init, HOOKS_MS, on_shutdown, t);
}

#endif

enum { BOX = TOOL_NEEDS_BOX | TOOL_PARALLEL, LOOK = BOX | TOOL_READ_ONLY | TOOL_IDEMPOTENT };

#define ROW(params_, params_type, result_, result_type)                                                                \
    .params = params_, .params_size = sizeof(struct params_type), .result = result_,                                   \
    .result_size = sizeof(struct result_type)

static const struct tool system_tools[] = {
    { .name = "system:context",
      .title = "What this computer is",
      .help = "System, user, open ports, and the versions of common programs.",
      .flags = LOOK | TOOL_PROGRAM,
      ROW(none_fields, none_params, context_fields, context_result),
      .run_hand = BOX_CODE(context_run) },
    { .name = "system:packages",
      .title = "Installed packages",
      .help = "Packages of Python or Node.js.",
      .flags = LOOK | TOOL_PROGRAM,
      ROW(packages_fields, packages_params, packages_result_fields, packages_result),
      .run_hand = BOX_CODE(packages_run) },
    { .name = "system:usage",
      .title = "Disks and processes",
      .help = "How full the disks are, and the largest processes.",
      .flags = LOOK,
      ROW(usage_fields, usage_params, usage_result_fields, usage_result),
      .run_hand = BOX_CODE(usage_run) },
    { .name = "system:hook",
      .title = "Run something before the end",
      .help = "Registers a command that runs before the box is destroyed.",
      .flags = BOX | TOOL_IDEMPOTENT,
      ROW(hook_fields, hook_params, hook_row_fields, hook_row),
      .begin = BOX_CODE(hook_begin) },
    { .name = "system:hooks",
      .title = "List hooks",
      .help = "Commands that run before the box is destroyed.",
      .flags = LOOK,
      ROW(none_fields, none_params, hooks_fields, hooks_result),
      .begin = BOX_CODE(hooks_begin) },
    { .name = "system:unhook",
      .title = "Remove a hook",
      .help = "It does not run any more.",
      .flags = BOX,
      ROW(name_fields, name_params, hook_row_fields, hook_row),
      .begin = BOX_CODE(unhook_begin) },
    { .name = "system:shutdown",
      .title = "Run the hooks",
      .help = "What the server does before it destroys the box.",
      .flags = BOX | TOOL_HIDDEN,
      ROW(none_fields, none_params, shutdown_fields, shutdown_result),
      .begin = BOX_CODE(shutdown_begin) },
};

const struct backend backend_system = {
    .name = "system",
    .help = "The box as a whole.",
    .kind = KIND_SESSION,
    .tools = system_tools,
    .tool_count = ARRAY_LEN(system_tools),
};
