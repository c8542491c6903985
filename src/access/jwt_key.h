/* Public keys that tokens are verified with. Inside of this layer only. */
#pragma once

#include <openssl/evp.h>

#include "access/jwt.h"

enum jwt_alg { JWT_RS256, JWT_ES256, JWT_EDDSA };

struct jwt_key {
    EVP_PKEY *pkey;
    enum jwt_alg alg;
    char *kid; /* NULL: fits every token of its kind */
};

struct jwt_keys {
    struct jwt_key *v;
    unsigned count;
};
