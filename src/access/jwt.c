/* Verifying a token, in this order: shape, header, signature, and only then the claims: nothing that was not signed is
 * believed, and the message of a refusal says no more than its owner could read in the token himself. */
#include "access/jwt.h"

#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#include "access/jwt_key.h"
#include "base/json.h"
#include "base/limits.h"

enum { ECDSA_BYTES = 64 };

bool jwt_looks_like(struct str token)
{
    int dots = 0;

    for (size_t i = 0; i < token.n; i++) {
        unsigned char c = (unsigned char)token.p[i];
        if (c == '.')
            dots++;
        else if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_'))
            return false;
    }
    return dots == 2;
}

/* JOSE signs ECDSA as r and s side by side, OpenSSL wants them in DER. */
static int to_der(struct str raw, unsigned char **ret_der)
{
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = raw.n == ECDSA_BYTES ? BN_bin2bn((const unsigned char *)raw.p, ECDSA_BYTES / 2, NULL) : NULL;
    BIGNUM *s = r ? BN_bin2bn((const unsigned char *)raw.p + ECDSA_BYTES / 2, ECDSA_BYTES / 2, NULL) : NULL;
    int n = -1;

    if (sig && s && ECDSA_SIG_set0(sig, r, s) == 1) {
        r = s = NULL;
        n = i2d_ECDSA_SIG(sig, ret_der);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(sig);
    return n;
}

static bool signature_fits(const struct jwt_key *k, struct str text, struct str signature)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    const EVP_MD *md = k->alg == JWT_EDDSA ? NULL : EVP_sha256();
    unsigned char *der = NULL;
    int n = (int)signature.n;
    bool ok = false;

    if (k->alg == JWT_ES256)
        n = to_der(signature, &der);
    if (ctx && n > 0 && EVP_DigestVerifyInit(ctx, NULL, md, NULL, k->pkey) == 1)
        ok = EVP_DigestVerify(ctx, der ? der : (const unsigned char *)signature.p, (size_t)n,
                              (const unsigned char *)text.p, text.n) == 1;
    OPENSSL_free(der);
    EVP_MD_CTX_free(ctx);
    return ok;
}

static int find_alg(struct str name)
{
    static const char *const names[] = { [JWT_RS256] = "RS256", [JWT_ES256] = "ES256", [JWT_EDDSA] = "EdDSA" };

    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (str_is(name, names[i]))
            return i;
    return -1;
}

static int check_signature(const struct jwt_keys *keys, const struct json *header, struct str text,
                           struct str signature, struct err *e)
{
    struct str alg_name = json_get_str(header, "alg"), kid = json_get_str(header, "kid");
    int alg = find_alg(alg_name);

    if (alg < 0)
        return err_set(e, ERR_DENIED, "token: alg '%.20s' is not one of RS256, ES256, EdDSA",
                       alg_name.n && alg_name.n < 20 && utf8_ok(alg_name) ? alg_name.p : "?");
    if (json_get(header, "crit"))
        return err_set(e, ERR_DENIED, "token: it has critical extensions, of which none is known here");
    for (unsigned i = 0; i < keys->count; i++) {
        const struct jwt_key *k = &keys->v[i];
        if ((int)k->alg != alg || (kid.n && k->kid && !str_is(kid, k->kid)))
            continue;
        if (signature_fits(k, text, signature))
            return 0;
    }
    return err_set(e, ERR_DENIED, "token: no configured key fits its signature");
}

/* A NumericDate may have a fraction. False: there is one that is no number. */
static bool read_date(const struct json *claims, const char *name, bool *ret_there, double *ret)
{
    const struct json *v = json_get(claims, name);

    *ret_there = v != NULL;
    if (!v)
        return true;
    if (v->type != JSON_NUM || !(v->num >= 0 && v->num < 1e12))
        return false;
    *ret = v->num;
    return true;
}

static bool has_audience(const struct json *claims, const char *want)
{
    const struct json *aud = json_get(claims, "aud");

    if (aud && aud->type == JSON_STR)
        return str_is(aud->s, want);
    for (const struct json *v = aud && aud->type == JSON_ARR ? aud->first : NULL; v; v = v->next)
        if (v->type == JSON_STR && str_is(v->s, want))
            return true;
    return false;
}

static int check_claims(const struct json *claims, const struct jwt_rules *r, int64_t wall_us, int64_t *ret_until_us,
                        struct err *e)
{
    double now = (double)wall_us / 1e6, skew = (double)r->skew_s, exp = 0, nbf = 0;
    bool has_exp, has_nbf;

    if (!read_date(claims, "exp", &has_exp, &exp) || !read_date(claims, "nbf", &has_nbf, &nbf))
        return err_set(e, ERR_DENIED, "token: exp and nbf must be seconds since 1970");
    if (!has_exp)
        return err_set(e, ERR_DENIED, "token: it has no exp: a token that never ends is not taken");
    if (now >= exp + skew)
        return err_set(e, ERR_DENIED, "token: it expired %.0f s ago", now - exp);
    if (has_nbf && now < nbf - skew)
        return err_set(e, ERR_DENIED, "token: it is not valid for another %.0f s", nbf - now);
    if (r->audience && r->audience[0] && !has_audience(claims, r->audience))
        return err_set(e, ERR_DENIED, "token: it is not for the audience '%s'", r->audience);
    if (r->issuer && r->issuer[0] && !str_is(json_get_str(claims, "iss"), r->issuer))
        return err_set(e, ERR_DENIED, "token: it is not from the issuer '%s'", r->issuer);
    *ret_until_us = (int64_t)((exp + skew) * 1e6);
    return 0;
}

static int copy_text(const struct json *claims, const char *name, char *out, size_t size, struct err *e)
{
    const struct json *v = json_get(claims, name);

    if (!v || v->type == JSON_NULL)
        return 0;
    if (v->type != JSON_STR || v->s.n >= size || memchr(v->s.p, 0, v->s.n))
        return err_set(e, ERR_DENIED, "token: %s must be a string of less than %zu bytes", name, size);
    memcpy(out, v->s.p, v->s.n);
    out[v->s.n] = 0;
    return 0;
}

static int read_who(const struct json *claims, const struct jwt_rules *r, struct who *w, struct err *e)
{
    struct str role = json_get_str(claims, "role");

    *w = (struct who){ .role = r->role, .how = "jwt" };
    if (json_get(claims, "role")) {
        w->role = role.p ? role_find(role.p, role.n) : ROLE_NONE;
        if (w->role == ROLE_NONE)
            return err_set(e, ERR_DENIED, "token: role must be viewer, agent, operator or admin");
    }
    w->may = role_may(w->role);
    if (copy_text(claims, "tenant", w->tenant, sizeof w->tenant, e) < 0 ||
        copy_text(claims, "box", w->box, sizeof w->box, e) < 0 ||
        copy_text(claims, "sub", w->subject, sizeof w->subject, e) < 0)
        return -1;
    if ((!w->tenant[0] && json_get_str(claims, "tenant").p) || (!w->box[0] && json_get_str(claims, "box").p))
        return err_set(e, ERR_DENIED, "token: tenant and box, if they are there, must not be empty");
    if (w->role == ROLE_AGENT && !w->box[0])
        return err_set(e, ERR_DENIED, "token: the role agent needs a box");
    if (w->box[0]) /* whatever else it says: a token of one box makes no others, and no keys */
        w->may &= role_may(ROLE_AGENT);
    return 0;
}

static struct str decode(struct arena *a, struct str part)
{
    char *text = arena_alloc(a, part.n + 1);

    for (size_t i = 0; i < part.n; i++)
        text[i] = part.p[i] == '-' ? '+' : part.p[i] == '_' ? '/' : part.p[i];
    return base64_decode(a, (struct str){ text, part.n });
}

static int verify(const struct jwt_keys *k, const struct jwt_rules *r, struct str token, int64_t wall_us,
                  struct arena *a, struct who *ret, int64_t *ret_until_us, struct err *e)
{
    const char *dot = memchr(token.p, '.', token.n);
    const char *last = memrchr(token.p, '.', token.n);
    struct str head = { token.p, (size_t)(dot - token.p) }, body = { dot + 1, (size_t)(last - dot - 1) };
    struct str text = { token.p, (size_t)(last - token.p) };
    struct str signature = decode(a, (struct str){ last + 1, token.n - text.n - 1 });
    struct json *header, *claims;
    struct err why;

    head = decode(a, head);
    body = decode(a, body);
    if (!head.p || !body.p || !signature.p || !signature.n)
        return err_set(e, ERR_DENIED, "token: its parts are not base64url");
    if (json_parse(a, head, &header, &why) < 0 || header->type != JSON_OBJ)
        return err_set(e, ERR_DENIED, "token: its header is not a JSON object");
    int err = check_signature(k, header, text, signature, e);
    if (err < 0)
        return err;
    if (json_parse(a, body, &claims, &why) < 0 || claims->type != JSON_OBJ)
        return err_set(e, ERR_DENIED, "token: its claims are not a JSON object");
    err = check_claims(claims, r, wall_us, ret_until_us, e);
    return err < 0 ? err : read_who(claims, r, ret, e);
}

int jwt_verify(const struct jwt_keys *k, const struct jwt_rules *r, struct str token, int64_t wall_us, struct who *ret,
               int64_t *ret_until_us, struct err *e)
{
    struct arena a = { 0 };

    if (token.n > LIMIT_JWT)
        return err_set(e, ERR_LIMIT, "token: %zu bytes exceed LIMIT_JWT (%ld)", token.n, LIMIT_JWT);
    if (!jwt_looks_like(token))
        return err_set(e, ERR_DENIED, "token: it is not a JSON web token");
    int err = verify(k, r, token, wall_us, &a, ret, ret_until_us, e);
    arena_done(&a);
    return err;
}
