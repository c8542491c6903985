#include "access/access.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/jwt.h"
#include "access/ticket.h"
#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"

enum { LOOK_MS = 100, SUM = 32, TOKENS = 3, CACHE = 1024 };

/* Verifying a signature costs more than many a call. A token that was verified is known again by its hash until it
 * expires or the keys change. */
struct verified {
    unsigned char sum[SUM];
    unsigned generation; /* 0: empty */
    int64_t until_us;
    struct who who;
};

struct access {
    struct access_opts opts;
    bool required;
    struct key_store *keys;
    struct ticket_key ticket_key;
    struct jwt_keys *jwt;
    struct jwt_rules rules;
    unsigned generation;
    struct stat jwt_seen;
    int64_t looked_ms;
    struct {
        bool set;
        unsigned char sum[SUM];
        const char *name;
    } tokens[TOKENS];
    struct verified cache[CACHE];
};

static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

bool access_has_credentials(const struct access_opts *o)
{
    return (o->jwt_key && *o->jwt_key) || (o->jwt_file && *o->jwt_file) || (o->token_file && *o->token_file) ||
           variable("BEARER_TOKEN") || variable("SANDBOX_API_KEY");
}

int access_refuse_start(const struct access_opts *o, const char *listen, struct err *e)
{
    struct jwt_keys *jwt = NULL;
    struct err why;
    int r = o->jwt_key && *o->jwt_key ? jwt_keys_read(str_of(o->jwt_key), &jwt, e) : 0;

    jwt_keys_free(jwt);
    if (r < 0)
        return err_wrap(e, r, "JWT_PUBLIC_KEY");
    if (o->loopback || o->mode == ACCESS_OPEN || access_has_credentials(o))
        return 0;
    struct key_store *keys = key_store_new(o->home);
    bool any = key_store_refresh(keys, &why) == 0 && key_store_count(keys) > 0;
    key_store_free(keys);
    if (any)
        return 0;
    return err_set(e, ERR_DENIED,
                   "%.60s can be reached from other machines, and nobody could prove who he is: make a key "
                   "(sandglass key create), or set JWT_PUBLIC_KEY or auth.token_file, or say --auth open-to-everyone",
                   listen);
}

static void hash(struct str s, unsigned char out[SUM])
{
    SHA256((const unsigned char *)s.p, s.n, out);
}

static void add_token(struct access *a, const char *name, struct str text)
{
    size_t i = 0;

    while (i < TOKENS && a->tokens[i].set)
        i++;
    if (!text.n || i == TOKENS)
        return;
    a->tokens[i].set = true;
    a->tokens[i].name = name;
    hash(text, a->tokens[i].sum);
}

static int read_file(const char *path, size_t max, char **ret, size_t *ret_n, struct err *e)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    auto_free char *text = malloc(max + 1);
    size_t n = 0;
    ssize_t got = 1;

    if (fd < 0)
        return err_sys(e, "%s (it is read as the user of serve.user)", path);
    if (!text)
        abort();
    while (n <= max && (got = read(fd, text + n, max + 1 - n)) > 0)
        n += (size_t)got;
    if (got < 0)
        return err_sys(e, "read %s", path);
    if (n > max)
        return err_set(e, ERR_LIMIT, "%s is larger than %zu bytes", path, max);
    *ret = TAKE_PTR(text);
    *ret_n = n;
    return 0;
}

static int load_tokens(struct access *a, struct err *e)
{
    auto_free char *text = NULL;
    size_t n;

    for (int i = 0; i < 2; i++) {
        const char *name = i ? "SANDBOX_API_KEY" : "BEARER_TOKEN", *v = variable(name);
        if (v)
            add_token(a, name, str_of(v));
    }
    if (!a->opts.token_file || !*a->opts.token_file)
        return 0;
    int r = read_file(a->opts.token_file, 4096, &text, &n, e);
    if (r < 0)
        return err_wrap(e, r, "auth.token_file");
    struct str line = { text, n };
    const char *nl = memchr(text, '\n', n);
    if (nl)
        line.n = (size_t)(nl - text);
    if (line.n < 16)
        return err_set(e, ERR_INVALID, "auth.token_file: the first line of %s has less than 16 characters",
                       a->opts.token_file);
    add_token(a, "auth.token_file", line);
    return 0;
}

static int load_jwt_file(struct access *a, struct err *e)
{
    auto_free char *text = NULL;
    struct jwt_keys *keys;
    size_t n;
    int r = read_file(a->opts.jwt_file, (size_t)LIMIT_JWT_KEY_TEXT, &text, &n, e);

    if (r >= 0)
        r = jwt_keys_read((struct str){ text, n }, &keys, e);
    if (r < 0)
        return err_wrap(e, r, "auth.jwt_key_file");
    jwt_keys_free(a->jwt);
    a->jwt = keys;
    a->generation++;
    return 0;
}

static bool jwt_file_changed(struct access *a)
{
    struct stat st;

    if (!a->opts.jwt_file || !*a->opts.jwt_file || stat(a->opts.jwt_file, &st) < 0)
        return false;
    bool same = st.st_ino == a->jwt_seen.st_ino && st.st_size == a->jwt_seen.st_size &&
                st.st_mtim.tv_sec == a->jwt_seen.st_mtim.tv_sec && st.st_mtim.tv_nsec == a->jwt_seen.st_mtim.tv_nsec;
    a->jwt_seen = st;
    return !same;
}

/* Keys come and go while we run: by the command line, or by whoever rotates the issuer's keys. */
static void look_around(struct access *a)
{
    struct err e;

    if (now_ms() - a->looked_ms < LOOK_MS)
        return;
    a->looked_ms = now_ms();
    if (key_store_refresh(a->keys, &e) < 0)
        log_warn("keys not readable", "error='%s', going on with those that are known", e.msg);
    if (!jwt_file_changed(a))
        return;
    if (load_jwt_file(a, &e) < 0)
        log_warn("JWT keys not readable", "error='%s', going on with the old ones", e.msg);
    else
        log_info("JWT keys read again", "keys=%u", jwt_keys_count(a->jwt));
}

int access_new(const struct access_opts *o, struct access **ret, struct err *e)
{
    struct access *a = calloc(1, sizeof *a);
    int r = 0;

    if (!a)
        abort();
    a->opts = *o;
    a->generation = 1;
    a->required = o->mode == ACCESS_REQUIRED || (o->mode == ACCESS_AUTO && (!o->loopback || access_has_credentials(o)));
    a->rules = (struct jwt_rules){
        .audience = o->jwt_audience, .issuer = o->jwt_issuer, .skew_s = o->jwt_skew_s, .role = o->jwt_role
    };
    a->keys = key_store_new(o->home);
    if (o->jwt_key && *o->jwt_key) {
        r = jwt_keys_read(str_of(o->jwt_key), &a->jwt, e);
        r = r < 0 ? err_wrap(e, r, "JWT_PUBLIC_KEY") : r;
    } else if (o->jwt_file && *o->jwt_file) {
        (void)jwt_file_changed(a);
        r = load_jwt_file(a, e);
    }
    if (r >= 0)
        r = load_tokens(a, e);
    if (r >= 0)
        r = ticket_key_load(o->home, &a->ticket_key, e);
    if (r >= 0)
        r = key_store_refresh(a->keys, e);
    if (r < 0) {
        access_free(a);
        return r;
    }
    *ret = a;
    return 0;
}

void access_free(struct access *a)
{
    if (!a)
        return;
    key_store_free(a->keys);
    jwt_keys_free(a->jwt);
    OPENSSL_cleanse(a, sizeof *a);
    free(a);
}

struct key_store *access_keys(struct access *a)
{
    return a->keys;
}

bool access_is_required(const struct access *a)
{
    return a->required;
}

/* --- one credential --- */

static int by_jwt(struct access *a, struct str token, struct who *ret, struct err *e)
{
    unsigned char sum[SUM];
    int64_t wall = wall_us(), until;

    if (!a->jwt)
        return err_set(e, ERR_DENIED, "this server takes no tokens: it has no JWT key");
    hash(token, sum);
    struct verified *v = &a->cache[(sum[0] | sum[1] << 8) % CACHE];
    if (v->generation == a->generation && v->until_us > wall && CRYPTO_memcmp(v->sum, sum, SUM) == 0) {
        *ret = v->who;
        return 0;
    }
    int r = jwt_verify(a->jwt, &a->rules, token, wall, ret, &until, e);
    if (r < 0)
        return r;
    memcpy(v->sum, sum, SUM);
    v->generation = a->generation;
    v->until_us = until;
    v->who = *ret;
    return 0;
}

static int by_key(struct access *a, struct str text, struct who *ret, struct err *e)
{
    const struct api_key *k = key_store_check(a->keys, text, wall_us(), e);

    if (!k)
        return -EACCES;
    *ret = (struct who){ .role = k->role, .may = k->may, .how = "key" };
    memcpy(ret->tenant, k->tenant, sizeof ret->tenant);
    memcpy(ret->box, k->box, sizeof ret->box);
    memcpy(ret->key, k->id, sizeof ret->key);
    memcpy(ret->subject, k->name, sizeof k->name);
    return 0;
}

/* All are compared, and all bytes of each. */
static int by_token(struct access *a, struct str text, struct who *ret, struct err *e)
{
    unsigned char sum[SUM];
    int found = -1;

    hash(text, sum);
    for (int i = 0; i < TOKENS; i++)
        if (a->tokens[i].set && CRYPTO_memcmp(a->tokens[i].sum, sum, SUM) == 0)
            found = i;
    if (found < 0)
        return err_set(e, ERR_DENIED, "Invalid authentication credentials");
    *ret = (struct who){ .role = ROLE_ADMIN, .may = role_may(ROLE_ADMIN), .how = "token" };
    snprintf(ret->subject, sizeof ret->subject, "%s", a->tokens[found].name);
    return 0;
}

static int by_text(struct access *a, struct str text, struct who *ret, struct err *e)
{
    if (api_key_looks_like(text))
        return by_key(a, text, ret, e);
    if (by_token(a, text, ret, e) == 0)
        return 0;
    return jwt_looks_like(text) ? by_jwt(a, text, ret, e) : -EACCES;
}

static int by_ticket(struct access *a, struct str text, struct who *ret, struct err *e)
{
    int r = ticket_check(&a->ticket_key, text, wall_us(), ret, e);

    if (r < 0 || !ret->key[0])
        return r;
    const struct api_key *k = key_store_find(a->keys, str_of(ret->key));
    if (k && !k->revoked && (!k->expires_us || k->expires_us > wall_us()))
        return 0;
    return err_set(e, ERR_DENIED, "the API key behind this ticket is not valid any more");
}

/* --- all of them --- */

static void local(struct who *ret, const char *how)
{
    *ret = (struct who){ .role = ROLE_ADMIN, .may = role_may(ROLE_ADMIN) };
    snprintf(ret->how, sizeof ret->how, "%s", how);
    snprintf(ret->subject, sizeof ret->subject, "%s", how);
}

/* Is a credential that does not fit a reason to refuse? An old cookie never is. Where nothing is asked for, clients may
 * send whatever token they have for another server: only what claims to be ours is held against them. */
static bool is_attempt(const struct access *a, struct str text, bool ticket, bool cookie)
{
    return !cookie && (a->required || ticket || api_key_looks_like(text));
}

enum access_result access_check(struct access *a, const struct credentials *c, struct who *ret, struct err *e)
{
    const struct {
        struct str text;
        int (*check)(struct access *a, struct str text, struct who *ret, struct err *e);
    } shown[] = { { c->ticket, by_ticket }, { c->bearer, by_text }, { c->api_key, by_text }, { c->cookie, by_ticket } };
    bool any = false;

    look_around(a);
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        if (!shown[i].text.n)
            continue;
        if (shown[i].check(a, shown[i].text, ret, e) == 0)
            return ACCESS_FINE;
        any = any || is_attempt(a, shown[i].text, i == 0, i == 3);
    }
    /* Who shows a credential wants to be its owner: a job whose ticket has expired does not become the administrator. */
    if (!any && c->peer_uid >= 0 && (c->peer_uid == 0 || c->peer_uid == (int64_t)getuid())) {
        local(ret, "peer");
        return ACCESS_FINE;
    }
    if (a->opts.mode == ACCESS_OPEN || (!a->required && !any && c->peer_uid < 0)) {
        local(ret, a->opts.mode == ACCESS_OPEN ? "open" : "local");
        return ACCESS_FINE;
    }
    if (any)
        return ACCESS_WRONG;
    err_set(e, ERR_DENIED, "Authentication required");
    return ACCESS_MISSING;
}

int access_ticket(struct access *a, const struct who *w, struct arena *arena, struct str *ret_ticket,
                  int64_t *ret_ttl_s, struct err *e)
{
    if (strcmp(w->how, "ticket") == 0 || strcmp(w->how, "page") == 0)
        return err_set(e, ERR_DENIED, "a ticket does not give another one: show a token or a key");
    *ret_ticket = ticket_make(&a->ticket_key, w, wall_us() + a->opts.ticket_ttl_ms * 1000, arena);
    *ret_ttl_s = a->opts.ticket_ttl_ms / 1000;
    return 0;
}

struct str access_page_ticket(struct access *a, const struct who *w, const char *box, struct arena *arena)
{
    struct who page = *w;

    page.may &= MAY_READ | MAY_EXECUTE;
    snprintf(page.how, sizeof page.how, "page");
    snprintf(page.box, sizeof page.box, "%s", box);
    return ticket_make(&a->ticket_key, &page, wall_us() + LIMIT_TICKET_MS * 1000LL, arena);
}

struct str access_job_ticket(struct access *a, const struct who *w, struct arena *arena)
{
    return ticket_make(&a->ticket_key, w, wall_us() + LIMIT_JOB_TICKET_MS * 1000LL, arena);
}
