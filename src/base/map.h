/* A hash map from bytes to pointers. Keys are borrowed: they usually live in the value itself. */
#pragma once

#include "base/str.h"

struct map_slot {
    struct str key;
    void *value; /* NULL: empty or removed */
    bool used;   /* was ever filled: probing goes on past it */
};
struct map {
    struct map_slot *slots;
    size_t size, count, used;
};

void map_done(struct map *m); /* frees the table, not the values; accepts a zeroed map */
void *map_get(const struct map *m, struct str key);
void map_put(struct map *m, struct str key, void *value); /* replaces */
void *map_del(struct map *m, struct str key);             /* the value that was there */
/* for (size_t i = 0; (v = map_next(m, &i));) ...  The current entry may be deleted meanwhile. */
void *map_next(const struct map *m, size_t *i);
