/* Reading public keys: PEM, JWK and JWKS, plain or in base64. A key that cannot verify any of our algorithms (a short
 * RSA key, another curve, a symmetric key) is an error, not a key that silently never fits. In a JWKS, keys for other
 * purposes are passed over. */
#include "access/jwt_key.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"

void jwt_keys_free(struct jwt_keys *k)
{
    if (!k)
        return;
    for (unsigned i = 0; i < k->count; i++) {
        EVP_PKEY_free(k->v[i].pkey);
        free(k->v[i].kid);
    }
    free(k->v);
    free(k);
}

unsigned jwt_keys_count(const struct jwt_keys *k)
{
    return k ? k->count : 0;
}

static int kind_of(EVP_PKEY *p, enum jwt_alg *ret, struct err *e)
{
    char group[64] = "";
    size_t n;

    switch (EVP_PKEY_get_base_id(p)) {
    case EVP_PKEY_RSA:
        if (EVP_PKEY_get_bits(p) < 2048 || EVP_PKEY_get_bits(p) > 16384)
            return err_set(e, ERR_INVALID, "JWT key: RSA with %d bits; 2048 to 16384 are taken", EVP_PKEY_get_bits(p));
        *ret = JWT_RS256;
        return 0;
    case EVP_PKEY_EC:
        if (EVP_PKEY_get_utf8_string_param(p, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof group, &n) != 1 ||
            strcmp(group, "prime256v1") != 0)
            return err_set(e, ERR_INVALID, "JWT key: EC on curve '%s'; ES256 needs P-256", group);
        *ret = JWT_ES256;
        return 0;
    case EVP_PKEY_ED25519: *ret = JWT_EDDSA; return 0;
    default: return err_set(e, ERR_INVALID, "JWT key: neither RSA nor EC nor Ed25519");
    }
}

static int add(struct jwt_keys *keys, EVP_PKEY *take_p, struct str kid, struct err *e)
{
    struct jwt_key k = { .pkey = take_p };
    int r = kind_of(take_p, &k.alg, e);

    if (r >= 0 && keys->count >= LIMIT_JWT_KEYS)
        r = err_set(e, ERR_LIMIT, "JWT keys: more than LIMIT_JWT_KEYS (%d)", LIMIT_JWT_KEYS);
    if (r < 0) {
        EVP_PKEY_free(take_p);
        return r;
    }
    struct jwt_key *v = realloc(keys->v, (keys->count + 1) * sizeof *v);
    k.kid = kid.n ? strndup(kid.p, kid.n) : NULL;
    if (!v || (kid.n && !k.kid))
        abort();
    keys->v = v;
    v[keys->count++] = k;
    return 0;
}

/* --- PEM --- */

static int read_pem(struct jwt_keys *keys, struct str text, struct err *e)
{
    BIO *bio = BIO_new_mem_buf(text.p, (int)text.n);
    char *name, *header;
    unsigned char *data;
    long n;
    int r = 0;

    if (!bio)
        abort();
    while (r >= 0 && PEM_read_bio(bio, &name, &header, &data, &n) == 1) {
        const unsigned char *p = data;
        EVP_PKEY *key = NULL;
        if (strcmp(name, PEM_STRING_PUBLIC) == 0) {
            key = d2i_PUBKEY(NULL, &p, n);
        } else if (strcmp(name, PEM_STRING_RSA_PUBLIC) == 0) {
            key = d2i_PublicKey(EVP_PKEY_RSA, NULL, &p, n);
        } else if (strcmp(name, PEM_STRING_X509) == 0) {
            X509 *cert = d2i_X509(NULL, &p, n);
            key = cert ? X509_get_pubkey(cert) : NULL;
            X509_free(cert);
        } else if (strstr(name, "PRIVATE KEY")) {
            r = err_set(e, ERR_INVALID,
                        "JWT key: this is a private key, which only the issuer of tokens may have; give "
                        "the public one");
        }
        if (key)
            r = add(keys, key, (struct str){ 0 }, e);
        else if (r >= 0)
            r = err_set(e, ERR_INVALID, "JWT key: a PEM block '%.40s' is not a public key", name);
        OPENSSL_free(name);
        OPENSSL_free(header);
        OPENSSL_free(data);
    }
    BIO_free(bio);
    if (r >= 0 && keys->count == 0)
        r = err_set(e, ERR_INVALID, "JWT key: the PEM text cannot be read");
    return r;
}

/* --- JWK --- */

static struct str url_bytes(struct arena *a, const struct json *jwk, const char *name)
{
    struct str s = json_get_str(jwk, name);
    char *text = arena_alloc(a, s.n + 1);

    for (size_t i = 0; i < s.n; i++)
        text[i] = s.p[i] == '-' ? '+' : s.p[i] == '_' ? '/' : s.p[i];
    return s.n ? base64_decode(a, (struct str){ text, s.n }) : (struct str){ 0 };
}

static EVP_PKEY *from_params(const char *type, OSSL_PARAM_BLD *take_bld)
{
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(take_bld);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    EVP_PKEY *key = NULL;

    if (!ctx || !params || EVP_PKEY_fromdata_init(ctx) != 1 ||
        EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        key = NULL;
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(take_bld);
    return key;
}

static EVP_PKEY *rsa_key(struct arena *a, const struct json *jwk)
{
    struct str n = url_bytes(a, jwk, "n"), x = url_bytes(a, jwk, "e");

    if (!n.n || !x.n || n.n > 2048 || x.n > 8)
        return NULL;
    BIGNUM *bn = BN_bin2bn((const unsigned char *)n.p, (int)n.n, NULL);
    BIGNUM *be = BN_bin2bn((const unsigned char *)x.p, (int)x.n, NULL);
    OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
    EVP_PKEY *key = NULL;
    if (bn && be && bld && OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_N, bn) &&
        OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_E, be))
        key = from_params("RSA", bld);
    else
        OSSL_PARAM_BLD_free(bld);
    BN_free(bn);
    BN_free(be);
    return key;
}

static EVP_PKEY *ec_key(struct arena *a, const struct json *jwk)
{
    struct str x = url_bytes(a, jwk, "x"), y = url_bytes(a, jwk, "y");
    unsigned char point[65] = { 4 };

    if (x.n != 32 || y.n != 32)
        return NULL;
    memcpy(point + 1, x.p, 32);
    memcpy(point + 33, y.p, 32);
    OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
    if (bld && OSSL_PARAM_BLD_push_utf8_string(bld, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) &&
        OSSL_PARAM_BLD_push_octet_string(bld, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point))
        return from_params("EC", bld);
    OSSL_PARAM_BLD_free(bld);
    return NULL;
}

static EVP_PKEY *ed_key(struct arena *a, const struct json *jwk)
{
    struct str x = url_bytes(a, jwk, "x");

    if (x.n != 32)
        return NULL;
    return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, (const unsigned char *)x.p, x.n);
}

/* Not for signatures, or of a kind that we do not have: another program's. */
static bool is_for_us(const struct json *jwk)
{
    struct str use = json_get_str(jwk, "use"), kty = json_get_str(jwk, "kty"), alg = json_get_str(jwk, "alg");

    if (use.n && !str_is(use, "sig"))
        return false;
    if (alg.n && !str_is(alg, "RS256") && !str_is(alg, "ES256") && !str_is(alg, "EdDSA"))
        return false;
    struct str crv = json_get_str(jwk, "crv");
    return str_is(kty, "RSA") || (str_is(kty, "EC") && str_is(crv, "P-256")) ||
           (str_is(kty, "OKP") && str_is(crv, "Ed25519"));
}

static int read_jwk(struct jwt_keys *keys, struct arena *a, const struct json *jwk, struct err *e)
{
    struct str kty = json_get_str(jwk, "kty");

    if (!is_for_us(jwk))
        return 0;
    EVP_PKEY *key = str_is(kty, "RSA") ? rsa_key(a, jwk) : str_is(kty, "EC") ? ec_key(a, jwk) : ed_key(a, jwk);
    if (!key)
        return err_set(e, ERR_INVALID, "JWT key: a JWK of type %.*s is not readable", STR_ARG(kty));
    return add(keys, key, json_get_str(jwk, "kid"), e);
}

static int read_jwks(struct jwt_keys *keys, struct str text, struct err *e)
{
    struct arena a = { 0 };
    struct json *set;
    int r = json_parse(&a, text, &set, e);
    const struct json *list = r < 0 ? NULL : json_get(set, "keys");

    if (r < 0)
        r = err_wrap(e, r, "JWKS");
    else if (list && list->type == JSON_ARR)
        for (const struct json *k = list->first; k && r >= 0; k = k->next)
            r = read_jwk(keys, &a, k, e);
    else
        r = read_jwk(keys, &a, set, e);
    arena_done(&a);
    if (r >= 0 && keys->count == 0)
        r = err_set(e, ERR_INVALID, "JWKS: no key in it is for RS256, ES256 or EdDSA");
    return r;
}

static struct str trimmed(struct str s)
{
    while (s.n && strchr(" \t\r\n", s.p[0]))
        s.p++, s.n--;
    while (s.n && strchr(" \t\r\n", s.p[s.n - 1]))
        s.n--;
    return s;
}

static void end_line(char *out, size_t *n)
{
    if (*n && out[*n - 1] != '\n') /* an empty line would end OpenSSL's header */
        out[(*n)++] = '\n';
}

/* Variables lose line breaks: they become "\n" in two characters, blanks, or nothing. A PEM text has one at least behind
 * its first line and before its last one; OpenSSL takes what is between in one piece. */
static struct str with_lines(struct arena *a, struct str s)
{
    char *out = arena_alloc(a, s.n + s.n / 5 + 2);
    size_t n = 0;
    bool title = false;

    for (size_t i = 0; i < s.n; i++) {
        if (s.n - i >= 5 && memcmp(s.p + i, "-----", 5) == 0) {
            if (!title)
                end_line(out, &n);
            memcpy(out + n, "-----", 5);
            n += 5, i += 4;
            if (title)
                end_line(out, &n);
            title = !title;
        } else if (s.p[i] == '\\' && i + 1 < s.n && (s.p[i + 1] == 'n' || s.p[i + 1] == 'r')) {
            end_line(out, &n);
            i++;
        } else if (!title && s.p[i] == ' ') {
            end_line(out, &n);
        } else {
            out[n++] = s.p[i];
        }
    }
    return (struct str){ out, n };
}

static int read_der(struct jwt_keys *keys, struct str bytes, struct err *e)
{
    const unsigned char *p = (const unsigned char *)bytes.p;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &p, (long)bytes.n);

    return key ? add(keys, key, (struct str){ 0 }, e)
               : err_set(e, ERR_INVALID, "JWT key: it is neither PEM nor a JWKS, nor the base64 of one");
}

int jwt_keys_read(struct str text, struct jwt_keys **ret, struct err *e)
{
    struct arena a = { 0 };
    struct jwt_keys *keys = calloc(1, sizeof *keys);
    int r;

    if (!keys)
        abort();
    text = trimmed(text);
    if (text.n > 1 && text.p[0] == text.p[text.n - 1] && strchr("\"'", text.p[0]))
        text = trimmed((struct str){ text.p + 1, text.n - 2 });
    if (text.n > LIMIT_JWT_KEY_TEXT) {
        r = err_set(e, ERR_LIMIT, "JWT key: %zu bytes exceed LIMIT_JWT_KEY_TEXT (%ld)", text.n, LIMIT_JWT_KEY_TEXT);
    } else {
        if (text.n && text.p[0] != '{' && text.p[0] != '-')
            text = trimmed(base64_decode(&a, text));
        if (text.n && text.p[0] == '{')
            r = read_jwks(keys, text, e);
        else if (text.n > 10 && memcmp(text.p, "-----BEGIN", 10) == 0)
            r = read_pem(keys, memchr(text.p, '\n', text.n) ? text : with_lines(&a, text), e);
        else
            r = read_der(keys, text, e);
    }
    arena_done(&a);
    if (r < 0) {
        jwt_keys_free(keys);
        return r;
    }
    *ret = keys;
    return 0;
}
