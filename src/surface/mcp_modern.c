/* The protocol since 2026-07-28: no sessions and no handshake. Each request says its version and what its client can in
 * `_meta`, and in headers for whoever routes it; whoever hangs up cancels. Older clients are served as before, at the
 * same address: which of both a request is, it says itself. */
#include <stdio.h>
#include <strings.h>

#include "base/limits.h"
#include "surface/mcp.h"
#include "surface/mcp_message.h"

#define META          "io.modelcontextprotocol/"
#define ENCODED_BEGIN "=?base64?"
#define ENCODED_END   "?="

enum { FRESH_MS = 60000 }; /* of lists that change only with the server's configuration; they are told besides */

static struct str version_of(const struct json *params)
{
    return json_get_str(json_get(params, "_meta"), META "protocolVersion");
}

/* A version in the header that no older client can have agreed on is a newer one's, even if its body forgets to say it. */
bool mcp_is_modern(const struct http_request *r, const struct json *params)
{
    struct str header = http_header(r, "mcp-protocol-version");

    return json_get(json_get(params, "_meta"), META "protocolVersion") || (header.p && !mcp_version_known(header));
}

/* --- is it well formed? --- */

/* The value of a header that may be encoded; p NULL: it cannot be read. */
static struct str plain(struct exchange *x, struct str s)
{
    size_t begin = strlen(ENCODED_BEGIN), end = strlen(ENCODED_END);

    if (s.n < begin + end || memcmp(s.p, ENCODED_BEGIN, begin) != 0 || memcmp(s.p + s.n - end, ENCODED_END, end) != 0)
        return s;
    return base64_decode(&x->arena, (struct str){ s.p + begin, s.n - begin - end });
}

static bool header_fits(struct exchange *x, const char *name, struct str want)
{
    struct str raw = http_header(x->web->http, name), got = raw.p ? plain(x, raw) : raw;

    if (got.p && want.p && str_eq(got, want))
        return true;
    x->status = 400;
    if (!raw.p)
        exchange_error(x, MCP_HEADER, "Header mismatch: the header %s is missing", name);
    else
        exchange_error(x, MCP_HEADER, "Header mismatch: %s: '%.*s' is not what the body says: '%.*s'", name,
                       (int)(raw.n < 100 ? raw.n : 100), raw.p, (int)(want.n < 100 ? want.n : 100),
                       want.p ? want.p : "");
    return false;
}

static bool name_fits(struct exchange *x, struct str method)
{
    if (str_is(method, "tools/call") || str_is(method, "prompts/get"))
        return header_fits(x, "mcp-name", json_get_str(x->params, "name"));
    if (str_is(method, "resources/read"))
        return header_fits(x, "mcp-name", json_get_str(x->params, "uri"));
    return true;
}

static void refuse_version(struct exchange *x, struct str asked)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 4096);
    jw_obj(&j);
    jw_key(&j, "supported");
    mcp_versions_print(&j);
    jw_kstr(&j, "requested", asked);
    jw_obj_end(&j);
    x->status = 400;
    x->error_data = arena_copy(&x->arena, buf_view(&b));
    buf_done(&b);
    exchange_error(x, MCP_VERSION, "Unsupported protocol version");
}

/* False: it was answered what is wrong with it. */
static bool is_well_formed(struct exchange *x, struct str method)
{
    const struct json *meta = json_get(x->params, "_meta"), *can = json_get(meta, META "clientCapabilities");
    struct str version = version_of(x->params);

    if (!version.p || str_is(x->id, "null")) {
        x->status = 400;
        exchange_error(x, version.p ? MCP_REQUEST : MCP_PARAMS, "%s",
                       version.p ? "id: a request needs one" : "_meta: " META "protocolVersion is missing");
        return false;
    }
    if (!header_fits(x, "mcp-protocol-version", version))
        return false;
    if (!str_is(version, MCP_MODERN)) {
        refuse_version(x, version);
        return false;
    }
    if (!can || can->type != JSON_OBJ) {
        x->status = 400;
        exchange_error(x, MCP_PARAMS, "_meta: " META "clientCapabilities is missing");
        return false;
    }
    return header_fits(x, "mcp-method", method) && name_fits(x, method);
}

/* --- the methods that differ --- */

static void discover(struct exchange *x)
{
    struct buf o;
    struct jw j = mcp_begin(&o);

    jw_key(&j, "supportedVersions");
    mcp_versions_print(&j);
    jw_key(&j, "capabilities");
    jw_obj(&j);
    jw_kraw(&j, "tools", STR("{\"listChanged\":true}"));
    jw_kraw(&j, "resources", STR("{}"));
    jw_kraw(&j, "prompts", STR("{}"));
    jw_kraw(&j, "completions", STR("{}"));
    jw_kraw(&j, "logging", STR("{}"));
    jw_obj_end(&j);
    mcp_about_print(&j);
    jw_obj_end(&j);
    exchange_result(x, &o);
}

/* Of what can be listened for, changes of the list of tools are told; others are left out of what is agreed on. */
static void listen_for(struct exchange *x)
{
    const struct json *wanted = json_get(x->params, "notifications"), *tools = json_get(wanted, "toolsListChanged");

    if (!wanted || wanted->type != JSON_OBJ || !x->takes_stream) {
        x->status = 400;
        exchange_error(x, MCP_PARAMS, "%s",
                       x->takes_stream ? "notifications: missing" : "Accept: this is a stream of events");
        return;
    }
    x->listens = true;
    x->hears_tools = tools && tools->type == JSON_BOOL && tools->b;
    exchange_notify(
        x, "notifications/subscriptions/acknowledged",
        str_of(arena_printf(&x->arena, "{\"_meta\":{\"" META "subscriptionId\":%.*s},\"notifications\":{%s}}",
                            STR_ARG(x->id), x->hears_tools ? "\"toolsListChanged\":true" : "")));
}

void mcp_modern_tools_changed(struct mcp_hub *h)
{
    char params[400];

    for (struct exchange *x = h->open; x; x = x->next)
        if (x->hears_tools && x->id.n < 200) {
            snprintf(params, sizeof params, "{\"_meta\":{\"" META "subscriptionId\":%.*s}}", STR_ARG(x->id));
            exchange_notify(x, "notifications/tools/list_changed", str_of(params));
        }
}

static int level_of(struct str name)
{
    for (int i = 0; mcp_levels[i]; i++)
        if (str_is(name, mcp_levels[i]))
            return i;
    return MCP_NO_LOG;
}

void mcp_modern_handle(struct exchange *x, struct str method)
{
    static const char *const gone[] = { "initialize", "ping", "logging/setLevel", "resources/subscribe",
                                        "resources/unsubscribe" };

    x->modern = true;
    x->session = NULL;
    x->log_level = level_of(json_get_str(json_get(x->params, "_meta"), META "logLevel"));
    if (!is_well_formed(x, method))
        return;
    x->method = method;
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        if (str_is(method, gone[i]))
            method = STR("");
    if (str_is(method, "server/discover"))
        discover(x);
    else if (str_is(method, "subscriptions/listen"))
        listen_for(x);
    else
        mcp_handle(x, method);
}

/* --- results --- */

static void print_fresh(const struct exchange *x, struct jw *j)
{
    static const struct {
        const char *method;
        int64_t ms;
    } rows[] = {
        { "tools/list", FRESH_MS },      { "prompts/list", FRESH_MS }, { "resources/templates/list", FRESH_MS },
        { "server/discover", FRESH_MS }, { "resources/list", 0 },      { "resources/read", 0 }
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (str_is(x->method, rows[i].method)) {
            jw_kint(j, "ttlMs", rows[i].ms);
            jw_kz(j, "cacheScope", "private"); /* what is shown depends on who asks */
        }
}

static void print_member(struct jw *j, const struct json *k)
{
    jw_key_str(j, k->name);
    jw_raw(j, k->raw);
}

void mcp_modern_result(struct exchange *x, struct str result, struct jw *j)
{
    struct json *r = NULL;
    struct err e;

    if (json_parse(&x->arena, result, &r, &e) < 0)
        r = NULL;
    const struct json *meta = json_get(r, "_meta");
    jw_obj(j);
    jw_kz(j, "resultType", "complete");
    for (const struct json *k = r ? r->first : NULL; k; k = k->next)
        if (k != meta)
            print_member(j, k);
    print_fresh(x, j);
    jw_key(j, "_meta");
    jw_obj(j);
    for (const struct json *k = meta ? meta->first : NULL; k; k = k->next)
        print_member(j, k);
    jw_kraw(j, META "serverInfo",
            STR("{\"name\":\"sandglass\",\"title\":\"Sandglass\",\"version\":\"" SANDGLASS_VERSION "\"}"));
    jw_obj_end(j);
    jw_obj_end(j);
}
