/* The record of requests as an HTTP archive, version 1.2. Times that nobody measured are -1, as it wants them. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/browser_parts.h"

enum { BODY_MAX = 1024 * 1024 };

static void print_date(struct jw *j, const char *name, double wall)
{
    time_t s = (time_t)wall;
    struct tm t;
    char text[40];

    gmtime_r(&s, &t);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(text + n, sizeof text - n, ".%03dZ", (int)((wall - (double)s) * 1000));
    jw_kz(j, name, text);
}

static void print_name_value(struct jw *j, struct str name, struct str value)
{
    jw_obj(j);
    jw_kstr(j, "name", name.p ? name : STR(""));
    jw_kstr(j, "value", value.p ? value : STR(""));
    jw_obj_end(j);
}

static const struct json *parsed(struct hand *h, struct str text)
{
    struct json *v = NULL;
    struct err e;

    return text.n && json_parse(h->arena, text, &v, &e) == 0 ? v : NULL;
}

static struct str next_part(struct str *rest, char sep)
{
    const char *at = memchr(rest->p, sep, rest->n);
    struct str part = { rest->p, at ? (size_t)(at - rest->p) : rest->n };

    *rest = at ? (struct str){ at + 1, rest->n - part.n - 1 } : (struct str){ rest->p + rest->n, 0 };
    while (part.n && part.p[0] == ' ')
        part = (struct str){ part.p + 1, part.n - 1 };
    return part;
}

static void print_pair(struct jw *j, struct str part)
{
    const char *eq = part.n ? memchr(part.p, '=', part.n) : NULL;
    struct str name = { part.p, eq ? (size_t)(eq - part.p) : part.n };

    print_name_value(j, name, eq ? (struct str){ eq + 1, part.n - name.n - 1 } : (struct str){ 0 });
}

/* A request has all in one header, an answer one in each line. */
static void print_cookies(struct jw *j, const struct json *headers, bool answer)
{
    const char *wanted = answer ? "set-cookie" : "cookie";

    jw_key(j, "cookies");
    jw_arr(j);
    for (const struct json *k = headers ? headers->first : NULL; k; k = k->next) {
        struct str rest = k->s;
        if (k->name.n != strlen(wanted) || strncasecmp(k->name.p, wanted, k->name.n) != 0)
            continue;
        while (rest.n) {
            struct str part = next_part(&rest, answer ? '\n' : ';');
            print_pair(j, answer ? next_part(&part, ';') : part);
        }
    }
    jw_arr_end(j);
}

static void print_headers(struct jw *j, const struct json *headers)
{
    jw_key(j, "headers");
    jw_arr(j);
    for (const struct json *k = headers ? headers->first : NULL; k; k = k->next)
        print_name_value(j, k->name, k->s);
    jw_arr_end(j);
}

static const char *version_of(const struct entry *x)
{
    return str_is(x->protocol, "h2") ? "HTTP/2.0" : str_is(x->protocol, "http/1.0") ? "HTTP/1.0" : "HTTP/1.1";
}

static void print_request(struct hand *h, const struct entry *x, struct jw *j)
{
    const struct json *headers = parsed(h, x->headers);
    const char *q = memchr(x->url.p, '?', x->url.n);
    struct str query = q ? (struct str){ q + 1, x->url.n - (size_t)(q + 1 - x->url.p) } : (struct str){ "", 0 };
    const char *hash = memchr(query.p, '#', query.n);

    if (hash)
        query.n = (size_t)(hash - query.p);
    jw_key(j, "request");
    jw_obj(j);
    jw_kstr(j, "method", x->method);
    jw_kstr(j, "url", x->url);
    jw_kz(j, "httpVersion", version_of(x));
    print_cookies(j, headers, false);
    print_headers(j, headers);
    jw_key(j, "queryString");
    jw_arr(j);
    while (query.n) {
        struct str part = next_part(&query, '&'), name, value;
        const char *eq = part.n ? memchr(part.p, '=', part.n) : NULL;
        name = (struct str){ part.p, eq ? (size_t)(eq - part.p) : part.n };
        value = eq ? (struct str){ eq + 1, part.n - name.n - 1 } : (struct str){ 0 };
        print_name_value(j, name, value);
    }
    jw_arr_end(j);
    if (x->body.p) {
        struct str type = STR("application/octet-stream");
        for (const struct json *k = headers ? headers->first : NULL; k; k = k->next)
            if (k->name.n == 12 && strncasecmp(k->name.p, "content-type", 12) == 0)
                type = k->s;
        jw_key(j, "postData");
        jw_obj(j);
        jw_kstr(j, "mimeType", type);
        jw_kraw(j, "params", STR("[]"));
        jw_kstr(j, "text", x->body);
        jw_obj_end(j);
    }
    jw_kint(j, "headersSize", -1);
    jw_kint(j, "bodySize", x->body.p ? (int64_t)x->body.n : 0);
    jw_obj_end(j);
}

/* Only what the browser still has. */
static const struct json *body_of(struct hand *h, struct browser *b, const struct entry *x)
{
    const struct json *r = NULL;
    struct err ignored;
    struct str params = str_of(arena_printf(h->arena, "{\"requestId\":\"%s\"}", x->id));

    if (!x->ended || x->error.p || x->redirect.p || x->bytes > BODY_MAX || !view_of(b, str_of(x->session)) ||
        cdp_call(h, b->cdp, str_of(arena_printf(h->arena, "%s", x->session)), "Network.getResponseBody", params, &r,
                 &ignored) < 0)
        return NULL;
    return r;
}

static void print_body(const struct json *body, struct jw *j)
{
    struct str text = json_get_str(body, "body");

    if (!text.p || j->out->n + text.n > LIMIT_BROWSER_HAR / 2)
        return;
    jw_kstr(j, "text", text);
    if (json_get_bool(body, "base64Encoded", false))
        jw_kz(j, "encoding", "base64");
}

static void print_response(struct hand *h, const struct entry *x, const struct json *body, struct jw *j)
{
    const struct json *headers = parsed(h, x->answer_headers);

    jw_key(j, "response");
    jw_obj(j);
    jw_kint(j, "status", x->status);
    jw_kstr(j, "statusText", x->status_text.p ? x->status_text : STR(""));
    jw_kz(j, "httpVersion", version_of(x));
    print_cookies(j, headers, true);
    print_headers(j, headers);
    jw_kstr(j, "redirectURL", x->redirect.p ? x->redirect : STR(""));
    jw_kint(j, "headersSize", -1);
    jw_kint(j, "bodySize", x->status == 304 ? 0 : x->ended > 0 ? x->bytes : -1);
    if (x->error.p)
        jw_kstr(j, "_error", x->error);
    jw_key(j, "content");
    jw_obj(j);
    jw_kint(j, "size", x->bytes);
    jw_kstr(j, "mimeType", x->mime.n ? x->mime : STR("x-unknown"));
    print_body(body, j);
    jw_obj_end(j);
    jw_obj_end(j);
}

static double span(const struct json *t, const char *from, const char *to)
{
    const struct json *a = json_get(t, from), *z = json_get(t, to);

    return a && z && a->type == JSON_NUM && z->type == JSON_NUM && a->num >= 0 && z->num >= a->num ? z->num - a->num
                                                                                                   : -1;
}

static double known(double ms)
{
    return ms > 0 ? ms : 0;
}

static void print_times(struct hand *h, const struct entry *x, struct jw *j)
{
    const struct json *t = parsed(h, x->timing);
    double end = x->ended > 0 ? x->ended : x->answered > 0 ? x->answered : x->begun, all = (end - x->begun) * 1000;
    double dns = span(t, "dnsStart", "dnsEnd"), connect = span(t, "connectStart", "connectEnd"),
           ssl = span(t, "sslStart", "sslEnd"), send = known(span(t, "sendStart", "sendEnd")),
           wait = known(span(t, "sendEnd", "receiveHeadersEnd"));
    double rest = all - known(dns) - known(connect) - send - wait;
    double receive = x->answered > 0 ? (end - x->answered) * 1000 : 0;

    receive = known(receive > known(rest) ? rest : receive);
    double blocked = known(rest - receive);
    jw_knum(j, "time", blocked + known(dns) + known(connect) + send + wait + receive);
    jw_key(j, "timings");
    jw_obj(j);
    jw_knum(j, "blocked", blocked);
    jw_knum(j, "dns", dns);
    jw_knum(j, "connect", connect);
    jw_knum(j, "ssl", ssl);
    jw_knum(j, "send", send);
    jw_knum(j, "wait", wait);
    jw_knum(j, "receive", receive);
    jw_obj_end(j);
}

/* The page that asked: the last document of its tab before it. */
static int64_t page_of(const struct entry *first, const struct entry *x)
{
    int64_t page = 0;

    for (const struct entry *k = first; k; k = k->next) {
        if (k->page && strcmp(k->tab, x->tab) == 0)
            page = k->number;
        if (k == x)
            break;
    }
    return page;
}

static void print_pages(const struct entry *first, struct jw *j)
{
    char id[40];

    jw_key(j, "pages");
    jw_arr(j);
    for (const struct entry *x = first; x; x = x->next) {
        if (!x->page)
            continue;
        jw_obj(j);
        print_date(j, "startedDateTime", x->wall);
        snprintf(id, sizeof id, "page_%lld", (long long)x->number);
        jw_kz(j, "id", id);
        jw_kstr(j, "title", x->url);
        jw_kraw(j, "pageTimings", STR("{\"onContentLoad\":-1,\"onLoad\":-1}"));
        jw_obj_end(j);
    }
    jw_arr_end(j);
}

static void print_one(struct hand *h, struct browser *b, const struct entry *x, const struct json *body, struct jw *j)
{
    int64_t page = page_of(network_first(b), x);
    char id[40];

    jw_obj(j);
    if (page) {
        snprintf(id, sizeof id, "page_%lld", (long long)page);
        jw_kz(j, "pageref", id);
    }
    print_date(j, "startedDateTime", x->wall);
    print_times(h, x, j);
    print_request(h, x, j);
    print_response(h, x, body, j);
    jw_kraw(j, "cache", STR("{}"));
    if (x->address.n)
        jw_kstr(j, "serverIPAddress", x->address);
    jw_kstr(j, "_resourceType", x->type.p ? x->type : STR("Other"));
    jw_obj_end(j);
}

static const struct entry *after(const struct browser *b, int64_t number)
{
    const struct entry *x = network_first(b);

    while (x && x->number <= number)
        x = x->next;
    return x;
}

struct str browser_har(struct hand *h, struct browser *b, bool bodies, size_t *ret_count)
{
    AUTO(buf_done) struct buf o = { .cap = LIMIT_BROWSER_HAR };
    struct jw j = { .out = &o };
    int64_t last = 0;

    *ret_count = 0;
    jw_obj(&j);
    jw_key(&j, "log");
    jw_obj(&j);
    jw_kz(&j, "version", "1.2");
    jw_kraw(&j, "creator", STR("{\"name\":\"sandglass\",\"version\":\"" SANDGLASS_VERSION "\"}"));
    jw_kraw(&j, "browser", str_of(arena_printf(h->arena, "{\"name\":\"Chromium\",\"version\":\"%s\"}", b->version)));
    print_pages(network_first(b), &j);
    jw_key(&j, "entries");
    jw_arr(&j);
    for (const struct entry *x; (x = after(b, last)) && o.n < LIMIT_BROWSER_HAR - 8 * LIMIT_BROWSER_HEADERS;) {
        last = x->number;
        const struct json *body = bodies ? body_of(h, b, x) : NULL;
        x = after(b, last - 1); /* asking took events, which may have made the list shorter at its front */
        if (!x || x->number != last)
            continue;
        print_one(h, b, x, body, &j);
        ++*ret_count;
    }
    jw_arr_end(&j);
    jw_obj_end(&j);
    jw_obj_end(&j);
    return arena_copy(h->arena, buf_view(&o));
}
