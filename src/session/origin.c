#include "session/origin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"
#include "session/origin_parts.h"

static const struct field repo_fields[] = {
    FIELD(STR, struct origin_repo, url, "where git clones it from: https, http, git, ssh, file", .required = true,
          .max = LIMIT_REPO_URL),
    FIELD(STR, struct origin_repo, commit, "commit, tag or branch", .required = true, .max = 256),
    FIELD(STR, struct origin_repo, bundle, "base64 of a git bundle, which is cloned instead of the URL",
          .max = LIMIT_REPO_BUNDLE / 3 * 4 + 4),
    FIELD(STR, struct origin_repo, state,
          "id of the state of an earlier clone of it, which is taken if it is still there", .max = 40),
    { 0 },
};
static const struct field task_fields[] = {
    FIELD(STRS, struct origin_ask, setup_commands, "what bash executes before the box is ready, and after a reset",
          .max = LIMIT_SETUP_COMMANDS),
    FIELD(STR, struct origin_ask, test_command, "what knowlyr:run_tests executes", .max = 128 * KiB - 1),
    FIELD(STR, struct origin_ask, language, "of the task: chooses the test command if there is none", .max = 64),
    FIELD(STR, struct origin_ask, work_dir, "where the repository is", .def_str = "/workspace", .max = 255),
    FIELD(NUM, struct origin_ask, timeout, "seconds of a call that does not say its own", .min = 0,
          .max = LIMIT_TIMEOUT_MS / 1000),
    FIELD(PAIRS, struct origin_ask, env, "variables of all programs; they are recorded, so no place for secrets",
          .max = LIMIT_ENV),
    { 0 },
};

bool origin_is_key(struct str name)
{
    return str_is(name, "repo") || str_is(name, "task");
}

/* --- reading and checking --- */

static bool has_control(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return true;
    return false;
}

static bool begins(struct str s, const char *with)
{
    size_t n = strlen(with);

    return s.n >= n && memcmp(s.p, with, n) == 0;
}

/* The directory of a repository on this machine; absent: it is somewhere else. */
struct str origin_local(struct str url)
{
    if (begins(url, "file://"))
        return (struct str){ url.p + 7, url.n - 7 };
    return url.n && url.p[0] == '/' ? url : (struct str){ 0 };
}

/* Without the name and the secret of https://NAME:SECRET@HOST/: what the agent, the log and the API may see. The name
 * of ssh://git@HOST and git@HOST:PATH is no secret, and needed. */
struct str origin_shown(struct arena *a, struct str url)
{
    const char *colon = memmem(url.p, url.n, "://", 3);
    const char *host = colon ? colon + 3 : NULL, *end = url.p + url.n, *at = NULL;

    if (!host || begins(url, "ssh://"))
        return url;
    for (const char *p = host; p < end && *p != '/'; p++)
        if (*p == '@')
            at = p;
    if (!at)
        return url;
    return str_of(arena_printf(a, "%.*s%.*s", (int)(host - url.p), url.p, (int)(end - at - 1), at + 1));
}

static int check_url(struct str url, struct err *e)
{
    static const char *const known[] = { "https://", "http://", "git://", "ssh://", "file:///", "/" };
    const char *colon = memchr(url.p, ':', url.n), *slash = memchr(url.p, '/', url.n);

    if (!url.n || has_control(url) || url.p[0] == '-')
        return err_set(e, ERR_INVALID, "repo.url: is empty, begins with '-' or contains control characters");
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (begins(url, known[i]))
            return 0;
    bool scp = colon && (!slash || colon < slash) && !(colon + 1 < url.p + url.n && colon[1] == ':') &&
               !memmem(url.p, url.n, "://", 3);
    if (scp) /* git@host:path */
        return 0;
    return err_set(e, ERR_INVALID, "repo.url: '%.*s' is none of https://, http://, git://, ssh://, file:///, HOST:PATH",
                   STR_ARG(url));
}

static int check_repo(struct arena *a, const struct json *repo, struct origin_ask *o, struct err *e)
{
    if (repo->type != JSON_OBJ)
        return err_set(e, ERR_TYPE, "repo: expected object with url and commit, got %s", json_type_name(repo->type));
    int r = field_bind(repo_fields, repo, a, &o->at, NULL, e);
    if (r < 0)
        return err_wrap(e, r, "repo");
    if (!o->at.commit.n || has_control(o->at.commit) || o->at.commit.p[0] == '-')
        return err_set(e, ERR_INVALID, "repo.commit: is empty, begins with '-' or contains control characters");
    return check_url(o->at.url, e);
}

static int check_work_dir(struct str dir, struct err *e)
{
    static const char *const ours[] = { "/proc", "/sys", "/dev", "/run", "/usr", "/etc", "/tmp/.sandglass" };

    if (!dir.n || dir.p[0] != '/' || dir.n == 1 || has_control(dir) || memmem(dir.p, dir.n, "/..", 3))
        return err_set(e, ERR_INVALID, "task.work_dir: '%.*s' is not an absolute path without ..", STR_ARG(dir));
    for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
        size_t n = strlen(ours[i]);
        if (begins(dir, ours[i]) && (dir.n == n || dir.p[n] == '/'))
            return err_set(e, ERR_INVALID, "task.work_dir: '%.*s' lies in %s", STR_ARG(dir), ours[i]);
    }
    return 0;
}

static int check_env(const struct pairs *env, struct err *e)
{
    for (size_t i = 0; i < env->n; i++) {
        struct str name = env->v[i].name, value = env->v[i].value;
        bool ok = name.n > 0 && !(name.p[0] >= '0' && name.p[0] <= '9');
        for (size_t k = 0; ok && k < name.n; k++)
            ok = name.p[k] == '_' || (name.p[k] >= '0' && name.p[k] <= '9') || (name.p[k] >= 'A' && name.p[k] <= 'Z') ||
                 (name.p[k] >= 'a' && name.p[k] <= 'z');
        if (!ok || value.n > 64 * KiB || (value.n && memchr(value.p, 0, value.n)))
            return err_set(e, ERR_INVALID,
                           "task.env: '%.*s' is not a name, or its value has a NUL or exceeds 65536 bytes",
                           STR_ARG(name));
    }
    return 0;
}

int origin_read(struct arena *a, const struct json *config, struct origin_ask *ret, struct err *e)
{
    const struct json *repo = json_get(config, "repo"), *task = json_get(config, "task");

    *ret = (struct origin_ask){ 0 };
    if (task && task->type == JSON_NULL)
        task = NULL;
    if (task && task->type != JSON_OBJ)
        return err_set(e, ERR_TYPE, "task: expected object, got %s", json_type_name(task->type));
    int r = field_bind(task_fields, task, a, ret, NULL, e);
    if (r < 0)
        return err_wrap(e, r, "task");
    if (repo && repo->type != JSON_NULL)
        r = check_repo(a, repo, ret, e);
    if (r >= 0)
        r = check_work_dir(ret->work_dir, e);
    if (r >= 0)
        r = check_env(&ret->env, e);
    for (size_t i = 0; r >= 0 && i < ret->setup_commands.n; i++) {
        struct str c = ret->setup_commands.v[i];
        if (!c.n || c.n >= 128 * KiB || memchr(c.p, 0, c.n))
            r = err_set(e, ERR_INVALID, "task.setup_commands[%zu]: is empty, has a NUL byte, or exceeds 131071 bytes",
                        i);
    }
    return r;
}

int origin_check(const struct json *config, struct box_ask *ask, struct err *e)
{
    struct arena a = { 0 };
    struct origin_ask o;
    bool any = false;

    for (const struct json *k = config->first; k; k = k->next)
        any |= origin_is_key(k->name) && k->type != JSON_NULL;
    if (!any)
        return 0;
    int r = origin_read(&a, config, &o, e);
    arena_done(&a);
    ask->origin_of = r < 0 ? NULL : config;
    return r;
}

bool origin_has_secret(const struct json *config)
{
    struct arena a = { 0 };
    struct str url = json_get_str(json_get(config, "repo"), "url");
    bool has = url.n && !str_eq(origin_shown(&a, url), url);

    arena_done(&a);
    return has;
}

int origin_fits(const struct box *b, const struct json *key, struct err *e)
{
    struct arena a = { 0 };
    struct json *have = NULL;
    bool same = false;

    if (b->origin.n && json_parse(&a, b->origin, &have, e) == 0 && str_is(key->name, "repo")) {
        const struct json *repo = json_get(have, "repo");
        same = str_eq(json_get_str(repo, "url"), origin_shown(&a, json_get_str(key, "url"))) &&
               str_eq(json_get_str(repo, "commit"), json_get_str(key, "commit"));
    } else if (have) {
        same = true;
        for (const struct json *k = key->first; k; k = k->next) {
            const struct json *value = json_get(have, arena_z(&a, k->name));
            same &= value && (value->type == JSON_STR   ? str_eq(value->s, k->s)
                              : value->type == JSON_NUM ? value->num == k->num
                                                        : str_eq(value->raw, k->raw));
        }
    }
    arena_done(&a);
    if (same)
        return 0;
    return err_set(e, ERR_INVALID,
                   "%.*s: the worker already has a box, which was not made with it; leave it out, or ask with \"box\": "
                   "\"own\" for a separate box",
                   STR_ARG(key->name));
}

/* --- what became of it --- */

void origin_take(struct box *b, struct str text)
{
    struct json *o = NULL;
    struct err e;

    b->origin = arena_copy(&b->arena, text);
    if (!text.n || json_parse(&b->arena, b->origin, &o, &e) < 0)
        return;
    const struct json *timeout = json_get(o, "timeout");
    b->work_dir = json_get_str(o, "work_dir");
    b->test_command = json_get_str(o, "test_command");
    b->call_timeout_ms = timeout && timeout->type == JSON_NUM ? (int64_t)(timeout->num * 1000) : 0;
    const struct json *env = json_get(o, "env");
    b->env = (struct pairs){ env ? arena_alloc(&b->arena, (env->count + 1) * sizeof *b->env.v) : NULL, 0 };
    for (const struct json *v = env ? env->first : NULL; v; v = v->next)
        b->env.v[b->env.n++] = (struct pair){ v->name, v->s };
    struct str base = json_get_str(o, "state");
    snprintf(b->base_state, sizeof b->base_state, "%.*s", STR_ARG(base));
}

bool origin_has_state(const struct box *b)
{
    return b->base_state[0];
}

static void add_quoted(struct buf *o, struct str s)
{
    buf_char(o, '\'');
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\'')
            buf_z(o, "'\\''");
        else
            buf_char(o, s.p[i]);
    }
    buf_z(o, "'\n");
}

struct str origin_shell(struct box *b)
{
    struct buf o;

    if (!b->work_dir.n && !b->env.n)
        return (struct str){ 0 };
    buf_init(&o, LIMIT_COMMAND);
    for (size_t i = 0; i < b->env.n; i++) {
        buf_printf(&o, "export %.*s=", STR_ARG(b->env.v[i].name));
        add_quoted(&o, b->env.v[i].value);
    }
    if (b->work_dir.n) {
        buf_z(&o, "cd -- ");
        add_quoted(&o, b->work_dir);
    }
    struct str text = arena_copy(&b->arena, buf_view(&o));
    buf_done(&o);
    return text;
}

static void fill_env(const struct box *b, struct arena *a, struct pairs *env)
{
    struct pairs all = { arena_alloc(a, (b->env.n + env->n + 1) * sizeof *all.v), 0 };

    for (size_t i = 0; i < b->env.n; i++) {
        bool given = false;
        for (size_t k = 0; k < env->n && !given; k++)
            given = str_eq(env->v[k].name, b->env.v[i].name);
        if (!given)
            all.v[all.n++] = b->env.v[i];
    }
    for (size_t k = 0; k < env->n; k++)
        all.v[all.n++] = env->v[k];
    *env = all;
}

void origin_fill(const struct box *b, const struct tool *t, struct arena *a, void *params)
{
    for (const struct field *f = t->params; f->name && b->origin.n; f++) {
        struct str *value = (struct str *)((char *)params + f->offset);
        /* a shell has its variables already, and may have changed them */
        if (f->type == FIELD_PAIRS && b->env.n && strcmp(f->name, "env") == 0 && strcmp(t->name, "bash:run") != 0)
            fill_env(b, a, (struct pairs *)((char *)params + f->offset));
        if (f->type != FIELD_STR)
            continue;
        if (strcmp(f->name, "test_command") == 0 && !value->n)
            *value = b->test_command;
        if (strcmp(f->name, "work_dir") != 0 || !b->work_dir.n)
            continue;
        if (!value->n)
            *value = b->work_dir;
        else if (value->p[0] != '/' && value->p[0] != '~')
            *value = str_of(arena_printf(a, "%.*s/%.*s", STR_ARG(b->work_dir), STR_ARG(*value)));
    }
}
