/* proxy: the box's outbound proxy on its port 8118. Programs use it if http_proxy says so; a browser does by itself. */
#include "base/limits.h"
#include "surface/aio.h"

struct proxy_in {
    struct str source, target, pattern, server, auth_cmd, url;
};
static const struct field map_in[] = {
    FIELD(STR, struct proxy_in, source, "[proto://]host[:port][/path]; * in the host matches anything",
          .required = true, .max = 1024),
    FIELD(STR, struct proxy_in, target, "[host:]port[/path]; without a host it is a port of the box", .required = true,
          .max = 256),
    { 0 },
};
static const struct field source_in[] = {
    FIELD(STR, struct proxy_in, source, "as it was added", .required = true, .max = 1024),
    { 0 },
};
static const struct field pattern_in[] = {
    FIELD(STR, struct proxy_in, pattern, "a domain or CIDR", .required = true, .max = 256),
    { 0 },
};
static const struct field upstream_in[] = {
    FIELD(STR, struct proxy_in, server, "host:port or user:pass@host:port", .required = true, .max = 1024),
    FIELD(STR, struct proxy_in, auth_cmd, "a command that prints user:pass", .max = 4096),
    { 0 },
};
static const struct field url_in[] = {
    FIELD(STR, struct proxy_in, url, "which way does it go?", .required = true, .max = 4096),
    { 0 },
};
static const struct field route_out[] = {
    SAYS(STR, "source", "as it was added", .required = true),
    SAYS(STR, "target", "as it was added", .required = true),
    SAYS(STR, "source_host", "of it", .required = true),
    SAYS(STR, "source_path", "of it"),
    SAYS(INT, "internal_port", "where it goes", .required = true),
    { 0 },
};
static const struct field diagnose_out[] = {
    SAYS(STR, "url", "as asked", .required = true),
    SAYS(JSON, "matched_mapping", "the mapping", .nullable = true, .rows = route_out),
    SAYS(STR, "resolved_target", "where it goes", .nullable = true),
    SAYS(BOOL, "target_reachable", "somebody listens there"),
    SAYS(STR, "route", "mapping, exclude, upstream or direct", .required = true),
    { 0 },
};
static const struct field health_out[] = {
    SAYS(BOOL, "healthy", "all is well", .required = true),
    SAYS(BOOL, "gost_alive", "the proxy runs, or is not needed", .required = true),
    SAYS(BOOL, "nginx_alive", "the same", .required = true),
    SAYS(BOOL, "config_consistent", "it does what is set", .required = true),
    SAYS(STRS, "inconsistencies", "what it does not"),
    { 0 },
};
static const struct field upstream_out[] = {
    SAYS(STR, "addr", "host:port", .required = true),
    SAYS(STR, "username", "for it", .nullable = true),
    SAYS(STR, "password", "for it", .nullable = true),
    { 0 },
};

static void answer(struct web *w, struct str result)
{
    struct buf b;
    struct jw j;

    aio_begin(w, &b, &j);
    jw_raw(&j, result);
    aio_end(w, &b, &j, NULL);
}

static void on_started(void *arg, const struct call *c)
{
    struct web *w = arg;

    (void)c; /* health says whether it runs */
    answer(w, w->held);
}

static void on_managed(void *arg, const struct call *c)
{
    struct web *w = arg;
    const struct json *data = aio_data(w, c), *r = data ? json_get(data, "result") : NULL;

    if (!data) {
        aio_call_failed(w, c);
        return;
    }
    w->held = arena_copy(w->http->arena, r ? r->raw : STR("null"));
    if (json_get_bool(data, "start", false))
        aio_call(w, "command:launch",
                 STR("\"session_id\":\"sandglass-proxy\",\"timeout\":20,"
                     "\"command\":\"exec python3 ~/.config/sandglass/proxy.py serve\""),
                 on_started);
    else
        answer(w, w->held);
}

static const struct {
    const char *name, *action;
} actions[] = {
    { "list_mappings", "mappings" },
    { "add_mapping", "map" },
    { "remove_mapping", "unmap" },
    { "list_excludes", "excludes" },
    { "add_exclude", "exclude" },
    { "remove_exclude", "include" },
    { "diagnose", "diagnose" },
    { "health", "health" },
    { "get_upstream", "upstream" },
    { "set_upstream", "set_upstream" },
    { "remove_upstream", "remove_upstream" },
};

static void manage(struct web *w)
{
    struct str given = aio_given(w)->raw;
    const char *action = "";

    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(actions[i].name, w->op->name) == 0)
            action = actions[i].action;
    aio_call(w, "proxy:manage",
             str_of(arena_printf(w->http->arena, "\"action\":\"%s\"%s%.*s", action, given.n > 2 ? "," : "",
                                 (int)given.n - 2, given.p + 1)),
             on_managed);
}

static const struct aio_op ops[] = {
    { "GET", "/v1/proxy/mappings", "proxy", "list_mappings", "All mappings", .handler = manage, .out = route_out,
      .out_name = "ProxyMappingRoute", .flags = AIO_BOX | AIO_LIST },
    { "POST", "/v1/proxy/mappings", "proxy", "add_mapping", "Map a name to a port", .handler = manage, .in = map_in,
      .out = route_out, .out_name = "ProxyMappingRoute", .flags = AIO_BOX },
    { "DELETE", "/v1/proxy/mappings/{source*}", "proxy", "remove_mapping", "Remove a mapping", .handler = manage,
      .in = source_in, .flags = AIO_BOX },
    { "GET", "/v1/proxy/excludes", "proxy", "list_excludes", "Hosts that are left alone", .handler = manage,
      .flags = AIO_BOX | AIO_LIST | AIO_TEXT },
    { "POST", "/v1/proxy/excludes", "proxy", "add_exclude", "Leave a host alone", .handler = manage, .in = pattern_in,
      .flags = AIO_BOX },
    { "DELETE", "/v1/proxy/excludes", "proxy", "remove_exclude", "Do not leave it alone", .handler = manage,
      .in = pattern_in, .flags = AIO_BOX | AIO_BODY },
    { "GET", "/v1/proxy/diagnose", "proxy", "diagnose", "Which way does a URL go?", .handler = manage, .in = url_in,
      .out = diagnose_out, .out_name = "ProxyDiagnoseResult", .flags = AIO_BOX },
    { "GET", "/v1/proxy/health", "proxy", "health", "Does the proxy run?", .handler = manage, .out = health_out,
      .out_name = "ProxyHealthCheck", .flags = AIO_BOX },
    { "GET", "/v1/proxy/upstream", "proxy", "get_upstream", "The upstream", .handler = manage, .out = upstream_out,
      .out_name = "ProxyUpstreamInfo", .flags = AIO_BOX },
    { "PUT", "/v1/proxy/upstream", "proxy", "set_upstream", "Use an upstream", .handler = manage, .in = upstream_in,
      .out = upstream_out, .out_name = "ProxyUpstreamInfo", .flags = AIO_BOX },
    { "DELETE", "/v1/proxy/upstream", "proxy", "remove_upstream", "Use none", .handler = manage, .flags = AIO_BOX },
    { 0 },
};
const struct aio_group aio_proxy = { "proxy", ops };
