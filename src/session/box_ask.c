/* What a client may ask of a box, read from JSON: in the own API's body and in a session's config. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "session/origin.h"
#include "session/profile.h"

static const char *const keys[] = { "image",        "memory",
                                    "disk",         "shm",
                                    "cpu",          "pids",
                                    "open_files",   "network",
                                    "sudo",         "user_namespaces",
                                    "mounts",       "ttl",
                                    "labels",       "allow_unenforced",
                                    "cold",         "box",
                                    "state",        "determinism",
                                    "secrets",      "display",
                                    "memory_limit", "cpu_limit" }; /* AgentFlow's words for memory and cpu */

bool box_is_ask_key(struct str name)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (str_is(name, keys[i]))
            return true;
    return origin_is_key(name);
}

/* As a setting has it: 16m. */
static const char *print_size(char text[24], int64_t bytes)
{
    int unit = 0;

    for (; bytes > 0 && bytes % 1024 == 0 && unit < 4; unit++)
        bytes /= 1024;
    snprintf(text, 24, "%lld%.1s", (long long)bytes, &"\0kmgt"[unit]);
    return text;
}

/* 536870912, "512m", "1.5g" */
static int bind_size(const struct json *j, const char *name, int64_t min, int64_t max, int64_t *ret, struct err *e)
{
    double v = 0;
    char from[24], to[24];

    if (j->type == JSON_NUM) {
        v = j->num;
    } else if (j->type == JSON_STR && j->s.n > 0 && j->s.n < 32) {
        char text[32], *end;
        memcpy(text, j->s.p, j->s.n);
        text[j->s.n] = 0;
        v = strtod(text, &end);
        int unit = tolower((unsigned char)*end);
        double factor = unit == 'k'   ? 1024
                        : unit == 'm' ? 1048576
                        : unit == 'g' ? 1073741824
                        : unit == 't' ? 1099511627776
                        : unit == 0   ? 1
                                      : 0;
        if (factor != 1 && *end)
            end++;
        if (tolower((unsigned char)*end) == 'i') /* 512Mi, 512MiB */
            end++;
        if (tolower((unsigned char)*end) == 'b')
            end++;
        if (end == text || factor == 0 || *end)
            return err_set(e, ERR_INVALID, "%s: '%s' is not a size such as 536870912 or \"512m\"", name, text);
        v *= factor;
    } else {
        return err_set(e, ERR_TYPE, "%s: expected a size (bytes, or a string such as \"512m\"), got %s", name,
                       json_type_name(j->type));
    }
    if (!(v >= (double)min && v <= (double)max))
        return err_set(e, ERR_LIMIT, "%s: %.0f bytes is outside %s to %s", name, v, print_size(from, min),
                       print_size(to, max));
    *ret = (int64_t)v;
    return 0;
}

static int bind_number(const struct json *j, const char *name, double min, double max, double *ret, struct err *e)
{
    if (j->type != JSON_NUM)
        return err_set(e, ERR_TYPE, "%s: expected number, got %s", name, json_type_name(j->type));
    if (!(j->num >= min && j->num <= max))
        return err_set(e, ERR_LIMIT, "%s: %.10g is outside %.10g to %.10g", name, j->num, min, max);
    *ret = j->num;
    return 0;
}

static int bind_bool(const struct json *j, const char *name, bool *ret, struct err *e)
{
    if (j->type != JSON_BOOL)
        return err_set(e, ERR_TYPE, "%s: expected boolean, got %s", name, json_type_name(j->type));
    *ret = j->b;
    return 0;
}

static int bind_text(const struct json *j, const char *name, char *ret, size_t size, struct err *e)
{
    if (j->type != JSON_STR)
        return err_set(e, ERR_TYPE, "%s: expected string, got %s", name, json_type_name(j->type));
    if (j->s.n >= size || memchr(j->s.p, 0, j->s.n))
        return err_set(e, ERR_LIMIT, "%s: %zu bytes (max %zu, without NUL)", name, j->s.n, size - 1);
    memcpy(ret, j->s.p, j->s.n);
    ret[j->s.n] = 0;
    return 0;
}

static int bind_mounts(const struct json *j, struct box_spec *spec, struct err *e)
{
    char name[64];

    if (j->type != JSON_ARR)
        return err_set(e, ERR_TYPE, "mounts: expected array, got %s", json_type_name(j->type));
    if (j->count > LIMIT_MOUNTS)
        return err_set(e, ERR_LIMIT, "mounts: %zu entries exceed LIMIT_MOUNTS (%d)", j->count, LIMIT_MOUNTS);
    spec->mount_count = 0;
    for (const struct json *m = j->first; m; m = m->next) {
        struct box_mount *to = &spec->mounts[spec->mount_count];
        const struct json *from = json_get(m, "from"), *at = json_get(m, "to"), *rw = json_get(m, "writable");
        int r = 0;

        *to = (struct box_mount){ 0 };
        if (!from || !at)
            return err_set(e, ERR_MISSING, "mounts[%u]: 'from' and 'to' are required", spec->mount_count);
        for (const struct json *k = m->first; k; k = k->next)
            if (!str_is(k->name, "from") && !str_is(k->name, "to") && !str_is(k->name, "writable"))
                return err_set(e, ERR_INVALID, "mounts[%u].%.*s: unknown key (known: from, to, writable)",
                               spec->mount_count, STR_ARG(k->name));
        snprintf(name, sizeof name, "mounts[%u].from", spec->mount_count);
        r = bind_text(from, name, to->from, sizeof to->from, e);
        snprintf(name, sizeof name, "mounts[%u].to", spec->mount_count);
        r = r < 0 ? r : bind_text(at, name, to->to, sizeof to->to, e);
        snprintf(name, sizeof name, "mounts[%u].writable", spec->mount_count);
        r = r < 0 || !rw ? r : bind_bool(rw, name, &to->writable, e);
        if (r < 0)
            return r;
        spec->mount_count++;
    }
    return 0;
}

static int bind_labels(const struct json *j, struct box_ask *ask, struct err *e)
{
    if (j->type != JSON_OBJ)
        return err_set(e, ERR_TYPE, "labels: expected object, got %s", json_type_name(j->type));
    if (j->count > LIMIT_LABELS)
        return err_set(e, ERR_LIMIT, "labels: %zu entries exceed LIMIT_LABELS (%d)", j->count, LIMIT_LABELS);
    for (const struct json *l = j->first; l; l = l->next) {
        if (l->type != JSON_STR)
            return err_set(e, ERR_TYPE, "labels.%.*s: expected string, got %s", STR_ARG(l->name),
                           json_type_name(l->type));
        if (l->s.n > LIMIT_LABEL || l->name.n > LIMIT_LABEL)
            return err_set(e, ERR_LIMIT, "labels: a name or value exceeds LIMIT_LABEL (%d bytes)", LIMIT_LABEL);
    }
    ask->labels = j->raw;
    return 0;
}

static int bind_network(const struct json *j, struct box_spec *spec, struct err *e)
{
    char text[16];
    int r = bind_text(j, "network", text, sizeof text, e);

    if (r < 0)
        return r;
    if (strcmp(text, "none") != 0 && strcmp(text, "full") != 0)
        return err_set(e, ERR_INVALID, "network: '%s' is neither none nor full", text);
    spec->network = text[0] == 'f' ? BOX_NETWORK_FULL : BOX_NETWORK_NONE;
    return 0;
}

static bool is_variable(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!(isalpha((unsigned char)s.p[i]) || s.p[i] == '_' || (i && isdigit((unsigned char)s.p[i]))))
            return false;
    return s.n > 0 && s.n < 128;
}

/* {"VARIABLE": "name of a secret"} */
static int bind_secrets(const struct json *v, struct str *ret, struct err *e)
{
    if (v->type == JSON_NULL)
        return 0;
    if (v->type != JSON_OBJ)
        return err_set(e, ERR_TYPE, "secrets: expected an object of variables and names of secrets, got %s",
                       json_type_name(v->type));
    if (v->count > LIMIT_LABELS)
        return err_set(e, ERR_LIMIT, "secrets: %zu exceed LIMIT_LABELS (%d)", v->count, LIMIT_LABELS);
    for (const struct json *m = v->first; m; m = m->next)
        if (!is_variable(m->name) || m->type != JSON_STR || !secret_name_ok(m->s))
            return err_set(e, ERR_INVALID, "secrets: '%.*s' must be a variable's name, and its value a secret's",
                           (int)(m->name.n < 60 ? m->name.n : 60), m->name.p);
    *ret = v->raw;
    return 0;
}

static int bind_key(const struct json *k, struct box_ask *ask, struct err *e)
{
    struct box_spec *s = &ask->spec;
    double d = 0;
    int r = 0;

    if (k->type == JSON_NULL)
        return 0;
    if (str_is(k->name, "image"))
        return bind_text(k, "image", s->image, sizeof s->image, e);
    if (str_is(k->name, "memory") || str_is(k->name, "memory_limit"))
        return bind_size(k, "memory", FLOOR_BOX_MEMORY, LIMIT_BOX_MEMORY, &s->memory_bytes, e);
    if (str_is(k->name, "disk"))
        return bind_size(k, "disk", FLOOR_BOX_DISK, LIMIT_BOX_DISK, &s->disk_bytes, e);
    if (str_is(k->name, "shm"))
        return bind_size(k, "shm", FLOOR_BOX_SHM, LIMIT_BOX_SHM, &s->shm_bytes, e);
    if (str_is(k->name, "cpu") || str_is(k->name, "cpu_limit")) {
        r = bind_number(k, "cpu", FLOOR_BOX_CPU_MILLI / 1000.0, LIMIT_BOX_CPU_MILLI / 1000.0, &d, e);
        s->cpu_milli = r < 0 ? s->cpu_milli : (int64_t)llround(d * 1000);
        return r;
    }
    if (str_is(k->name, "pids")) {
        r = bind_number(k, "pids", FLOOR_BOX_PIDS, LIMIT_BOX_PIDS, &d, e);
        s->pids = r < 0 ? s->pids : (int64_t)d;
        return r;
    }
    if (str_is(k->name, "open_files")) {
        r = bind_number(k, "open_files", FLOOR_BOX_OPEN_FILES, LIMIT_BOX_OPEN_FILES, &d, e);
        s->open_files = r < 0 ? s->open_files : (int64_t)d;
        return r;
    }
    if (str_is(k->name, "network"))
        return bind_network(k, s, e);
    if (str_is(k->name, "sudo"))
        return bind_bool(k, "sudo", &s->sudo, e);
    if (str_is(k->name, "user_namespaces"))
        return bind_bool(k, "user_namespaces", &s->user_namespaces, e);
    if (str_is(k->name, "cold"))
        return bind_bool(k, "cold", &s->cold, e);
    if (str_is(k->name, "allow_unenforced"))
        return bind_bool(k, "allow_unenforced", &s->allow_unenforced, e);
    if (str_is(k->name, "mounts"))
        return bind_mounts(k, s, e);
    if (str_is(k->name, "ttl")) {
        r = bind_number(k, "ttl", 0, LIMIT_TTL_MS / 1000.0, &d, e);
        ask->ttl_ms = r < 0 ? ask->ttl_ms : (int64_t)(d * 1000);
        return r;
    }
    if (str_is(k->name, "state")) { /* when its files are kept: after every step, or when asked */
        char text[16];
        r = bind_text(k, "state", text, sizeof text, e);
        if (r == 0 && strcmp(text, "step") != 0 && strcmp(text, "manual") != 0)
            r = err_set(e, ERR_INVALID, "state: '%s' is neither step nor manual", text);
        ask->step_states = r == 0 && text[0] == 's';
        return r;
    }
    if (str_is(k->name, "display")) { /* has its browser a window on its desktop? */
        char text[16];
        r = bind_text(k, "display", text, sizeof text, e);
        if (r == 0 && strcmp(text, "headed") != 0 && strcmp(text, "headless") != 0)
            r = err_set(e, ERR_INVALID, "display: '%s' is neither headed nor headless", text);
        ask->headed = r < 0 ? 0 : strcmp(text, "headed") == 0 ? 1 : -1;
        return r;
    }
    if (str_is(k->name, "secrets"))
        return bind_secrets(k, &ask->secrets, e);
    if (str_is(k->name, "determinism"))
        return profile_bind(k, s->image, &s->profile, e);
    if (str_is(k->name, "labels"))
        return bind_labels(k, ask, e);
    return 0;
}

/* Of the worker's box nobody asks: the session's own TTL rules, and how a box is made no longer matters. */
static bool is_for_making(struct str name)
{
    return str_is(name, "box") || str_is(name, "ttl") || str_is(name, "cold") || str_is(name, "allow_unenforced");
}

int box_ask_fits(const struct box *b, const struct json *config, struct err *e)
{
    struct box_ask is = { .step_states = b->step_states, .labels = b->labels.n ? b->labels : STR("{}") };

    for (const struct json *k = config && config->type == JSON_OBJ ? config->first : NULL; k; k = k->next) {
        if (k->type == JSON_NULL || !box_is_ask_key(k->name) || is_for_making(k->name))
            continue;
        if (origin_is_key(k->name)) {
            int fits = origin_fits(b, k, e);
            if (fits < 0)
                return fits;
            continue;
        }
        struct box_ask wish = is;
        memcpy(&wish.spec, &b->spec, sizeof b->spec);
        int r = bind_key(k, &wish, e);
        if (r < 0)
            return r;
        if (memcmp(&wish.spec, &b->spec, sizeof b->spec) != 0 || wish.step_states != is.step_states ||
            !str_eq(wish.labels, is.labels) || (wish.headed && (wish.headed > 0) != box_headed(b)))
            return err_set(
                e, ERR_INVALID,
                "%.*s: the worker already has a box, which the session would share, with another value; leave it "
                "out, or ask with \"box\": \"own\" for a separate box",
                STR_ARG(k->name));
    }
    return 0;
}

int box_ask_bind(const struct node *n, const struct json *config, struct box_ask *ask, struct err *e)
{
    *ask = (struct box_ask){ .spec = n->opts.spec, .ttl_ms = n->opts.box_ttl_ms };
    if (!config || config->type != JSON_OBJ)
        return 0;
    for (const struct json *k = config->first; k; k = k->next) {
        int r = bind_key(k, ask, e);
        if (r < 0)
            return r;
    }
    return origin_check(config, ask, e);
}

/* As it is asked for: at the commit that it became, from the clone that is there already. A fork has its files from a
 * state, and nothing is set up. */
static void print_origin(const struct json *origin, bool fork, struct jw *w)
{
    static const char *const task[] = { "setup_commands", "test_command", "language", "work_dir", "timeout", "env" };
    const struct json *repo = json_get(origin, "repo");
    struct str head = json_get_str(repo, "head"), state = json_get_str(origin, "state");

    if (!fork && json_get_str(repo, "url").n) {
        jw_key(w, "repo");
        jw_obj(w);
        jw_kstr(w, "url", json_get_str(repo, "url"));
        jw_kstr(w, "commit", head.n ? head : json_get_str(repo, "commit"));
        if (state.n)
            jw_kstr(w, "state", state);
        jw_obj_end(w);
    }
    jw_key(w, "task");
    jw_obj(w);
    for (size_t i = fork; i < sizeof task / sizeof *task; i++) {
        const struct json *v = json_get(origin, task[i]);
        if (v && v->type != JSON_NULL)
            jw_kraw(w, task[i], v->raw);
    }
    jw_obj_end(w);
}

void box_settings_print(const struct json *record, struct jw *w)
{
    static const struct {
        const char *recorded, *asked;
    } limits[] = { { "memory_bytes", "memory" }, { "disk_bytes", "disk" },
                   { "shm_bytes", "shm" },       { "cpu", "cpu" },
                   { "pids", "pids" },           { "open_files", "open_files" } };
    const struct json *spec = json_get(record, "spec"), *mounts = json_get(spec, "mounts");

    jw_kstr(w, "image", json_get_str(record, "image"));
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const struct json *v = json_get(spec, limits[i].recorded);
        if (v && v->type == JSON_NUM && v->num > 0)
            jw_kraw(w, limits[i].asked, v->raw);
    }
    jw_kz(w, "network", json_get_int(spec, "network", BOX_NETWORK_NONE) == BOX_NETWORK_FULL ? "full" : "none");
    jw_kbool(w, "sudo", json_get_bool(spec, "sudo", false));
    jw_kbool(w, "user_namespaces", json_get_bool(spec, "user_namespaces", false));
    if (mounts && mounts->count)
        jw_kraw(w, "mounts", mounts->raw);
    jw_kz(w, "state", json_get_bool(record, "step_states", false) ? "step" : "manual");
    if (json_get_str(record, "display").n)
        jw_kstr(w, "display", json_get_str(record, "display"));
    struct box_profile p = { 0 };
    profile_read(json_get(spec, "determinism"), &p);
    profile_print(&p, false, w);
    if (json_get(record, "origin"))
        print_origin(json_get(record, "origin"), json_get_str(record, "began_with").n > 0, w);
}
