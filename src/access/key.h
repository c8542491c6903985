/* API keys: "sg_<id>_<secret>". Only a hash of the secret is stored; it has 160 random bits, so that a plain SHA-256 is
 * as good as a slow one. The store is <home>/keys: a line of JSON for each key that was made and for each that was
 * revoked, only ever appended to, so that a crash loses at most the line that nobody was told of yet. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "access/who.h"
#include "base/err.h"
#include "base/str.h"

struct jw;

struct api_key {
    char id[24]; /* "k-..." */
    char name[64], tenant[64], box[32];
    enum who_role role;
    unsigned may;                   /* the role's, perhaps narrowed */
    int64_t created_us, expires_us; /* wall; 0: never */
    bool revoked;
    unsigned char hash[32];
};

enum { API_KEY_TEXT = 64 };

struct key_store;
struct key_store *key_store_new(const char *home);
void key_store_free(struct key_store *s);
/* Reads what was appended since, by whomever. Missing file: no keys. */
int key_store_refresh(struct key_store *s, struct err *e);
size_t key_store_count(const struct key_store *s);                          /* without those that were revoked */
const struct api_key *key_store_next(const struct key_store *s, size_t *i); /* for lists; revoked ones, too */
const struct api_key *key_store_find(const struct key_store *s, struct str id);
/* The key that this text is, valid now. NULL: e says why not, without saying which part of it was wrong. */
const struct api_key *key_store_check(const struct key_store *s, struct str text, int64_t wall_us, struct err *e);
bool api_key_looks_like(struct str text);

/* ask: name, tenant, role, may, box, expires_us. sync: wait until it is on the disk (not in a loop). */
int key_store_add(struct key_store *s, const struct api_key *ask, bool sync, char ret_text[API_KEY_TEXT],
                  const struct api_key **ret, struct err *e);
int key_store_revoke(struct key_store *s, struct str id, bool sync, struct err *e);

/* "read,execute" -> bits; 0: a word is unknown */
unsigned scopes_read(struct str list);
void api_key_print(const struct api_key *k, struct jw *w); /* members; never the hash */
