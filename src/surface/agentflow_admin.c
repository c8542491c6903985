/* AgentFlow's endpoints for administrators: warm-up, configuration files, shutdown. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "surface/agentflow.h"

/* --- warm-up --- */

static bool is_warm(const struct node *n, const struct backend *b)
{
    return !b->warm || map_get(&n->warm, str_of(b->name));
}

static bool visible(const struct node *n, const struct backend *b)
{
    return !b->hidden || n->opts.test_backends;
}

static void print_summary(const struct node *n, struct jw *j)
{
    int64_t total = 0, warm = 0;

    for (size_t i = 0; backends[i]; i++)
        if (visible(n, backends[i])) {
            total++;
            warm += is_warm(n, backends[i]);
        }
    jw_key(j, "summary");
    jw_obj(j);
    jw_kint(j, "total", total);
    jw_kint(j, "warmed_up", warm);
    jw_kint(j, "pending", total - warm);
    jw_obj_end(j);
}

static bool wanted(const struct json *names, const struct backend *b)
{
    if (!names || !names->first)
        return true;
    for (const struct json *k = names->first; k; k = k->next)
        if (str_is(k->s, b->name))
            return true;
    return false;
}

static void warm_one(struct node *n, const struct backend *b, struct jw *results, struct jw *errors)
{
    struct err e;
    bool ok = call_warm_up(n, b, &e) >= 0;

    jw_kbool(results, b->name, ok);
    if (!ok)
        jw_kz(errors, b->name, e.msg);
}

static char *available(struct web *w)
{
    char *list = arena_printf(w->http->arena, "%s", "");

    for (size_t i = 0; backends[i]; i++)
        if (visible(w->node, backends[i]))
            list = arena_printf(w->http->arena, "%s%s'%s'", list, *list ? ", " : "", backends[i]->name);
    return list;
}

/* A body need not be there. */
static bool read_names(struct web *w, const struct json **ret)
{
    struct model m;
    size_t i = 0;

    *ret = NULL;
    if (!w->body || w->body->type == JSON_NULL)
        return true;
    model_begin(&m, w);
    *ret = model_list(&m, "backends", false);
    for (const struct json *k = *ret ? (*ret)->first : NULL; k; k = k->next, i++)
        if (k->type != JSON_STR)
            model_wrong_item(&m, "string_type", &(struct model_place){ "backends", i, "" },
                             "Input should be a valid string", k->raw);
    return model_end(&m);
}

static void warmup(struct web *w)
{
    char *known = available(w);
    struct buf o, r, x;
    struct jw j = { .out = &o }, results = { .out = &r }, errors = { .out = &x };
    const struct json *names;

    if (!read_names(w, &names))
        return;
    buf_init(&o, LIMIT_HTTP_REPLY);
    buf_init(&r, LIMIT_HTTP_REPLY);
    buf_init(&x, LIMIT_HTTP_REPLY);
    for (size_t i = 0; backends[i]; i++)
        if (visible(w->node, backends[i]) && wanted(names, backends[i]))
            warm_one(w->node, backends[i], &results, &errors);
    for (const struct json *k = names ? names->first : NULL; k; k = k->next) {
        const struct backend *b = backend_find(k->s);
        if (b && visible(w->node, b))
            continue;
        jw_key_str(&results, k->s);
        jw_bool(&results, false);
        jw_key_str(&errors, k->s);
        jw_z(&errors,
             arena_printf(w->http->arena, "Backend not found: %.*s. Available backends: [%s]", STR_ARG(k->s), known));
    }
    jw_obj(&j);
    jw_kz(&j, "status", x.n ? "partial_error" : "success");
    jw_key(&j, "results");
    jw_obj(&j);
    if (r.n)
        jw_raw(&j, buf_view(&r));
    jw_obj_end(&j);
    print_summary(w->node, &j);
    if (x.n) {
        jw_key(&j, "errors");
        jw_obj(&j);
        jw_raw(&j, buf_view(&x));
        jw_obj_end(&j);
    }
    jw_obj_end(&j);
    buf_done(&r);
    buf_done(&x);
    web_send(w, 200, &o);
}

static void warmup_status(struct web *w)
{
    struct buf o;
    struct jw j = { .out = &o };

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_key(&j, "backends");
    jw_obj(&j);
    for (size_t i = 0; backends[i]; i++) {
        if (!visible(w->node, backends[i]))
            continue;
        jw_key(&j, backends[i]->name);
        jw_obj(&j);
        jw_kbool(&j, "loaded", true);
        jw_kbool(&j, "warmed_up", is_warm(w->node, backends[i]));
        jw_obj_end(&j);
    }
    jw_obj_end(&j);
    print_summary(w->node, &j);
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

/* --- only for administrators: until there are keys, whoever is on this machine --- */

/* A browser on this machine is not its administrator: a page of another site may send it here. */
static bool is_from_a_page(const struct web *w)
{
    return http_header(w->http, "origin").p != NULL;
}

static bool is_admin(struct web *w)
{
    bool local = str_is(w->http->peer, "127.0.0.1") || str_is(w->http->peer, "::1") || str_is(w->http->peer, "unix");

    bool proved = strcmp(w->who.how, "local") != 0 && strcmp(w->who.how, "open") != 0;
    if ((proved || local) && !is_from_a_page(w))
        return true;
    web_error(w, 403, ERR_DENIED,
              "only an administrator may do this: call it from the server's own machine, or with a key");
    return false;
}

/* A JSON file of the configured directory and nowhere else. Returns its text in the arena. */
static int read_config(struct web *w, struct str name, struct str *ret, struct err *e)
{
    struct open_how how = { .flags = O_RDONLY | O_CLOEXEC,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    const char *dir = w->node->opts.agentflow_config_dir;
    struct stat st;

    if (!dir || !dir[0])
        return err_set(e, ERR_DENIED, "the setting agentflow.config_dir is empty: no file may be read");
    auto_close int dfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dfd < 0)
        return err_sys(e, "agentflow.config_dir");
    size_t n = strlen(dir); /* the whole path is accepted, too */
    const char *z = arena_z(w->http->arena, name);
    if (strlen(z) != name.n)
        return err_set(e, ERR_NOT_FOUND, "Config file not found: its name contains NUL");
    if (strncmp(z, dir, n) == 0 && z[n] == '/')
        z += n + 1;
    auto_close int fd = (int)syscall(SYS_openat2, dfd, z, &how, sizeof how);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_NOT_FOUND, "Config file not found: %s", z);
    if (st.st_size > LIMIT_FILE_IO)
        return err_set(e, ERR_LIMIT, "the file exceeds LIMIT_FILE_IO (%ld bytes)", LIMIT_FILE_IO);
    char *text = arena_alloc(w->http->arena, (size_t)st.st_size + 1);
    ssize_t got = read(fd, text, (size_t)st.st_size);
    if (got < 0)
        return err_sys(e, "read %s", z);
    *ret = (struct str){ text, (size_t)got };
    return 0;
}

/* Overrides only what is there, one level deep, as the original does. */
static void merge(const struct json *base, const struct json *over, int depth, struct jw *j)
{
    jw_obj(j);
    for (const struct json *k = base->first; k; k = k->next) {
        const struct json *o = NULL;
        for (const struct json *x = over ? over->first : NULL; x; x = x->next)
            if (str_eq(x->name, k->name))
                o = x;
        jw_key_str(j, k->name);
        if (o && depth == 0 && o->type == JSON_OBJ && k->type == JSON_OBJ)
            merge(k, o, 1, j);
        else
            jw_raw(j, o ? o->raw : k->raw);
    }
    if (depth == 1) /* the inner object takes new keys */
        for (const struct json *x = over->first; x; x = x->next) {
            bool found = false;
            for (const struct json *k = base->first; k && !found; k = k->next)
                found = str_eq(k->name, x->name);
            if (!found) {
                jw_key_str(j, x->name);
                jw_raw(j, x->raw);
            }
        }
    jw_obj_end(j);
}

static void from_config(struct web *w)
{
    struct str worker, path, text;
    struct json *config = NULL;
    struct model m;
    struct err e = { 0 };
    struct buf b;
    struct jw j = { .out = &b };

    model_begin(&m, w);
    model_str(&m, "worker_id", &worker);
    model_str(&m, "config_path", &path);
    const struct json *over = model_dict(&m, "override_params");
    if (!model_end(&m) || !is_admin(w))
        return;
    int r = read_config(w, path, &text, &e);
    if (r == 0)
        r = json_parse(w->http->arena, text, &config, &e);
    buf_init(&b, LIMIT_HTTP_REPLY);
    if (r < 0 || config->type != JSON_OBJ) {
        int status = e.code == ERR_NOT_FOUND ? 404 : e.code == ERR_DENIED ? 403 : 500;
        jw_obj(&j);
        jw_kstr(&j, "config_path", path);
        jw_obj_end(&j);
        const char *why = r < 0 ? e.msg : "the file is not a JSON object";
        envelope_send(
            w, status,
            &(struct envelope){ status == 500 ? 5005 : 4002, why, buf_view(&b), "init:from_config", "session", NULL });
        buf_done(&b);
        return;
    }
    jw_obj(&j);
    jw_kstr(&j, "config_loaded", path);
    jw_key(&j, "config");
    merge(config, over, 0, &j);
    jw_obj_end(&j);
    envelope_send(w, 200, &(struct envelope){ 0, "success", buf_view(&b), "init:from_config", "session", NULL });
    buf_done(&b);
}

static void server_shutdown(struct web *w)
{
    struct buf b;
    struct jw j = { .out = &b };
    size_t cleaned = 0, n;
    struct worker *k;

    if (!is_admin(w))
        return;
    if (json_get_bool(w->body, "cleanup_sessions", true))
        for (size_t i = 0; (k = map_next(&w->node->workers, &i));) {
            worker_disconnect(k, "shutdown", &n);
            cleaned += n;
        }
    buf_init(&b, 4096);
    jw_obj(&j);
    jw_kz(&j, "status", "success");
    jw_kz(&j, "message", "Server shutdown initiated");
    jw_kint(&j, "sessions_cleaned", (int64_t)cleaned);
    jw_obj_end(&j);
    web_send(w, 200, &b);
    if (w->node->on_shutdown)
        w->node->on_shutdown(w->node->arg);
}

const struct route agentflow_admin_routes[] = {
    { "POST", "/api/v1/warmup", warmup, 0 },
    { "GET", "/api/v1/warmup/status", warmup_status, 0 },
    { "POST", "/api/v1/init/from-config", from_config, ROUTE_ADMIN | ROUTE_SERVER },
    { "POST", "/api/v1/server/shutdown", server_shutdown, ROUTE_ADMIN | ROUTE_SERVER },
    { 0 },
};
