/* Whose everything is. Boxes, workers, trajectories, states and idempotency keys belong to one tenant and do not exist
 * for any other. A server without accounts has the one tenant "default", which old logs belong to as well. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define TENANT_DEFAULT "default"

struct node;

struct box_spec;

struct tenant_use { /* also what may be used; 0 there: no limit */
    int64_t boxes, memory_bytes, disk_bytes, cpu_milli, trajectories;
};
struct tenant_quota {
    struct tenant_use most;
    double calls_per_second;
};

struct tenant {    /* never freed: the few that there are live as long as the server */
    char name[64]; /* letters, digits, '.', '_', '-' */
    bool is_default;
    struct tenant_use use;
    struct tenant_quota quota;
    double tokens; /* calls that may come now */
    int64_t tokens_us;
    int64_t come_back_ms; /* of the last refusal: when to try again */
};

/* Makes it at first sight. Fails if the name is none, or if there are LIMIT_TENANTS. absent or "": the default one. */
struct tenant *tenant_get(struct node *n, struct str name, struct err *e);
bool tenant_name_ok(struct str name);
/* A client's own name for something, as a key of a map that all tenants share: "tenant NUL name". No tenant's name has
 * a NUL, so whatever a client chose, it cannot reach into another tenant's part. */
struct str tenant_key(const struct tenant *t, struct str name, struct arena *a);
size_t tenant_key_size(const struct tenant *t, struct str name);
void tenant_key_to(const struct tenant *t, struct str name, char *out);

/* --- quotas --- */
/* Reads the file if it changed: {"acme": {"boxes": 10, ...}, "*": {...}}. A file that cannot be read changes nothing.
 */
int tenant_quotas_load(struct node *n, struct err *e);
/* Charges a box, or refuses it with ERR_BUSY; what was charged is given back with the box. */
int tenant_take_box(struct tenant *t, const struct tenant_use *box, struct err *e);
void tenant_add_box(struct tenant *t, const struct tenant_use *box);
void tenant_give_box(struct tenant *t, const struct tenant_use *box);
int tenant_take_call(struct tenant *t, int64_t now, struct err *e);
int tenant_take_trajectory(struct tenant *t, struct err *e);
void tenant_give_trajectory(struct tenant *t); /* one was forgotten */
