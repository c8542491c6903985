#include "access/key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/map.h"

enum { ID_DIGITS = 12, SECRET_DIGITS = 40 };

struct key_store {
    char *home, *path;
    ino_t ino;
    off_t read; /* whole lines up to here */
    struct api_key **v;
    size_t count, live;
    struct map by_id;
};

static const struct {
    const char *name;
    unsigned bit;
} scopes[] = { { "read", MAY_READ }, { "execute", MAY_EXECUTE }, { "manage", MAY_MANAGE }, { "admin", MAY_ADMIN } };

unsigned scopes_read(struct str list)
{
    unsigned bits = 0;

    while (list.n) {
        const char *comma = memchr(list.p, ',', list.n);
        struct str word = { list.p, comma ? (size_t)(comma - list.p) : list.n };
        unsigned found = 0;
        for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
            if (str_is(word, scopes[i].name))
                found = scopes[i].bit;
        if (!found)
            return 0;
        bits |= found;
        list.p += word.n + (comma != NULL);
        list.n -= word.n + (comma != NULL);
    }
    return bits;
}

struct key_store *key_store_new(const char *home)
{
    struct key_store *s = calloc(1, sizeof *s);

    if (!s || !(s->home = strdup(home)) || asprintf(&s->path, "%s/keys", home) < 0)
        abort();
    return s;
}

static void forget(struct key_store *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->v[i]);
    free(s->v);
    map_done(&s->by_id);
    s->by_id = (struct map){ 0 };
    s->v = NULL;
    s->count = s->live = 0;
    s->read = 0;
}

void key_store_free(struct key_store *s)
{
    if (!s)
        return;
    forget(s);
    free(s->path);
    free(s->home);
    free(s);
}

/* --- reading --- */

static bool unhex(struct str text, unsigned char *out, size_t n)
{
    if (text.n != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned v;
        char pair[3] = { text.p[2 * i], text.p[2 * i + 1], 0 };
        if (strspn(pair, "0123456789abcdef") != 2 || sscanf(pair, "%2x", &v) != 1)
            return false;
        out[i] = (unsigned char)v;
    }
    return true;
}

static void put_text(char *out, size_t size, struct str s)
{
    snprintf(out, size, "%.*s", STR_ARG(s));
}

static struct api_key *keep(struct key_store *s, const struct api_key *k)
{
    struct api_key *copy = malloc(sizeof *copy);
    struct api_key **v = realloc(s->v, (s->count + 1) * sizeof *v);

    if (!copy || !v)
        abort();
    *copy = *k;
    s->v = v;
    v[s->count++] = copy;
    map_put(&s->by_id, str_of(copy->id), copy);
    s->live += !k->revoked;
    return copy;
}

static void take_line(struct key_store *s, struct str line)
{
    struct arena a = { 0 };
    struct json *j;
    struct err e;
    struct api_key k = { 0 };

    if (line.n && json_parse(&a, line, &j, &e) == 0 && j->type == JSON_OBJ) {
        struct str gone = json_get_str(j, "revoke"), id = json_get_str(j, "key"), role = json_get_str(j, "role");
        struct api_key *old = map_get(&s->by_id, gone.p ? gone : id);
        if (gone.p && old && !old->revoked) {
            old->revoked = true;
            s->live--;
        }
        put_text(k.id, sizeof k.id, id);
        put_text(k.name, sizeof k.name, json_get_str(j, "name"));
        put_text(k.tenant, sizeof k.tenant, json_get_str(j, "tenant"));
        put_text(k.box, sizeof k.box, json_get_str(j, "box"));
        k.role = role.p ? role_find(role.p, role.n) : ROLE_NONE;
        k.may = (unsigned)json_get_int(j, "may", 0) & role_may(k.role);
        k.created_us = json_get_int(j, "created", 0);
        k.expires_us = json_get_int(j, "expires", 0);
        if (!gone.p && !old && id.n && k.role != ROLE_NONE && s->count < LIMIT_API_KEYS &&
            unhex(json_get_str(j, "hash"), k.hash, sizeof k.hash))
            keep(s, &k);
    }
    arena_done(&a);
}

int key_store_refresh(struct key_store *s, struct err *e)
{
    struct stat st;

    if (stat(s->path, &st) < 0) {
        if (errno != ENOENT)
            return err_sys(e, "keys: %s", s->path);
        forget(s);
        return 0;
    }
    if (st.st_ino != s->ino || st.st_size < s->read)
        forget(s);
    s->ino = st.st_ino;
    if (st.st_size == s->read)
        return 0;
    auto_close int fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "keys: %s", s->path);
    size_t n = (size_t)(st.st_size - s->read);
    auto_free char *text = malloc(n + 1);
    if (!text)
        abort();
    ssize_t got = pread(fd, text, n, s->read);
    if (got < 0)
        return err_sys(e, "keys: read %s", s->path);
    size_t at = 0;
    for (char *nl; (nl = memchr(text + at, '\n', (size_t)got - at)); at = (size_t)(nl - text) + 1)
        take_line(s, (struct str){ text + at, (size_t)(nl - text) - at });
    s->read += (off_t)at;
    return 0;
}

size_t key_store_count(const struct key_store *s)
{
    return s->live;
}

const struct api_key *key_store_next(const struct key_store *s, size_t *i)
{
    return *i < s->count ? s->v[(*i)++] : NULL;
}

const struct api_key *key_store_find(const struct key_store *s, struct str id)
{
    return map_get(&s->by_id, id);
}

/* --- checking --- */

bool api_key_looks_like(struct str text)
{
    return text.n > 3 && memcmp(text.p, "sg_", 3) == 0;
}

const struct api_key *key_store_check(const struct key_store *s, struct str text, int64_t wall, struct err *e)
{
    unsigned char sum[32];
    char id[ID_DIGITS + 3] = "k-";

    if (!api_key_looks_like(text) || text.n != 3 + ID_DIGITS + 1 + SECRET_DIGITS || text.p[3 + ID_DIGITS] != '_') {
        err_set(e, ERR_DENIED, "this is not an API key of this server");
        return NULL;
    }
    memcpy(id + 2, text.p + 3, ID_DIGITS);
    const struct api_key *k = map_get(&s->by_id, str_of(id));
    static const unsigned char nobody[32];
    SHA256((const unsigned char *)text.p, text.n, sum);
    bool same = CRYPTO_memcmp(sum, k ? k->hash : nobody, sizeof sum) == 0;
    if (!k || !same) {
        err_set(e, ERR_DENIED, "this is not an API key of this server");
        return NULL;
    }
    if (k->revoked || (k->expires_us && k->expires_us <= wall)) {
        err_set(e, ERR_DENIED, "the API key %s %s", k->id, k->revoked ? "was revoked" : "has expired");
        return NULL;
    }
    return k;
}

/* --- writing --- */

static int append(struct key_store *s, struct buf *line, bool sync, struct err *e)
{
    struct stat home, st;
    auto_close int fd = open(s->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    char last = '\n';

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "keys: open %s", s->path);
    if (st.st_size == 0 && geteuid() == 0 && stat(s->home, &home) == 0)
        (void)!fchown(fd, home.st_uid, home.st_gid); /* the home is serve's, so this is, too */
    if (st.st_size && pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n') { /* a line that was cut short */
        char *p = buf_room(line, 1);
        if (!p)
            abort();
        memmove(line->p + 1, line->p, line->n);
        line->p[0] = '\n';
        buf_grew(line, 1);
    }
    ssize_t n = write(fd, line->p, line->n);
    if (n != (ssize_t)line->n)
        return n < 0 ? err_sys(e, "keys: write %s", s->path)
                     : err_set(e, ERR_SYSTEM, "keys: %s could not be written whole: is the disk full?", s->path);
    if (sync ? fdatasync(fd) < 0 : sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) < 0 && errno != EINVAL)
        return err_sys(e, "keys: sync %s", s->path);
    return key_store_refresh(s, e);
}

static void hex(const unsigned char *bytes, size_t digits, char *out)
{
    static const char d[] = "0123456789abcdef";

    for (size_t i = 0; i < digits; i++)
        out[i] = d[i & 1 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4];
    out[digits] = 0;
}

int key_store_add(struct key_store *s, const struct api_key *ask, bool sync, char ret_text[API_KEY_TEXT],
                  const struct api_key **ret, struct err *e)
{
    unsigned char random[(ID_DIGITS + SECRET_DIGITS) / 2], sum[32];
    char id[ID_DIGITS + 3] = "k-", secret[SECRET_DIGITS + 1], sum_hex[65];
    struct buf line;
    struct jw w = { .out = &line };

    if (s->count >= LIMIT_API_KEYS)
        return err_set(e, ERR_LIMIT, "keys: there are LIMIT_API_KEYS (%d) already", LIMIT_API_KEYS);
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        abort();
    hex(random, ID_DIGITS, id + 2);
    hex(random + ID_DIGITS / 2, SECRET_DIGITS, secret);
    int n = snprintf(ret_text, API_KEY_TEXT, "sg_%s_%s", id + 2, secret);
    SHA256((unsigned char *)ret_text, (size_t)n, sum);
    hex(sum, 64, sum_hex);
    buf_init(&line, 4096);
    jw_obj(&w);
    jw_kz(&w, "key", id);
    jw_kz(&w, "hash", sum_hex);
    jw_kz(&w, "name", ask->name);
    jw_kz(&w, "tenant", ask->tenant);
    jw_kz(&w, "role", role_name(ask->role));
    jw_kint(&w, "may", ask->may ? ask->may & role_may(ask->role) : role_may(ask->role));
    jw_kz(&w, "box", ask->box);
    jw_kint(&w, "created", wall_us());
    jw_kint(&w, "expires", ask->expires_us);
    jw_obj_end(&w);
    buf_char(&line, '\n');
    int r = append(s, &line, sync, e);
    buf_done(&line);
    OPENSSL_cleanse(random, sizeof random);
    OPENSSL_cleanse(secret, sizeof secret);
    if (r < 0)
        return r;
    *ret = key_store_find(s, str_of(id));
    return *ret ? 0 : err_set(e, ERR_SYSTEM, "keys: the new key cannot be read back");
}

int key_store_revoke(struct key_store *s, struct str id, bool sync, struct err *e)
{
    const struct api_key *k = key_store_find(s, id);
    struct buf line;
    struct jw w = { .out = &line };

    if (!k)
        return err_set(e, ERR_NOT_FOUND, "no key '%.*s'", (int)(id.n < 40 ? id.n : 40), id.p);
    if (k->revoked)
        return 0;
    buf_init(&line, 4096);
    jw_obj(&w);
    jw_kz(&w, "revoke", k->id);
    jw_kint(&w, "time", wall_us());
    jw_obj_end(&w);
    buf_char(&line, '\n');
    int r = append(s, &line, sync, e);
    buf_done(&line);
    return r;
}

static void print_time(struct jw *w, const char *name, int64_t us)
{
    time_t t = us / 1000000;
    struct tm tm;
    char text[32];

    gmtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    jw_kz(w, name, us ? text : NULL);
}

void api_key_print(const struct api_key *k, struct jw *w)
{
    jw_kz(w, "id", k->id);
    jw_kz(w, "name", k->name);
    jw_kz(w, "tenant", k->tenant[0] ? k->tenant : "default");
    jw_kz(w, "role", role_name(k->role));
    jw_key(w, "scopes");
    jw_arr(w);
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
        if (k->may & scopes[i].bit)
            jw_z(w, scopes[i].name);
    jw_arr_end(w);
    jw_kz(w, "box", k->box[0] ? k->box : NULL);
    print_time(w, "created", k->created_us);
    print_time(w, "expires", k->expires_us);
    jw_kbool(w, "expired", k->expires_us && k->expires_us <= wall_us());
    jw_kbool(w, "revoked", k->revoked);
}
