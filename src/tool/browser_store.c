/* What sites keep in the browser: cookies, and with the storage of pages the state as a whole, in a file that has the
 * form of Playwright's storageState (with sessionStorage beside it). */
#include <errno.h>

#include "base/limits.h"
#include "tool/browser_internal.h"
#ifdef IN_BOX
#include <sys/stat.h>

#include "base/auto.h"
#include "tool/file_internal.h"
#endif

const struct field browser_in_cookies[] = {
    FIELD(STR, P, action, "what to do", .def_str = "get", .choices = "get|set|clear"),
    FIELD(STRS, P, urls, "get: only those that are sent to one of these", .max = 100),
    FIELD(JSON, P, cookies,
          "set: a list of objects with name, value, and url or domain (else the page's own), path, expires, httpOnly, "
          "secure, sameSite",
          .max = 1 * MiB, .def_str = "[object]"),
    { 0 },
};
const struct field browser_in_state[] = { FIELD(STR, P, action, "what to do", .required = true, .choices = "save|load"),
                                          FIELD(STR, P, path, "of the file in the box", .required = true,
                                                .max = LIMIT_PATH),
                                          { 0 } };
const struct field browser_out_cookies[] = { NEWS,
                                             FIELD(JSON, R, cookies,
                                                   "name, value, domain, path, expires, httpOnly, secure, sameSite"),
                                             FIELD(INT, R, count, "of them"),
                                             { 0 } };
const struct field browser_out_state[] = { NEWS,
                                           FIELD(STR, R, path, "the file"),
                                           FIELD(INT, R, count, "cookies in it"),
                                           { .name = "origins",
                                             .type = FIELD_JSON,
                                             .offset = __builtin_offsetof(R, found_at),
                                             .help = "whose storage is in it" },
                                           { 0 } };

#ifdef IN_BOX

/* --- cookies --- */

static void print_cookie(struct jw *j, const struct json *c)
{
    static const char *const texts[] = { "name", "value", "domain", "path" };
    const struct json *expires = json_get(c, "expires");
    struct str site = json_get_str(c, "sameSite");

    jw_obj(j);
    for (size_t i = 0; i < 4; i++)
        jw_kstr(j, texts[i], json_get_str(c, texts[i]));
    jw_knum(j, "expires", expires && expires->type == JSON_NUM ? expires->num : -1);
    jw_kbool(j, "httpOnly", json_get_bool(c, "httpOnly", false));
    jw_kbool(j, "secure", json_get_bool(c, "secure", false));
    jw_kstr(j, "sameSite", site.p ? site : STR("Lax"));
    jw_obj_end(j);
}

static int get_cookies(struct hand *h, struct browser *b, const struct strs *urls, struct str *ret, int64_t *ret_count,
                       struct err *e)
{
    AUTO(buf_done) struct buf ask = { .cap = 1 * MiB };
    AUTO(buf_done) struct buf o = { .cap = 16 * MiB };
    struct jw a = { .out = &ask }, j = { .out = &o };
    const struct json *r = NULL;

    jw_obj(&a);
    if (urls->n) {
        jw_key(&a, "urls");
        jw_arr(&a);
        for (size_t i = 0; i < urls->n; i++)
            jw_str(&a, urls->v[i]);
        jw_arr_end(&a);
    }
    jw_obj_end(&a);
    int n = urls->n ? browser_page(h, b, "Network.getCookies", buf_view(&ask), &r, e)
                    : browser_ask(h, b, "Storage.getCookies", (struct str){ 0 }, &r, e);
    if (n < 0)
        return n;
    const struct json *list = json_get(r, "cookies");
    jw_arr(&j);
    for (const struct json *c = list ? list->first : NULL; c; c = c->next)
        print_cookie(&j, c);
    jw_arr_end(&j);
    *ret = arena_copy(h->arena, buf_view(&o));
    *ret_count = list ? (int64_t)list->count : 0;
    return 0;
}

struct cookie {
    struct str name, value, url, domain, path, sameSite;
    double expires;
    bool httpOnly, secure;
};
#define C struct cookie
static const struct field cookie_fields[] = {
    FIELD(STR, C, name, "", .required = true, .max = 4096),
    FIELD(STR, C, value, "", .required = true, .max = 8192),
    FIELD(STR, C, url, "", .max = 8192),
    FIELD(STR, C, domain, "", .max = 1024),
    FIELD(STR, C, path, "", .max = 1024),
    FIELD(NUM, C, expires, "", .def_num = -1),
    FIELD(BOOL, C, httpOnly, "", .alias = "http_only"),
    FIELD(BOOL, C, secure, ""),
    FIELD(STR, C, sameSite, "", .alias = "same_site", .choices = "Strict|Lax|None"),
    { 0 },
};

static int add_cookie(struct hand *h, const struct json *one, struct str page, struct jw *j, struct err *e)
{
    AUTO(buf_done) struct buf ignored = { .cap = 64 * KiB }; /* what other browsers tell besides */
    struct cookie c;
    int n = field_bind(cookie_fields, one, h->arena, &c, &ignored, e);

    if (n < 0)
        return n;
    if (!c.url.n && !c.domain.n && !(page.n > 4 && memcmp(page.p, "http", 4) == 0))
        return err_set(e, ERR_MISSING, "domain: required (or url), as the page has none");
    jw_obj(j);
    jw_kstr(j, "name", c.name);
    jw_kstr(j, "value", c.value);
    if (c.domain.n)
        jw_kstr(j, "domain", c.domain);
    else
        jw_kstr(j, "url", c.url.n ? c.url : page);
    if (c.path.n || c.domain.n)
        jw_kstr(j, "path", c.path.n ? c.path : STR("/"));
    if (c.expires >= 0)
        jw_knum(j, "expires", c.expires);
    jw_kbool(j, "httpOnly", c.httpOnly);
    jw_kbool(j, "secure", c.secure);
    if (c.sameSite.n)
        jw_kstr(j, "sameSite", c.sameSite);
    jw_obj_end(j);
    return 0;
}

static int set_cookies(struct hand *h, struct browser *b, const struct json *list, int64_t *ret_count, struct err *e)
{
    AUTO(buf_done) struct buf o = { .cap = 4 * MiB };
    struct jw j = { .out = &o };
    const struct json *here = NULL;
    int n = browser_evaluate(h, b, STR("location.href"), &here, e);

    if (n >= 0 && (!list || list->type != JSON_ARR))
        n = err_set(e, list ? ERR_TYPE : ERR_MISSING, "cookies: expected a list of objects");
    jw_obj(&j);
    jw_key(&j, "cookies");
    jw_arr(&j);
    for (const struct json *c = n >= 0 ? list->first : NULL; c && n >= 0; c = c->next, ++*ret_count) {
        n = c->type == JSON_OBJ ? add_cookie(h, c, json_get_str(here, "value"), &j, e)
                                : err_set(e, ERR_TYPE, "expected object, got %s", json_type_name(c->type));
        if (n < 0)
            n = err_wrap(e, n, "cookies[%lld]", (long long)*ret_count);
    }
    jw_arr_end(&j);
    jw_obj_end(&j);
    return n < 0 ? n : browser_ask(h, b, "Storage.setCookies", buf_view(&o), NULL, e);
}

int browser_run_cookies(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);
    struct json *list = NULL;
    int n = 0;

    if (!b)
        return -EIO;
    if (str_is(p->action, "set")) {
        n = p->cookies.n ? json_parse(h->arena, p->cookies, &list, e) : 0;
        if (n >= 0)
            n = set_cookies(h, b, list, &r->count, e);
    } else if (str_is(p->action, "clear")) {
        n = browser_ask(h, b, "Storage.clearCookies", (struct str){ 0 }, NULL, e);
    } else {
        n = get_cookies(h, b, &p->urls, &r->cookies, &r->count, e);
    }
    return browser_verdict(h, b, n, r, e);
}

/* --- the state as a whole --- */

#define STORAGE(which) "Object.keys(" which ").map(name => ({name, value: " which ".getItem(name)}))"
static const char read_storage[] =
    "(() => { try { return location.origin === 'null' ? null : { origin: location.origin, "
    "localStorage: " STORAGE("localStorage") ", sessionStorage: " STORAGE(
        "sessionStorage") " } } catch { return null } })()";

/* Of every origin that is shown somewhere; those that were left have nothing to ask. */
static int read_origins(struct hand *h, struct browser *b, struct jw *j, struct jw *names, struct err *e)
{
    char *home = NULL;
    struct tab tabs[TABS_MAX];
    struct frame frames[FRAMES_MAX];
    struct strs seen = { arena_alloc(h->arena, 1024 * sizeof *seen.v), 0 };
    size_t count = 0;
    int n = browser_tabs(h, b, tabs, &count, e);

    jw_arr(j);
    jw_arr(names);
    for (size_t t = 0; t < count && n >= 0; t++) {
        if (tabs[t].active)
            home = tabs[t].target;
        n = browser_tab_go(h, b, tabs[t].target, e);
        size_t k = n < 0 ? 0 : browser_frames(b, frames, FRAMES_MAX);
        for (size_t i = 0; i < k && seen.n < 1024; i++) {
            const struct json *v = NULL;
            struct err gone;
            bool known = false;
            if (browser_evaluate_in(h, b, &frames[i], str_of(read_storage), &v, &gone) < 0)
                continue;
            const struct json *value = json_get(v, "value");
            struct str origin = json_get_str(value, "origin");
            for (size_t s = 0; s < seen.n; s++)
                known |= str_eq(seen.v[s], origin);
            if (!origin.n || known)
                continue;
            seen.v[seen.n++] = origin;
            jw_raw(j, value->raw);
            jw_str(names, origin);
        }
    }
    jw_arr_end(j);
    jw_arr_end(names);
    return n < 0 || !home ? n : browser_tab_go(h, b, home, e);
}

static int save(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r,
                struct err *e)
{
    AUTO(buf_done) struct buf o = { .cap = 32 * MiB };
    AUTO(buf_done) struct buf origins = { .cap = 1 * MiB };
    struct jw j = { .out = &o }, names = { .out = &origins };
    struct str cookies = { 0 };
    int n = get_cookies(h, b, &(struct strs){ 0 }, &cookies, &r->count, e);

    if (n < 0)
        return n;
    jw_obj(&j);
    jw_kraw(&j, "cookies", cookies);
    jw_key(&j, "origins");
    n = read_origins(h, b, &j, &names, e);
    jw_obj_end(&j);
    r->found_at = arena_copy(h->arena, buf_view(&origins));
    if (n >= 0 && o.full)
        n = err_set(e, ERR_LIMIT, "the state exceeds 32 MiB");
    return n < 0 ? n : browser_save(h, p->path, buf_view(&o), e);
}

/* In an empty page of that origin, which asks nothing of the network. */
static int put_storage(struct hand *h, struct browser *b, const struct json *origin, const char *which, struct err *e)
{
    const struct json *items = json_get(origin, which), *v = NULL;
    int n = browser_visit(h, b, json_get_str(origin, "origin"), e);

    if (n < 0)
        return n;
    AUTO(buf_done) struct buf o = { .cap = 32 * MiB };
    buf_printf(&o, "for (const i of %.*s) %s.setItem(i.name, i.value)", STR_ARG(items->raw), which);
    n = browser_evaluate(h, b, buf_view(&o), &v, e);
    return n;
}

static bool has_items(const struct json *origin, const char *which)
{
    const struct json *items = json_get(origin, which);

    return items && items->type == JSON_ARR && items->count;
}

static int put_origins(struct hand *h, struct browser *b, const struct json *list, const char *which, struct jw *names,
                       struct err *e)
{
    int n = 0;

    for (const struct json *o = list ? list->first : NULL; o && n >= 0; o = o->next) {
        struct str origin = json_get_str(o, "origin");
        if (!origin.p || origin.n < 8 || memcmp(origin.p, "http", 4) != 0)
            return err_set(e, ERR_INVALID, "path: an origin in it is none: '%.*s'",
                           (int)(origin.n < 60 ? origin.n : 60), origin.p ? origin.p : "");
        if (names)
            jw_str(names, origin);
        if (has_items(o, which))
            n = put_storage(h, b, o, which, e);
    }
    return n;
}

/* localStorage is shared by all tabs, so a tab of its own gives it; sessionStorage belongs to the tab at hand, which is
 * shown its page again afterwards. */
static int restore(struct hand *h, struct browser *b, const struct json *state, struct browser_result *r, struct err *e)
{
    const struct json *cookies = json_get(state, "cookies"), *origins = json_get(state, "origins"), *here = NULL;
    AUTO(buf_done) struct buf o = { .cap = 1 * MiB };
    struct jw names = { .out = &o };
    struct tab tabs[TABS_MAX];
    size_t count = 0, home = 0;
    bool session = false, local = false;
    int64_t status;
    struct err ignored;

    for (const struct json *k = origins ? origins->first : NULL; k; k = k->next) {
        local |= has_items(k, "localStorage");
        session |= has_items(k, "sessionStorage");
    }
    int n = browser_evaluate(h, b, STR("location.href"), &here, e);
    if (n >= 0)
        n = browser_ask(h, b, "Storage.clearCookies", (struct str){ 0 }, NULL, e);
    if (n >= 0 && cookies && cookies->count)
        n = set_cookies(h, b, cookies, &r->count, e);
    if (n >= 0)
        n = browser_tabs(h, b, tabs, &count, e);
    for (size_t i = 0; i < count; i++)
        home = tabs[i].active ? i : home;
    jw_arr(&names);
    if (n >= 0 && local) {
        n = browser_tab_open(h, b, STR("about:blank"), e);
        if (n >= 0)
            n = put_origins(h, b, origins, "localStorage", &names, e);
        struct tab now[TABS_MAX];
        size_t many = 0;
        if (browser_tabs(h, b, now, &many, &ignored) >= 0)
            for (size_t i = 0; i < many; i++)
                if (now[i].active && strcmp(now[i].target, tabs[home].target) != 0)
                    (void)browser_tab_close(h, b, now[i].target, &ignored);
        (void)browser_tab_go(h, b, tabs[home].target, &ignored);
    }
    jw_arr_end(&names);
    if (n >= 0 && session)
        n = put_origins(h, b, origins, "sessionStorage", NULL, e);
    struct str url = json_get_str(here, "value");
    if (n >= 0 && url.n > 4 && memcmp(url.p, "http", 4) == 0) /* so that the page has it */
        n = browser_goto(h, b, url, "load", h->deadline_ms, &status, e);
    r->found_at = arena_copy(h->arena, buf_view(&o));
    return n;
}

static int load(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r,
                struct err *e)
{
    struct json *state = NULL;
    struct stat st;
    struct str text;
    char *path = NULL;
    int n = file_path(h, p->path, &path, e);

    if (n >= 0)
        n = file_read_all(h, path, &text, &st, e);
    if (n < 0)
        return n;
    if (json_parse(h->arena, text, &state, e) < 0 || state->type != JSON_OBJ ||
        (!json_get(state, "cookies") && !json_get(state, "origins")))
        return err_set(e, ERR_INVALID, "path: '%.*s' is no state of a browser",
                       (int)(p->path.n < 150 ? p->path.n : 150), p->path.p);
    return restore(h, b, state, r, e);
}

int browser_run_state(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);

    if (!b)
        return -EIO;
    int n = str_is(p->action, "save") ? save(h, b, p, r, e) : load(h, b, p, r, e);
    r->path = p->path;
    return browser_verdict(h, b, n, r, e);
}
#endif
