/* A box under an idempotency key: the same key and wish are the same box, also while it is being made and after a crash;
 * the same key with another wish is an error. The key is free again when the box has ended. */
#include "session/box_key.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/limits.h"
#include "session/node.h"
#include "session/tenant.h"

static void hash_wish(struct str wish, char *out)
{
    unsigned char sum[SHA256_DIGEST_LENGTH];

    SHA256((const unsigned char *)(wish.n ? wish.p : ""), wish.n, sum);
    for (int i = 0; i < 16; i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

int box_key_find(struct node *n, const struct box_ask *ask, struct box **ret, struct err *e)
{
    AUTO(arena_done) struct arena a = { 0 };
    char hash[sizeof((struct box *)0)->key_hash];

    if (!ask->key.n)
        return 0;
    if (ask->key.n > LIMIT_KEY)
        return err_set(e, ERR_LIMIT, "idempotency_key: %zu bytes exceed LIMIT_KEY (%d)", ask->key.n, LIMIT_KEY);
    struct box *b = map_get(&n->box_keys, tenant_key(ask->tenant ? ask->tenant : n->tenant, ask->key, &a));
    if (!b || b->state == BOX_CLOSING)
        return 0;
    hash_wish(ask->wish, hash);
    if (strcmp(hash, b->key_hash) != 0)
        return err_set(e, ERR_EXISTS, "idempotency_key: '%.*s' was used before with another body",
                       (int)(ask->key.n < 64 ? ask->key.n : 64), ask->key.p);
    *ret = b;
    return 1;
}

static void put(struct box *b, struct str key)
{
    b->key = arena_copy(&b->arena, key);
    b->map_key = tenant_key(b->tenant, b->key, &b->arena);
    map_put(&b->node->box_keys, b->map_key, b);
}

void box_key_take(struct box *b, const struct box_ask *ask)
{
    if (!ask->key.n)
        return;
    hash_wish(ask->wish, b->key_hash);
    put(b, ask->key);
}

void box_key_adopt(struct box *b, const struct json *record)
{
    struct str key = json_get_str(record, "key"), hash = json_get_str(record, "key_hash");

    if (!key.n)
        return;
    snprintf(b->key_hash, sizeof b->key_hash, "%.*s", STR_ARG(hash));
    put(b, key);
}

void box_key_record(const struct box *b, struct jw *w)
{
    if (!b->key.n)
        return;
    jw_kstr(w, "key", b->key);
    jw_kz(w, "key_hash", b->key_hash);
}

void box_key_drop(struct box *b)
{
    if (b->key.n && map_get(&b->node->box_keys, b->map_key) == b)
        map_del(&b->node->box_keys, b->map_key);
}
