/* Backends that exist for tests: one of each kind, each with the least that shows its kind's rules. Hidden unless
 * the configuration asks for them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "tool/tool.h"

struct none_params {
    bool unused; /* a struct needs a member */
};
static const struct field none_fields[] = { { 0 } };

struct text {
    struct str text;
};
static const struct field text_fields[] = {
    FIELD(STR, struct text, text, "any text", .required = true, .max = 1 << 20),
    { 0 },
};

struct count {
    int64_t count;
    int64_t own;
};
static const struct field count_fields[] = {
    FIELD(INT, struct count, count, "how often it was called"),
    { 0 },
};
static const struct field tick_fields[] = {
    FIELD(INT, struct count, count, "calls of all sessions since it was warmed"),
    FIELD(INT, struct count, own, "calls of this session"),
    { 0 },
};

/* stateless */

static int echo_run(struct tool_env *env, const void *params, void *result, struct err *e)
{
    (void)env, (void)e;
    *(struct text *)result = *(const struct text *)params;
    return 0;
}

static const struct tool echo_tools[] = {
    { .name = "probe:echo",
      .title = "Echo",
      .help = "Gives back its text.",
      .flags = TOOL_READ_ONLY | TOOL_IDEMPOTENT | TOOL_PARALLEL | TOOL_HIDDEN,
      .params = text_fields,
      .params_size = sizeof(struct text),
      .result = text_fields,
      .result_size = sizeof(struct text),
      .run = echo_run },
};
const struct backend backend_probe = { .name = "probe",
                                       .help = "Test backend without state.",
                                       .kind = KIND_STATELESS,
                                       .tools = echo_tools,
                                       .tool_count = ARRAY_LEN(echo_tools),
                                       .hidden = true };

/* shared */

static bool shared_warm;
static int64_t shared_count;

static int shared_start(struct err *e)
{
    (void)e;
    shared_warm = true;
    shared_count = 0;
    return 0;
}

static int shared_run(struct tool_env *env, const void *params, void *result, struct err *e)
{
    (void)env, (void)params;
    if (!shared_warm)
        return err_set(e, ERR_SYSTEM, "probe_shared was not warmed");
    ((struct count *)result)->count = ++shared_count;
    return 0;
}

static const struct tool shared_tools[] = {
    { .name = "probe_shared:count",
      .title = "Count",
      .help = "Counts its calls since it was warmed.",
      .flags = TOOL_PARALLEL | TOOL_HIDDEN,
      .params = none_fields,
      .params_size = sizeof(struct none_params),
      .result = count_fields,
      .result_size = sizeof(struct count),
      .run = shared_run },
};
const struct backend backend_probe_shared = { .name = "probe_shared",
                                              .help = "Test backend with shared state.",
                                              .kind = KIND_SHARED,
                                              .tools = shared_tools,
                                              .tool_count = ARRAY_LEN(shared_tools),
                                              .hidden = true,
                                              .warm = shared_start };

/* hybrid */

static int64_t hybrid_count;

static int hybrid_warm(struct err *e)
{
    (void)e;
    hybrid_count = 0;
    return 0;
}

static int hybrid_open(struct arena *a, const struct json *config, void **ret_state, struct err *e)
{
    struct count *own = arena_alloc(a, sizeof *own);

    (void)e;
    own->own = json_get_int(config, "start", 0);
    *ret_state = own;
    return 0;
}

static int hybrid_run(struct tool_env *env, const void *params, void *result, struct err *e)
{
    struct count *own = env->session_state;
    struct count *r = result;

    (void)params, (void)e;
    r->count = ++hybrid_count;
    r->own = own ? ++own->own : 1;
    return 0;
}

static const struct tool hybrid_tools[] = {
    { .name = "probe_hybrid:tick",
      .title = "Tick",
      .help = "Counts calls of all sessions and of this one.",
      .flags = TOOL_HIDDEN,
      .params = none_fields,
      .params_size = sizeof(struct none_params),
      .result = tick_fields,
      .result_size = sizeof(struct count),
      .run = hybrid_run },
};
const struct backend backend_probe_hybrid = { .name = "probe_hybrid",
                                              .help = "Test backend with both kinds of state.",
                                              .kind = KIND_HYBRID,
                                              .tools = hybrid_tools,
                                              .tool_count = ARRAY_LEN(hybrid_tools),
                                              .hidden = true,
                                              .warm = hybrid_warm,
                                              .open = hybrid_open };

/* session */

#ifdef IN_BOX
static int session_run(struct hand *h, const void *params, void *result, struct err *e)
{
    static const char path[] = "/tmp/.probe_session";
    auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    long long n = 0;
    char text[24] = "";

    (void)h, (void)params;
    if (fd < 0)
        return err_sys(e, "open %s", path);
    if (pread(fd, text, sizeof text - 1, 0) < 0)
        return err_sys(e, "read %s", path);
    (void)!sscanf(text, "%lld", &n);
    int len = snprintf(text, sizeof text, "%lld\n", ++n);
    if (pwrite(fd, text, (size_t)len, 0) != len)
        return err_sys(e, "write %s", path);
    ((struct count *)result)->count = n;
    return 0;
}
#endif

static const struct tool session_tools[] = {
    { .name = "probe_session:count",
      .title = "Count",
      .help = "Counts its calls in this box.",
      .flags = TOOL_NEEDS_BOX | TOOL_HIDDEN,
      .params = none_fields,
      .params_size = sizeof(struct none_params),
      .result = count_fields,
      .result_size = sizeof(struct count),
      .run_hand = BOX_CODE(session_run) },
};
const struct backend backend_probe_session = { .name = "probe_session",
                                               .help = "Test backend with state in a box.",
                                               .kind = KIND_SESSION,
                                               .tools = session_tools,
                                               .tool_count = ARRAY_LEN(session_tools),
                                               .hidden = true };
