/* The table of settings, and how a value gets from a file, a variable or a flag into struct config.
 * What prints the table is in config_print.c. */
#include "daemon/config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "daemon/config_key.h"
#include "daemon/units.h"
#include "isolate/mountfd.h"
#include "wire/boot.h"

#define ENV_PREFIX   "SANDGLASS_"
#define DEFAULT_FILE "/etc/sandglass.conf"
#define DAYS_MS      (24 * 3600 * 1000L)
#define GiB          (1024 * MiB)

#define KEY(name_, kind, member, help_, ...)                                                                           \
    {                                                                                                                  \
        .name = (name_), .type = KEY_##kind, .offset = offsetof(struct config, member), .help = (help_), ##__VA_ARGS__ \
    }

const struct config_key config_keys[] = {
    KEY("listen", STR, listen,
        "where the HTTP server listens: HOST:PORT, [IPV6]:PORT, or unix:/PATH for this user alone",
        .def = "127.0.0.1:8080", .form = FORM_LISTEN),
    KEY("home", STR, home, "directory of the log, the index, blobs and sockets; of one server at a time",
        .def = "/var/lib/sandglass", .def_fn = config_default_home,
        .def_text = "/var/lib/sandglass as root, else ~/.local/share/sandglass", .form = FORM_DIR),
    KEY("log_level", ENUM, log_level, "how much is written to stderr", .def = "info",
        .choices = "error|warn|info|debug"),
    KEY("durability", ENUM, durability,
        "when a step is on stable storage: never forced (none), within sync_interval (batch), before its answer (step)",
        .def = "batch", .choices = "none|batch|step"),
    KEY("sync_interval", DURATION, sync_interval_ms, "durability batch: how long a step may wait for stable storage",
        .def = "50ms", .min = 1, .max = 60000),
    KEY("pool.size", INT, pool_size, "parked seats that wait for a box; 0 makes every box cold", .def = "4",
        .max = 1000),
    KEY("python.preload", STR, python_preload,
        "modules that new Python contexts and kernels have imported already, separated by commas: numpy,pandas",
        .def = ""),
    KEY("python.fork", BOOL, python_fork,
        "contexts with preloaded modules, and kernels, are forks of one interpreter: they share its memory, and its seed "
        "of string hashes; else each is an interpreter of its own, which waited or is started",
        .def = "false"),
    KEY("python.warm", ENUM, python_warm,
        "have every parked seat wait with a Python context (context), a Jupyter kernel (kernel), both; with python.fork, "
        "with what they are forked from",
        .def = "none", .choices = "none|context|kernel|both"),
    KEY("cgroup.name", STR, cgroup_name,
        "name of the control group below which all boxes are; servers with different homes need different ones",
        .def = "", .def_text = "sandglass; if home is not the usual one, sandglass- and a hash of its path",
        .form = FORM_NAME),
    KEY("serve.user", STR, serve_user, "unprivileged user as which the network-facing roles run, if started as root",
        .def = "nobody", .def_fn = config_default_user, .def_text = "nobody as root, else empty"),

    KEY("box.image", STR, box_image, "lowest layer of a box: host, or a directory below image.roots", .def = "host",
        .form = FORM_IMAGE),
    KEY("box.memory", SIZE, box_memory_bytes, "memory of a box", .def = "1g", .min = FLOOR_BOX_MEMORY,
        .max = LIMIT_BOX_MEMORY),
    KEY("box.disk", SIZE, box_disk_bytes,
        "size of what a box may write; it lies in memory, beside box.memory: the kernel's limit is the sum of both, so that "
        "programs may take what files leave",
        .def = "1g", .min = FLOOR_BOX_DISK, .max = LIMIT_BOX_DISK),
    KEY("box.shm", SIZE, box_shm_bytes, "size of /dev/shm", .def = "64m", .min = FLOOR_BOX_SHM, .max = LIMIT_BOX_SHM),
    KEY("box.cpu", MILLI, box_cpu_milli, "cores of a box, as a decimal", .def = "2.0", .min = FLOOR_BOX_CPU_MILLI,
        .max = LIMIT_BOX_CPU_MILLI),
    KEY("box.pids", INT, box_pids, "processes and threads in a box, init's and its shells' among them", .def = "512",
        .min = FLOOR_BOX_PIDS, .max = LIMIT_BOX_PIDS),
    KEY("box.open_files", INT, box_open_files,
        "open files of each process; how many it had is not told: docs/operations.md", .def = "4096",
        .min = FLOOR_BOX_OPEN_FILES, .max = LIMIT_BOX_OPEN_FILES),
    KEY("box.network", ENUM, box_network,
        "loopback only (none), or outbound IP and DNS with the host, other boxes and private ranges closed (full)",
        .def = "none", .choices = "none|full"),
    KEY("box.sudo", BOOL, box_sudo, "the box has sudo: root of its own user namespace", .def = "true"),
    KEY("box.user_namespaces", ENUM, box_user_namespaces,
        "programs of a box may make user, pid and network namespaces, which Chromium's own sandbox needs: no box, those that "
        "ask, or all that do not ask for the contrary; docs/browser.md says what it opens",
        .def = "no", .choices = "no|ask|yes"),
    KEY("box.ttl", DURATION, box_ttl_ms, "a box ends after so long; 0: when it is destroyed", .def = "0",
        .max = LIMIT_TTL_MS),
    KEY("box.allow_unenforced", BOOL, box_allow_unenforced,
        "make a box although this machine cannot enforce one of its limits, and say which; otherwise refuse it",
        .def = "false"),
    KEY("box.timezone", STR, box_timezone, "TZ of the programs in a box without a profile; empty: not set", .def = "",
        .max = sizeof((struct boot_habits *)0)->timezone - 1, .form = FORM_ZONE, .aio = "TZ"),
    KEY("box.workspace", STR, box_workspace,
        "directory in which tools of a box begin, and to which relative paths are relative; made if it is missing; "
        "empty: /home/gem",
        .def = "", .max = sizeof((struct boot_habits *)0)->workspace - 1, .form = FORM_WORKSPACE, .aio = "WORKSPACE"),
    KEY("box.proxy", STR, box_proxy,
        "upstream of the proxy in the default box: host:port or user:pass@host:port; empty: none", .def = "",
        .max = 1024, .form = FORM_PROXY, .aio = "PROXY_SERVER"),
    KEY("box.mounts", STR, box_mounts,
        "directories of the host that the default box has under the same names, writable; each below one of mount.roots",
        .def = "", .max = LIMIT_MOUNTS * 255, .form = FORM_DIRS),
    KEY("browser.args", STR, browser_args, "more flags of the browser in a box, separated by blanks", .def = "",
        .max = sizeof((struct boot_habits *)0)->browser_args - 1, .form = FORM_FLAGS, .aio = "BROWSER_EXTRA_ARGS"),
    KEY("browser.homepage", STR, browser_homepage, "URL that the browser in a box begins with; empty: about:blank",
        .def = "", .max = sizeof((struct boot_habits *)0)->homepage - 1, .form = FORM_WORD, .aio = "HOMEPAGE"),
    KEY("browser.dns_over_https", STR, browser_dns_over_https,
        "URL template of the DNS server that the browser in a box asks over HTTPS; empty: as the box", .def = "",
        .max = sizeof((struct boot_habits *)0)->dns_over_https - 1, .form = FORM_TEMPLATES,
        .aio = "DNS_OVER_HTTPS_TEMPLATES"),
    KEY("browser.warm", BOOL, browser_warm,
        "start the browser in every parked seat: a box from the pool has one at once", .def = "false"),
    KEY("browser.record", ENUM, browser_record,
        "pictures of the page that the log keeps of each step that acts on it: none (off), as it was afterwards (after), "
        "and before it too (both)",
        .def = "after", .choices = "off|after|both"),
    KEY("browser.headed", BOOL, browser_headed,
        "the browser in a box has a window on the box's desktop, and AIO's screen operations act on that",
        .def = "false"),
    KEY("desktop.width", INT, desktop_width, "pixels of a box's screen", .def = "1280", .min = 64, .max = 4096),
    KEY("desktop.height", INT, desktop_height, "pixels of a box's screen", .def = "800", .min = 64, .max = 3840),
    KEY("vm.engine", ENUM, vm_engine, "what serves the tools vm:*: a desktop in a box, or nothing", .def = "desktop",
        .choices = "none|desktop"),
    KEY("ready.ports", STR, ready_ports,
        "/ready is 200 only when these ports of the default box answer, separated by commas; empty: at once", .def = "",
        .max = 200, .form = FORM_PORTS, .aio = "WAIT_PORTS"),
    KEY("box.max", INT, box_max, "boxes at once; more are refused with 429", .def = "1000", .min = 1, .max = 100000),
    KEY("mount.roots", STR, mount_roots, "host directories below which a box may ask for mounts, separated by colons",
        .def = "", .form = FORM_DIRS),
    KEY("image.roots", STR, image_roots,
        "host directories below which a directory may be an image, separated by colons", .def = "", .form = FORM_DIRS),

    KEY("session.ttl", DURATION, session_ttl_ms, "a session ends if it was not used for so long", .def = "300s",
        .min = 1000, .max = LIMIT_TTL_MS),
    KEY("call.timeout", DURATION, call_timeout_ms, "wall time of a call that does not say its own", .def = "300s",
        .min = 1, .max = LIMIT_TIMEOUT_MS),
    KEY("call.timeout_max", DURATION, call_timeout_max_ms, "the most wall time that a call may ask for", .def = "24h",
        .min = 1, .max = LIMIT_TIMEOUT_MS),
    KEY("repo.timeout", DURATION, repo_timeout_ms,
        "how long the clone of a repository, and each command that sets a box up, may take", .def = "10m", .min = 1000,
        .max = LIMIT_TIMEOUT_MS),
    KEY("output.head", SIZE, output_head_bytes, "of each output stream, how much of its beginning is in the answer",
        .def = "64k", .max = 16 * MiB),
    KEY("output.tail", SIZE, output_tail_bytes, "of each output stream, how much of its end is in the answer",
        .def = "64k", .max = 16 * MiB),
    KEY("output.kept", SIZE, output_kept_bytes, "of each output stream, how much is kept as a blob", .def = "16m",
        .max = 1 * GiB),
    KEY("agentflow.config_dir", STR, agentflow_config_dir,
        "the only directory whose JSON files AgentFlow's init/from-config may read; empty: none", .def = "",
        .form = FORM_DIRS),
    KEY("extensions", STR, extensions, "a JSON file that names the extensions to start (docs/extend.md); empty: none",
        .def = "", .form = FORM_DIRS),
    KEY("plugins", STR, plugins, "shared objects with backends of their own, separated by colons", .def = "",
        .form = FORM_DIRS),
    KEY("mcp.profile", ENUM, mcp_profile, "which tools a client of MCP is shown if it does not ask for a profile",
        .def = "all", .choices = "all|code|browser|desktop|aio|knowlyr"),
    KEY("mcp.servers", STR, mcp_servers,
        "a JSON file with mcpServers whose tools are offered beside ours (docs/mcp.md); empty: none", .def = "",
        .form = FORM_DIRS),
    KEY("mcp.bare", BOOL, mcp_bare,
        "POST /mcp with a method but without jsonrpc and id is a call that is answered with plain JSON", .def = "true"),
    KEY("state.budget", SIZE, state_budget_bytes,
        "disk that states may take: above it, states without a name go whose box has ended, those of the box that ended "
        "first before others, its latest before its earlier ones; 0: no limit",
        .def = "0", .max = 1e15),
    KEY("gc.interval", DURATION, gc_interval_ms,
        "how often layers that no state and no box needs are removed; 0: only by sandglass gc", .def = "10m",
        .max = 366 * DAYS_MS),
    KEY("gc.grace", DURATION, gc_grace_ms, "layers that are younger are never removed", .def = "10m",
        .max = 366 * DAYS_MS),
    KEY("retention.age", DURATION, retention_age_ms,
        "trajectories whose last step is older are forgotten, once an hour, unless they are pinned or being written; 0: "
        "never",
        .def = "0", .max = 36600 * DAYS_MS),
    KEY("retention.count", INT, retention_count, "only so many of a tenant's trajectories are kept, the newest; 0: all",
        .def = "0", .max = 1e12),
    KEY("retention.keep_tags", STR, retention_keep_tags,
        "tags, with commas between: trajectories with one of them stay", .def = ""),
    KEY("orphan.timeout", DURATION, orphan_timeout_ms, "a box ends itself if no server was connected for so long",
        .def = "60s", .min = 1000, .max = 366 * DAYS_MS),
    KEY("shutdown.grace", DURATION, shutdown_grace_ms, "at the end, how long running calls may take to finish",
        .def = "10s", .max = 3600000),
    KEY("shutdown.kill", BOOL, shutdown_kill,
        "at the end, destroy all boxes; else they wait for the next server until orphan.timeout", .def = "false"),
    KEY("auth", ENUM, auth,
        "who must prove who he is: everyone (required); nobody, on whatever address (open-to-everyone); everyone unless "
        "the address is loopback and no token is configured (auto)",
        .def = "auto", .choices = "auto|required|open-to-everyone"),
    KEY("auth.jwt_key_file", STR, auth_jwt_key_file,
        "file with the public keys of whoever issues tokens, PEM or JWKS, read again when it changes; instead of it, "
        "JWT_PUBLIC_KEY in the environment",
        .def = "", .form = FORM_FILE),
    KEY("auth.jwt_audience", STR, auth_jwt_audience, "tokens must be for this audience; empty: not asked", .def = ""),
    KEY("auth.jwt_issuer", STR, auth_jwt_issuer, "tokens must be from this issuer; empty: not asked", .def = ""),
    KEY("auth.jwt_role", ENUM, auth_jwt_role, "role of a token that names none", .def = "operator",
        .choices = "viewer|operator|admin"),
    KEY("auth.jwt_skew", DURATION, auth_jwt_skew_ms, "by how much clocks may differ", .def = "30s", .max = 3600000),
    KEY("auth.token_file", STR, auth_token_file,
        "file whose first line is a bearer token that may do everything; BEARER_TOKEN and SANDBOX_API_KEY in the "
        "environment are such tokens, too",
        .def = "", .form = FORM_FILE),
    KEY("auth.ticket_ttl", DURATION, auth_ticket_ttl_ms, "how long a ticket is good for", .def = "30s",
        .def_fn = config_default_ticket_ttl, .def_text = "TICKET_TTL_SECONDS in the environment, else 30s", .min = 1000,
        .max = LIMIT_TICKET_MS),
    KEY("cors.origins", STR, cors_origins,
        "other sites whose pages may use the API: origins such as https://app.example.org, separated by spaces; * for "
        "all needs auth = required",
        .def = ""),
    KEY("host.names", STR, host_names,
        "names under which the server may be called, separated by spaces; empty: loopback's and addresses, or any where "
        "everyone must prove who he is. {port}-NAME is that port of the default box: such names must be yours, too",
        .def = ""),
    KEY("host.boxes", STR, host_boxes,
        "domain whose names {port}-{box}.DOMAIN, jupyter-{box}.DOMAIN, code-server-{box}.DOMAIN lead to servers in boxes, as "
        "those below localhost do; DNS must lead them all here. Nothing else may have a name in it",
        .def = ""),
    KEY("listen.socket", BOOL, listen_socket,
        "also listen on the unix socket HOME/run/api.sock, where root and serve.user need no credentials",
        .def = "true"),
    KEY("tls.cert", STR, tls_cert,
        "PEM file of the certificate and its chain: the port speaks HTTPS; read again when it changes, and on SIGHUP",
        .def = "", .form = FORM_FILE),
    KEY("tls.key", STR, tls_key, "PEM file of its private key, readable for serve.user", .def = "", .form = FORM_FILE),
    KEY("secret.key_file", STR, secret_key_file,
        "file with the 32 bytes that named secrets are encrypted with; empty: HOME/secret.key, made at first use",
        .def = "", .form = FORM_FILE),
    KEY("quota.file", STR, quota_file,
        "JSON file of what tenants may have at once, read again when it changes: an object with a member for each tenant, "
        "* for all others, of boxes, memory_bytes, disk_bytes, cpu, calls_per_second, trajectories",
        .def = "", .form = FORM_FILE),
    KEY("audit", BOOL, audit, "keep HOME/audit.log: who did what, when, and whether it was allowed", .def = "true"),
    KEY("log.requests", BOOL, log_requests, "write a line of JSON for each request to stderr", .def = "false"),
    KEY("trace.otlp_url", STR, trace_otlp_url,
        "where to send OpenTelemetry traces (OTLP over HTTP, JSON), such as http://127.0.0.1:4318/v1/traces; empty: nowhere",
        .def = ""),
    KEY("test.backends", BOOL, test_backends, "list the backends that only tests use", .def = "false"),
    { 0 },
};

/* Variables that begin like ours but are no settings of the server. */
static const char *const other_variables[] = { "CONFIG", "URL", "API_KEY", "FAULTS", "FAIL_STEP", NULL };

struct place { /* where a value stands, for messages */
    char text[120];
};

void config_done(struct config *c)
{
    for (const struct config_key *k = config_keys; k->name; k++)
        if (k->type == KEY_STR)
            free(*(char **)config_field(c, k));
    free(c->file);
    *c = (struct config){ 0 };
}

/* ---- one value ---- */

static int refuse(const struct config_key *k, const char *value, const struct place *where, struct err *e)
{
    char allowed[112];
    bool secret = k->form == FORM_PROXY && strpbrk(value, ":@"); /* there may be a password in it */

    config_key_allowed(k, allowed, sizeof allowed);
    return err_set(e, ERR_INVALID, "%s: %s = '%.40s': must be %s", where->text, k->name, secret ? "..." : value,
                   allowed);
}

static int parse_bool(const char *value, bool *ret)
{
    static const char *const yes[] = { "true", "yes", "on", "1" }, *const no[] = { "false", "no", "off", "0" };

    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (strcasecmp(value, yes[i]) != 0 && strcasecmp(value, no[i]) != 0)
            continue;
        *ret = strcasecmp(value, yes[i]) == 0;
        return 0;
    }
    return -EINVAL;
}

static int parse_choice(const char *choices, const char *value, int *ret)
{
    size_t n = strlen(value);
    int index = 0;

    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL, index++) {
        if (n && strncmp(p, value, n) == 0 && (p[n] == '|' || p[n] == '\0')) {
            *ret = index;
            return 0;
        }
    }
    return -EINVAL;
}

static int parse_number(const struct config_key *k, const char *value, int64_t *ret)
{
    switch (k->type) {
    case KEY_INT: return units_integer(value, ret);
    case KEY_SIZE: return units_size(value, ret);
    case KEY_DURATION: return units_duration(value, ret);
    case KEY_MILLI: return units_milli(value, ret);
    case KEY_STR:
    case KEY_BOOL:
    case KEY_ENUM: break;
    }
    return -EINVAL;
}

static int set_number(struct config *c, const struct config_key *k, const char *value)
{
    int64_t number;

    if (parse_number(k, value, &number) < 0 || number < k->min || number > k->max)
        return -EINVAL;
    *(int64_t *)config_field(c, k) = number;
    return 0;
}

static int set_string(struct config *c, const struct config_key *k, const char *value)
{
    char **field = config_field(c, k);
    char *text = k->max && strlen(value) > (size_t)k->max ? NULL : config_form(k->form, value);

    if (!text)
        return -EINVAL;
    free(*field);
    *field = text;
    return 0;
}

static int set_value(struct config *c, const struct config_key *k, const char *value, const struct place *where,
                     struct err *e)
{
    int choice, r = -EINVAL;

    switch (k->type) {
    case KEY_STR: r = set_string(c, k, value); break;
    case KEY_BOOL: r = parse_bool(value, config_field(c, k)); break;
    case KEY_ENUM:
        r = parse_choice(k->choices, value, &choice);
        if (r >= 0)
            *(int *)config_field(c, k) = choice;
        break;
    case KEY_INT:
    case KEY_SIZE:
    case KEY_DURATION:
    case KEY_MILLI: r = set_number(c, k, value); break;
    }
    return r < 0 ? refuse(k, value, where, e) : 0;
}

static int set_defaults(struct config *c, struct err *e)
{
    static const struct place where = { "built-in default" };

    for (const struct config_key *k = config_keys; k->name; k++) {
        auto_free char *made = k->def_fn ? k->def_fn() : NULL;
        int r = set_value(c, k, made ? made : k->def, &where, e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- the file ---- */

static char *trim(char *s)
{
    s += strspn(s, " \t\r\n");
    for (size_t n = strlen(s); n && strchr(" \t\r\n", s[n - 1]); n--)
        s[n - 1] = '\0';
    return s;
}

/* A '#' inside a word belongs to the word: paths may contain it. */
static void cut_comment(char *line)
{
    for (char *p = line; *p; p++) {
        if (*p == '#' && (p == line || p[-1] == ' ' || p[-1] == '\t')) {
            *p = '\0';
            return;
        }
    }
}

static int read_line(struct config *c, char *line, int *seen_at, int number, const struct place *where, struct err *e)
{
    cut_comment(line);
    char *name = trim(line);
    if (!*name)
        return 0;

    char *equals = strchr(name, '=');
    if (!equals)
        return err_set(e, ERR_INVALID, "%s: '%.60s': a line is 'key = value' or '# comment'", where->text, name);
    *equals = '\0';
    char *value = trim(equals + 1);
    name = trim(name);

    const struct config_key *k = config_key_find(name, KEY_SPELT_NAME);
    if (!k)
        return config_key_unknown(where->text, "key", name, KEY_SPELT_NAME, e);
    if (seen_at[k - config_keys])
        return err_set(e, ERR_INVALID, "%s: %s stands already in line %d", where->text, k->name,
                       seen_at[k - config_keys]);
    seen_at[k - config_keys] = number;
    return set_value(c, k, value, where, e);
}

static int read_file(struct config *c, const char *path, struct err *e)
{
    int seen_at[ARRAY_LEN(config_keys)] = { 0 };
    char line[8192];
    struct place where;
    int r = 0;
    FILE *f = fopen(path, "re");

    if (!f)
        return err_sys(e, "configuration file '%.100s'", path);
    for (int number = 1; r >= 0 && fgets(line, sizeof line, f); number++) {
        snprintf(where.text, sizeof where.text, "%.100s:%d", path, number);
        if (!strchr(line, '\n') && !feof(f))
            r = err_set(e, ERR_LIMIT, "%s: line longer than %zu bytes", where.text, sizeof line - 2);
        else
            r = read_line(c, line, seen_at, number, &where, e);
    }
    if (r >= 0 && ferror(f))
        r = err_sys(e, "read configuration file '%.100s'", path);
    fclose(f);
    return r;
}

/* ---- the environment ---- */

/* Kubernetes puts these into every container that lives beside a service named "sandglass". */
static bool is_foreign(const char *rest, size_t n)
{
    for (const char *const *other = other_variables; *other; other++)
        if (strlen(*other) == n && memcmp(*other, rest, n) == 0)
            return true;
    return strncmp(rest, "SERVICE_", 8) == 0 || strncmp(rest, "PORT_", 5) == 0 || strncmp(rest, "PORT=", 5) == 0;
}

static int read_environment(struct config *c, struct err *e)
{
    for (char **entry = environ; *entry; entry++) {
        const char *rest = *entry + strlen(ENV_PREFIX);
        const char *equals = strchr(*entry, '=');
        if (strncmp(*entry, ENV_PREFIX, strlen(ENV_PREFIX)) != 0 || !equals || equals < rest ||
            is_foreign(rest, (size_t)(equals - rest)))
            continue;

        auto_free char *name = strndup(*entry, (size_t)(equals - *entry));
        const struct config_key *k = name ? config_key_find(name, KEY_SPELT_ENV) : NULL;
        if (!name || !k)
            return config_key_unknown("environment", "variable", name ? name : "", KEY_SPELT_ENV, e);

        struct place where;
        if (k->aio && getenv(k->aio)) /* whoever set that one need not know ours */
            snprintf(where.text, sizeof where.text, "environment variable %s (or %s)", k->aio, name);
        else
            snprintf(where.text, sizeof where.text, "environment variable %s", name);
        int r = set_value(c, k, equals + 1, &where, e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- the flags ---- */

struct flag {
    const struct config_key *key; /* NULL: --config */
    const char *value;
    char spelt[72]; /* as given, without its value */
};

/* Reads the flag at argv[*i] and moves *i behind it. */
static int next_flag(int argc, char **argv, int *i, struct flag *ret, struct err *e)
{
    const char *word = argv[(*i)++];
    const char *equals = strchr(word, '=');
    struct flag f = { .value = equals ? equals + 1 : NULL };

    snprintf(f.spelt, sizeof f.spelt, "%.*s", equals ? (int)(equals - word) : (int)strlen(word), word);
    f.key = config_key_find(f.spelt, KEY_SPELT_FLAG);
    if (!f.key && !f.value && strncmp(f.spelt, "--no-", 5) == 0) {
        char positive[sizeof f.spelt];
        snprintf(positive, sizeof positive, "--%s", f.spelt + 5);
        f.key = config_key_find(positive, KEY_SPELT_FLAG);
        f.value = "false";
        if (f.key && f.key->type != KEY_BOOL)
            f.key = NULL;
    }
    if (!f.key && strcmp(f.spelt, "--config") != 0)
        return config_key_unknown("command line", "flag", f.spelt, KEY_SPELT_FLAG, e);
    if (!f.value && f.key && f.key->type == KEY_BOOL)
        f.value = "true";
    if (!f.value && *i < argc)
        f.value = argv[(*i)++];
    if (!f.value)
        return err_set(e, ERR_MISSING, "command line: flag %s needs a value", f.spelt);

    *ret = f;
    return 0;
}

typedef int on_flag(struct config *c, const struct flag *f, struct err *e);

static int take_file_flag(struct config *c, const struct flag *f, struct err *e)
{
    if (f->key)
        return 0;
    free(c->file);
    c->file = strdup(f->value);
    return c->file ? 0 : err_sys(e, "--config");
}

static int take_value_flag(struct config *c, const struct flag *f, struct err *e)
{
    struct place where;

    if (!f->key)
        return 0;
    snprintf(where.text, sizeof where.text, "flag %s", f->spelt);
    return set_value(c, f->key, f->value, &where, e);
}

static int each_flag(int argc, char **argv, struct config *c, on_flag *take, int *ret_first_arg, struct err *e)
{
    int i = 1;

    while (i < argc && argv[i][0] == '-' && argv[i][1]) {
        struct flag f;
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        int r = next_flag(argc, argv, &i, &f, e);
        if (r < 0)
            return r;
        r = take(c, &f, e);
        if (r < 0)
            return r;
    }
    *ret_first_arg = i;
    return 0;
}

/* ---- all of it ---- */

static int load_file(struct config *c, struct err *e)
{
    const char *named = getenv(ENV_PREFIX "CONFIG");

    /* A file that somebody named must be there; the usual one may be absent. "" reads none. */
    if (!c->file && named)
        c->file = strdup(named);
    else if (!c->file)
        c->file = strdup(access(DEFAULT_FILE, F_OK) == 0 ? DEFAULT_FILE : "");
    if (!c->file)
        return err_sys(e, "configuration file");
    return *c->file ? read_file(c, c->file, e) : 0;
}

static int check_together(const struct config *c, struct err *e)
{
    char timeout[UNITS_TEXT], most[UNITS_TEXT];

    if (!*c->tls_cert != !*c->tls_key)
        return err_set(e, ERR_INVALID, "tls.cert and tls.key: one is of no use without the other");
    if (strcmp(c->cors_origins, "*") == 0 && c->auth != 1)
        return err_set(e, ERR_INVALID,
                       "cors.origins = * needs auth = required: any page that someone looks at could "
                       "use this server otherwise");
    if (c->call_timeout_ms > c->call_timeout_max_ms)
        return err_set(e, ERR_INVALID, "call.timeout = %s is more than call.timeout_max = %s",
                       units_print_duration(timeout, c->call_timeout_ms),
                       units_print_duration(most, c->call_timeout_max_ms));
    return 0;
}

/* At its start a server ends what it finds in its group and does not know. So that a second server does not end the boxes
 * of the first, each home has a group of its own. */
static int name_cgroup(struct config *c, struct err *e)
{
    auto_free char *usual = config_default_home();
    char name[32] = "sandglass", hash[65];
    struct sha256 s;

    if (*c->cgroup_name)
        return 0;
    if (!usual || strcmp(usual, c->home) != 0) {
        sha256_init(&s);
        sha256_add(&s, c->home, strlen(c->home));
        sha256_hex(&s, hash);
        snprintf(name, sizeof name, "sandglass-%.8s", hash);
    }
    free(c->cgroup_name);
    c->cgroup_name = strdup(name);
    return c->cgroup_name ? 0 : err_sys(e, "cgroup.name");
}

int config_load(int argc, char **argv, struct config *ret, int *ret_first_arg, struct err *e)
{
    struct config c = { 0 };
    int first = 1;
    int r = set_defaults(&c, e);

    if (r >= 0)
        r = each_flag(argc, argv, &c, take_file_flag, &first, e);
    if (r >= 0)
        r = load_file(&c, e);
    if (r >= 0)
        r = read_environment(&c, e);
    if (r >= 0)
        r = each_flag(argc, argv, &c, take_value_flag, &first, e);
    if (r >= 0)
        r = check_together(&c, e);
    if (r >= 0)
        r = name_cgroup(&c, e);
    if (r < 0) {
        config_done(&c);
        return r;
    }
    *ret = c;
    *ret_first_arg = first;
    return 0;
}

int config_check_places(const struct config *c, struct err *e)
{
    char path[PATH_MAX];

    if (strcmp(c->box_image, "host") != 0) {
        auto_close int dir = mountfd_allowed("image.roots", c->image_roots, c->box_image, e);
        if (dir < 0)
            return err_wrap(e, dir, "box.image, with image.roots = '%s'", c->image_roots);
    }
    for (const char *p = c->box_mounts; *p;) {
        size_t n = strcspn(p, ":");
        snprintf(path, sizeof path, "%.*s", (int)n, p);
        auto_close int dir = n ? mountfd_allowed("mount.roots", c->mount_roots, path, e) : -1;
        if (n && dir < 0)
            return err_wrap(e, dir, "box.mounts, with mount.roots = '%s'", c->mount_roots);
        p += n + (p[n] == ':');
    }
    return 0;
}

int config_check_files(const struct config *c, struct err *e)
{
    struct stat st;

    for (const struct config_key *k = config_keys; k->name; k++) {
        const char *path = k->form == FORM_FILE ? *(char **)config_field(c, k) : "";
        if (!*path)
            continue;
        if (access(path, R_OK) < 0 || stat(path, &st) < 0)
            return err_sys(e, "%s: cannot read %s as the user of serve.user", k->name, path);
        if (S_ISDIR(st.st_mode))
            return err_set(e, ERR_INVALID, "%s: cannot read %s: Is a directory", k->name, path);
    }
    return 0;
}
