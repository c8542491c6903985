#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* Clients choose many keys, so the hash is seeded: nobody can aim for collisions. */
static uint64_t seed;

static uint64_t hash(struct str s)
{
    if (!seed && getrandom(&seed, sizeof seed, 0) != sizeof seed)
        abort();
    uint64_t h = seed ^ s.n;
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static struct map_slot *find(const struct map *m, struct str key)
{
    if (!m->size)
        return NULL;
    for (size_t i = hash(key) & (m->size - 1);; i = (i + 1) & (m->size - 1)) {
        struct map_slot *s = &m->slots[i];
        if (!s->used)
            return NULL;
        if (s->value && str_eq(s->key, key))
            return s;
    }
}

void map_done(struct map *m)
{
    free(m->slots);
    *m = (struct map){ 0 };
}

void *map_get(const struct map *m, struct str key)
{
    struct map_slot *s = find(m, key);
    return s ? s->value : NULL;
}

static void insert(struct map *m, struct str key, void *value)
{
    size_t i = hash(key) & (m->size - 1);
    while (m->slots[i].used)
        i = (i + 1) & (m->size - 1);
    m->slots[i] = (struct map_slot){ key, value, true };
    m->used++;
    m->count++;
}

static void rehash(struct map *m)
{
    struct map old = *m;
    size_t size = 16;

    while (size < old.count * 3)
        size *= 2;
    *m = (struct map){ .slots = calloc(size, sizeof *m->slots), .size = size };
    if (!m->slots)
        abort();
    for (size_t i = 0; i < old.size; i++)
        if (old.slots[i].value)
            insert(m, old.slots[i].key, old.slots[i].value);
    free(old.slots);
}

void map_put(struct map *m, struct str key, void *value)
{
    struct map_slot *s = find(m, key);

    if (s) {
        s->key = key;
        s->value = value;
        return;
    }
    if ((m->used + 1) * 4 > m->size * 3)
        rehash(m);
    insert(m, key, value);
}

void *map_del(struct map *m, struct str key)
{
    struct map_slot *s = find(m, key);

    if (!s)
        return NULL;
    void *value = s->value;
    s->value = NULL;
    s->key = (struct str){ 0 };
    m->count--;
    return value;
}

void *map_next(const struct map *m, size_t *i)
{
    while (*i < m->size) {
        void *v = m->slots[(*i)++].value;
        if (v)
            return v;
    }
    return NULL;
}
