/* The box's outbound proxy: names mapped to ports of the box, excludes, an upstream. Settings and the proxy itself are
 * in the box (proxy.py): a server of ours never opens a connection that an agent chose. */
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

struct proxy_params {
    struct str action, source, target, pattern, server, auth_cmd, url;
};
static const struct field proxy_fields[] = {
    FIELD(STR, struct proxy_params, action, "what to do", .required = true,
          .choices =
              "mappings|map|unmap|excludes|exclude|include|upstream|set_upstream|remove_upstream|health|diagnose"),
    FIELD(STR, struct proxy_params, source, "map: [proto://]host[:port][/path]; * in the host matches anything",
          .max = 1024),
    FIELD(STR, struct proxy_params, target, "map: [host:]port[/path]; without a host it is a port of the box",
          .max = 256),
    FIELD(STR, struct proxy_params, pattern, "exclude: a domain or CIDR", .max = 256),
    FIELD(STR, struct proxy_params, server, "set_upstream: host:port or user:pass@host:port", .max = 1024),
    FIELD(STR, struct proxy_params, auth_cmd, "set_upstream: a command that prints user:pass", .max = 4096),
    FIELD(STR, struct proxy_params, url, "diagnose: which way does it go?", .max = 4096),
    { 0 },
};
struct proxy_result {
    struct str result;
    bool start;
};
static const struct field proxy_result_fields[] = {
    FIELD(JSON, struct proxy_result, result, "what came of it"),
    FIELD(BOOL, struct proxy_result, start, "the proxy has to be started: ~/.config/sandglass/proxy.py"),
    { 0 },
};

#ifdef IN_BOX

#include "tool/python_ask.h"

__asm__(".section .rodata\n.global proxy_script\nproxy_script:\n.incbin \"src/tool/proxy.py\"\n.byte 0\n.text\n");
extern const char proxy_script[];

static int manage_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct python_ask q = { "the proxy", proxy_script, proxy_fields, params, .tells_script = true };
    struct proxy_result *r = result;
    const struct json *said;
    int n = python_ask(h, &q, &said, e);

    if (n < 0)
        return n;
    const struct json *got = json_get(said, "result");
    r->result = got ? got->raw : STR("null");
    r->start = json_get_bool(said, "start", false);
    return 0;
}

#endif

static const struct tool proxy_tools[] = {
    { .name = "proxy:manage",
      .title = "Outbound proxy of the box",
      .help = "Maps names to ports of the box, leaves hosts alone, uses an upstream.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      .params = proxy_fields,
      .params_size = sizeof(struct proxy_params),
      .result = proxy_result_fields,
      .result_size = sizeof(struct proxy_result),
      .run_hand = BOX_CODE(manage_run) },
};

const struct backend backend_proxy = {
    .name = "proxy",
    .help = "The outbound proxy.",
    .kind = KIND_SESSION,
    .tools = proxy_tools,
    .tool_count = ARRAY_LEN(proxy_tools),
    .full_names = true,
};
