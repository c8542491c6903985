#include "session/profile.h"

#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/field.h"
#include "base/loop.h"
#include "wire/boot.h"

struct wish {
    struct str hostname, locale, timezone, start_time;
    int64_t hash_seed, cpus;
    bool aslr;
};
static const struct field fields[] = {
    FIELD(STR, struct wish, hostname, "its name", .def_str = "sandglass", .max = 63),
    FIELD(STR, struct wish, locale, "LC_ALL", .def_str = "C.UTF-8", .max = 31),
    FIELD(STR, struct wish, timezone, "TZ", .def_str = "UTC", .max = 47),
    FIELD(INT, struct wish, hash_seed, "PYTHONHASHSEED", .def = 0, .min = 0, .max = 4294967295.0),
    FIELD(INT, struct wish, cpus, "how many processors it sees; 0: all", .def = 1, .min = 0, .max = 1024),
    FIELD(BOOL, struct wish, aslr, "addresses differ from run to run"),
    FIELD(STR, struct wish, start_time, "the wall clock begins here: 2026-01-02T03:04:05Z", .max = 32),
    { 0 },
};

static bool is_name(struct str s, const char *more)
{
    for (size_t i = 0; i < s.n; i++)
        if (!s.p[i] || (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-", s.p[i]) &&
                        !strchr(more, s.p[i])))
            return false;
    return s.n > 0;
}

/* The library must be where the box's programs look for it. */
static int check_library(const char *image, struct err *e)
{
    static const char *const places[] = { BOX_FAKETIME };
    char path[512];

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(path, sizeof path, "%s%s", strcmp(image, "host") == 0 ? "" : image, places[i]);
        if (access(path, R_OK) == 0)
            return 0;
    }
    return err_set(e, ERR_INVALID,
                   "determinism.start_time: needs libfaketime in the image, which is not there (Debian's package "
                   "libfaketime)");
}

static int bind_start(struct str text, const char *image, struct box_profile *p, struct err *e)
{
    char z[40] = "";
    struct tm tm = { 0 };

    if (!text.n)
        return 0;
    memcpy(z, text.p, text.n < sizeof z ? text.n : sizeof z - 1);
    const char *rest = strptime(z, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest || (*rest && strcmp(rest, "Z") != 0))
        return err_set(e, ERR_INVALID, "determinism.start_time: '%s' is not a time such as 2026-01-02T03:04:05Z", z);
    p->start_us = (int64_t)timegm(&tm) * 1000000;
    if (p->start_us <= 0)
        return err_set(e, ERR_LIMIT, "determinism.start_time: must be after 1970");
    p->offset_us = p->start_us - wall_us();
    return check_library(image, e);
}

int profile_bind(const struct json *v, const char *image, struct box_profile *ret, struct err *e)
{
    struct box_profile p = { .on = true };
    struct arena a = { 0 };
    struct wish w;

    *ret = (struct box_profile){ 0 };
    if (v->type == JSON_BOOL && !v->b)
        return 0;
    if (v->type != JSON_BOOL && v->type != JSON_OBJ)
        return err_set(e, ERR_TYPE, "determinism: expected true or an object, got %s", json_type_name(v->type));
    int r = field_bind(fields, v->type == JSON_OBJ ? v : NULL, &a, &w, NULL, e);
    if (r < 0)
        r = err_wrap(e, r, "determinism");
    else if (!is_name(w.hostname, ".") || !is_name(w.locale, "._@") || !is_name(w.timezone, "/_+"))
        r = err_set(e, ERR_INVALID, "determinism: hostname, locale and timezone are names without blanks");
    if (r >= 0) {
        snprintf(p.hostname, sizeof p.hostname, "%.*s", STR_ARG(w.hostname));
        snprintf(p.locale, sizeof p.locale, "%.*s", STR_ARG(w.locale));
        snprintf(p.timezone, sizeof p.timezone, "%.*s", STR_ARG(w.timezone));
        snprintf(p.hash_seed, sizeof p.hash_seed, "%lld", (long long)w.hash_seed);
        p.cpus = (uint32_t)w.cpus;
        p.aslr = w.aslr;
        r = bind_start(w.start_time, image, &p, e);
    }
    arena_done(&a);
    if (r >= 0)
        memcpy(ret, &p, sizeof p);
    return r;
}

void profile_print(const struct box_profile *p, bool offset, struct jw *w)
{
    char text[40];
    time_t start = (time_t)(p->start_us / 1000000);
    struct tm tm;

    if (!p->on)
        return;
    jw_key(w, "determinism");
    jw_obj(w);
    jw_kz(w, "hostname", p->hostname);
    jw_kz(w, "locale", p->locale);
    jw_kz(w, "timezone", p->timezone);
    jw_kraw(w, "hash_seed", str_of(p->hash_seed));
    jw_kint(w, "cpus", p->cpus);
    jw_kbool(w, "aslr", p->aslr);
    if (p->start_us) {
        gmtime_r(&start, &tm);
        strftime(text, sizeof text, "%FT%TZ", &tm);
        jw_kz(w, "start_time", text);
    }
    if (offset)
        jw_kint(w, "offset_us", p->offset_us);
    jw_obj_end(w);
}

void profile_read(const struct json *v, struct box_profile *ret)
{
    struct box_profile p = { .on = true };
    struct str host = json_get_str(v, "hostname"), locale = json_get_str(v, "locale"),
               zone = json_get_str(v, "timezone"), start = json_get_str(v, "start_time");
    struct err e;

    if (!v || v->type != JSON_OBJ)
        return;
    snprintf(p.hostname, sizeof p.hostname, "%.*s", STR_ARG(host));
    snprintf(p.locale, sizeof p.locale, "%.*s", STR_ARG(locale));
    snprintf(p.timezone, sizeof p.timezone, "%.*s", STR_ARG(zone));
    snprintf(p.hash_seed, sizeof p.hash_seed, "%lld", (long long)json_get_int(v, "hash_seed", 0));
    p.cpus = (uint32_t)json_get_int(v, "cpus", 0);
    p.aslr = json_get_bool(v, "aslr", false);
    (void)bind_start(start, "host", &p, &e);
    p.offset_us = json_get_int(v, "offset_us", 0);
    memcpy(ret, &p, sizeof p);
}
