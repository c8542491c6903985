/* Any bytes as a token, as the claims of a token that is signed well, as a ticket, and as a file of keys. What is not
 * signed never comes in; what is, keeps who.h's promises. */
/* needs: src/access/jwt.c src/access/jwt_key.c src/access/ticket.c src/access/who.c */
/* libs: -lcrypto */
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "access/jwt.h"
#include "access/ticket.h"
#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static EVP_PKEY *pair;
static struct jwt_keys *keys;

static void check(bool ok)
{
    if (!ok)
        abort();
}

static struct str encode(struct arena *a, const void *p, size_t n)
{
    char *text = arena_alloc(a, n * 4 / 3 + 8);
    int len = EVP_EncodeBlock((unsigned char *)text, p, (int)n);

    while (len && text[len - 1] == '=')
        len--;
    for (int i = 0; i < len; i++)
        text[i] = text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i];
    return (struct str){ text, (size_t)len };
}

static void set_up(void)
{
    static const unsigned char seed[32] = "a key that only this test knows";
    unsigned char public_[32];
    size_t n = sizeof public_;
    struct arena a = { 0 };
    struct err e;

    pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof seed);
    check(pair && EVP_PKEY_get_raw_public_key(pair, public_, &n) == 1);
    struct str x = encode(&a, public_, n);
    char *jwk = arena_printf(&a, "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%.*s\"}", STR_ARG(x));
    check(jwt_keys_read(str_of(jwk), &keys, &e) == 0);
    arena_done(&a);
}

static void check_who(const struct who *w)
{
    check(w->role > ROLE_NONE && w->role < ROLE_COUNT && (w->may & ~role_may(w->role)) == 0);
    check(memchr(w->tenant, 0, sizeof w->tenant) && memchr(w->box, 0, sizeof w->box));
    check(memchr(w->subject, 0, sizeof w->subject) && (w->role != ROLE_AGENT || w->box[0]));
}

static void as_token(struct str s)
{
    static const struct jwt_rules rules = { .skew_s = 5, .role = ROLE_OPERATOR };
    struct who who;
    int64_t until;
    struct err e;

    if (jwt_verify(keys, &rules, s, 1000000, &who, &until, &e) == 0)
        check_who(&who);
}

static void as_claims(struct str s)
{
    static const char head[] = "eyJhbGciOiJFZERTQSJ9"; /* {"alg":"EdDSA"} */
    static const struct jwt_rules rules = { .skew_s = 5, .role = ROLE_OPERATOR, .audience = "us" };
    struct arena a = { 0 };
    struct str body = encode(&a, s.p, s.n);
    char *text = arena_printf(&a, "%s.%.*s", head, STR_ARG(body));
    unsigned char sig[64];
    size_t n = sizeof sig;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    struct who who;
    int64_t until;
    struct err e;

    check(EVP_DigestSignInit(ctx, NULL, NULL, NULL, pair) == 1 &&
          EVP_DigestSign(ctx, sig, &n, (unsigned char *)text, strlen(text)) == 1);
    EVP_MD_CTX_free(ctx);
    struct str signature = encode(&a, sig, n);
    char *token = arena_printf(&a, "%s.%.*s", text, STR_ARG(signature));
    if (jwt_verify(keys, &rules, str_of(token), 1000000, &who, &until, &e) == 0) {
        check_who(&who);
        check(until > 1000000);
        token[strlen(head) + 1] ^= 1; /* one bit of the claims */
        check(jwt_verify(keys, &rules, str_of(token), 1000000, &who, &until, &e) < 0);
    }
    arena_done(&a);
}

static void as_keys(struct str s)
{
    struct jwt_keys *k;
    struct err e;

    if (jwt_keys_read(s, &k, &e) == 0) {
        check(jwt_keys_count(k) > 0);
        jwt_keys_free(k);
    }
}

static void as_ticket(struct str s)
{
    static const struct ticket_key key = { "secret" };
    struct who who;
    struct err e;

    check(ticket_check(&key, s, 0, &who, &e) < 0); /* nobody but us makes one */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static void (*const uses[])(struct str) = { as_token, as_claims, as_keys, as_ticket };

    if (!keys)
        set_up();
    if (n)
        uses[data[0] % 4]((struct str){ (const char *)data + 1, n - 1 });
    return 0;
}
