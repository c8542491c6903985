/* Each living box owns a range of 65536 host uids that no other box and no host user has, so that even a
 * process that left its namespaces could touch nothing. Files on disk stay 0-based: mounts translate. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum { IDMAP_RANGE = 65536, IDMAP_SLOTS = 16384, IDMAP_FIRST = 0x10000000 };

struct idmap {
    uint64_t used[IDMAP_SLOTS / 64];
    int userns[IDMAP_SLOTS]; /* descriptor + 1; 0: not made yet */
    bool nests[IDMAP_SLOTS]; /* of that one */
    unsigned start;          /* word of `used` that is looked at first */
};

/* Servers beside each other take their slots from places that their names choose, so that they seldom meet. */
void idmap_init(struct idmap *m, const char *name);

int idmap_take(struct idmap *m, struct err *e); /* the first free slot from its start on, or ERR_LIMIT */
bool idmap_claim(struct idmap *m, int slot);    /* recovery: mark as used; false: it was */
void idmap_release(struct idmap *m, int slot);  /* accepts -1 */
void idmap_done(struct idmap *m);
static inline uid_t idmap_base(int slot)
{
    return (uid_t)IDMAP_FIRST + (uid_t)slot * IDMAP_RANGE;
}

/* The user namespace that maps 0..65535 onto the slot's range, in which no further one can be made, or, if it nests,
 * LIMIT_NESTED_NAMESPACES at a time. Made at first use and kept for later boxes of the slot (it takes a process to make one): nothing in it can be changed from inside,
 * since its limits need SYS_RESOURCE and a writable /proc/sys, and keyrings and binfmt are closed by seccomp. Borrowed.
 */
int idmap_userns(struct idmap *m, int slot, bool nests, struct err *e);
/* A mapping for a mount, not for processes: files of these owners on disk belong to uid and gid, all others to nobody.
 * proc is a /proc of the caller's own pid namespace. */
struct idmap_owner {
    uid_t disk_uid, uid;
    gid_t disk_gid, gid;
};
int idmap_userns_owner(int proc, const struct idmap_owner *o, struct err *e);
