/* JSON web tokens: RS256, ES256 and EdDSA, verified against public keys from a setting or a file.
 *
 * The algorithm is the key's, not the token's: a token says which one it was made with, and only a key of that very
 * kind is tried. "none" and HMAC have no kind of key here, so there is nothing to confuse. */
#pragma once

#include <stdint.h>

#include "access/who.h"
#include "base/arena.h"
#include "base/err.h"

struct jwt_keys; /* a set of public keys */

/* text: PEM (one key or several), a JWKS ({"keys":[...]}), one JWK, or the base64 of any of them, with or without line
 * breaks. At most LIMIT_JWT_KEYS keys; at least one must be usable. */
int jwt_keys_read(struct str text, struct jwt_keys **ret, struct err *e);
void jwt_keys_free(struct jwt_keys *k); /* accepts NULL */
unsigned jwt_keys_count(const struct jwt_keys *k);

struct jwt_rules {
    const char *audience, *issuer; /* "" or NULL: not asked */
    int64_t skew_s;                /* clocks may differ by so much */
    enum who_role role;            /* of a token that names none */
};

bool jwt_looks_like(struct str token); /* two dots, base64url between them */
/* ret_until_us: wall time from which on it is not valid any more, skew included. */
int jwt_verify(const struct jwt_keys *k, const struct jwt_rules *r, struct str token, int64_t wall_us, struct who *ret,
               int64_t *ret_until_us, struct err *e);
