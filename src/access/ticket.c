#include "access/ticket.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/limits.h"

enum { SUM = 32, TICKET_MAX = 1024 };

int ticket_key_load(const char *home, struct ticket_key *ret, struct err *e)
{
    char path[4096], fresh[4200];

    snprintf(path, sizeof path, "%s/ticket.key", home);
    snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return read(fd, ret->bytes, sizeof ret->bytes) == (ssize_t)sizeof ret->bytes
                   ? 0
                   : err_set(e, ERR_SYSTEM, "%s is damaged; remove it, and a new one is made", path);
    if (errno != ENOENT)
        return err_sys(e, "open %s", path);
    if (getrandom(ret->bytes, sizeof ret->bytes, 0) != (ssize_t)sizeof ret->bytes)
        return err_sys(e, "getrandom");
    auto_close int out = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0 || write(out, ret->bytes, sizeof ret->bytes) != (ssize_t)sizeof ret->bytes || fsync(out) < 0 ||
        rename(fresh, path) < 0)
        return err_sys(e, "make %s", path);
    return 0;
}

static struct str encode(struct arena *a, struct str bytes)
{
    char *text = arena_alloc(a, bytes.n * 4 / 3 + 8);
    int n = EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)bytes.p, (int)bytes.n);

    while (n && text[n - 1] == '=')
        n--;
    for (int i = 0; i < n; i++)
        text[i] = text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i];
    return (struct str){ text, (size_t)n };
}

static struct str decode(struct arena *a, struct str part)
{
    char *text = arena_alloc(a, part.n + 1);

    for (size_t i = 0; i < part.n; i++)
        text[i] = part.p[i] == '-' ? '+' : part.p[i] == '_' ? '/' : part.p[i];
    return base64_decode(a, (struct str){ text, part.n });
}

static void sign(const struct ticket_key *k, struct str text, unsigned char out[SUM])
{
    unsigned n = SUM;

    if (!HMAC(EVP_sha256(), k->bytes, sizeof k->bytes, (const unsigned char *)text.p, text.n, out, &n) || n != SUM)
        abort();
}

struct str ticket_make(const struct ticket_key *k, const struct who *who, int64_t until_us, struct arena *a)
{
    unsigned char nonce[6], sum[SUM];
    struct buf b;
    struct jw w = { .out = &b };

    if (getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
        abort();
    buf_init(&b, TICKET_MAX);
    jw_obj(&w);
    jw_kint(&w, "e", until_us);
    jw_kz(&w, "t", who->tenant);
    jw_kint(&w, "r", who->role);
    jw_kint(&w, "m", who->may);
    if (who->box[0])
        jw_kz(&w, "b", who->box);
    if (who->key[0])
        jw_kz(&w, "k", who->key);
    if (strcmp(who->how, "page") == 0)
        jw_kbool(&w, "p", true);
    jw_kz(&w, "s", who->subject);
    jw_key(&w, "n");
    jw_base64(&w, (struct str){ (char *)nonce, sizeof nonce }); /* no two are the same */
    jw_obj_end(&w);
    struct str text = encode(a, buf_view(&b));
    buf_done(&b);
    sign(k, text, sum);
    struct str mac = encode(a, (struct str){ (char *)sum, sizeof sum });
    return str_of(arena_printf(a, "%.*s.%.*s", STR_ARG(text), STR_ARG(mac)));
}

static void put_text(char *out, size_t size, struct str s)
{
    snprintf(out, size, "%.*s", STR_ARG(s));
}

static int check(const struct ticket_key *k, struct str ticket, int64_t wall_us, struct arena *a, struct who *ret,
                 struct err *e)
{
    const char *dot = memrchr(ticket.p, '.', ticket.n);
    struct str text = { ticket.p, dot ? (size_t)(dot - ticket.p) : 0 };
    struct str mac = dot ? decode(a, (struct str){ dot + 1, ticket.n - text.n - 1 }) : (struct str){ 0 };
    unsigned char sum[SUM];
    struct json *j;

    sign(k, text, sum);
    if (mac.n != SUM || CRYPTO_memcmp(sum, mac.p, SUM) != 0)
        return err_set(e, ERR_DENIED, "this is not a ticket of this server");
    struct str body = decode(a, text);
    if (!body.p || json_parse(a, body, &j, e) < 0)
        return err_set(e, ERR_DENIED, "this is not a ticket of this server");
    if (json_get_int(j, "e", 0) <= wall_us)
        return err_set(e, ERR_DENIED, "the ticket has expired; get a new one from POST /tickets");
    *ret = (struct who){ 0 };
    put_text(ret->how, sizeof ret->how, json_get_bool(j, "p", false) ? STR("page") : STR("ticket"));
    put_text(ret->tenant, sizeof ret->tenant, json_get_str(j, "t"));
    put_text(ret->box, sizeof ret->box, json_get_str(j, "b"));
    put_text(ret->key, sizeof ret->key, json_get_str(j, "k"));
    put_text(ret->subject, sizeof ret->subject, json_get_str(j, "s"));
    int64_t role = json_get_int(j, "r", 0);
    ret->role = role > ROLE_NONE && role < ROLE_COUNT ? (enum who_role)role : ROLE_NONE;
    ret->may = (unsigned)json_get_int(j, "m", 0) & role_may(ret->role);
    return 0;
}

int ticket_check(const struct ticket_key *k, struct str ticket, int64_t wall_us, struct who *ret, struct err *e)
{
    struct arena a = { 0 };

    if (ticket.n > TICKET_MAX * 2)
        return err_set(e, ERR_DENIED, "this is not a ticket of this server");
    int r = check(k, ticket, wall_us, &a, ret, e);
    arena_done(&a);
    return r;
}
