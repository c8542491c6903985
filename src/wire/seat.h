/* The conversation between serve and supervise: fixed structs over a SEQPACKET socket, one request or
 * reply a packet. supervise checks every field; it reads no JSON and touches no network.
 *
 * Boxes outlive both ends. After a reconnect, serve asks SEAT_LIST and destroys what its log does not know. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

enum { SEAT_VERSION = 5, BOX_ID_MAX = 32, LAYER_ID_MAX = 32, STATE_ROOT_MAX = 72, SEAT_GAUGES = 7 };

enum seat_verb {
    SEAT_CREATE = 1, /* spec -> one reply with the box's id and gauges */
    SEAT_DESTROY,    /* id -> reply when nothing of it is left */
    SEAT_FREEZE,     /* id */
    SEAT_THAW,       /* id */
    SEAT_LIST,       /* -> one reply per handed-out box, then one with id "" */
    SEAT_POOL,       /* -> a reply with .pool filled */
    SEAT_DEAD,       /* supervise -> serve, unasked: the box's init ended */
    /* The files of a box as they are now, as a layer. Two replies: sealed (.more is set: the box goes on, the layer is
     * on disk), then the state's root, which takes as long as hashing does. */
    SEAT_SNAPSHOT,
    SEAT_VERIFY, /* spec.layers -> the root that is really on disk */
    /* Reading states, named by spec and other, of one image. The request carries one descriptor, into which the answer
     * is written; the reply comes after it. */
    SEAT_DIFF,     /* a JSON object: added, changed, removed, truncated, rows */
    SEAT_CHECKOUT, /* spec's files as a tar */
    SEAT_HASH,     /* spec.layers -> their root, computed and kept */
    /* Removes layers and objects that nobody needs. The request carries one descriptor, a file of lines: "l ID" a
     * layer, "r HEX" a root that stays. Those of living boxes stay as well. */
    SEAT_GC,
    SEAT_CREATE_CLEAN, /* as CREATE, but no parked seat in which something was written while it was warmed up */
    SEAT_LOOK, /* id -> a descriptor, in the place of the first gauge: the directory of all that the box writes */
};

enum box_network { BOX_NETWORK_NONE, BOX_NETWORK_FULL };

/* Limits that the machine could not enforce (bits of .unenforced) */
enum { BOX_CAN_MEMORY = 1, BOX_CAN_CPU = 2, BOX_CAN_PIDS = 4, BOX_CAN_DISK = 8 };

struct box_mount {
    char from[256]; /* host directory, below one that the configuration allows */
    char to[256];   /* absolute path in the box */
    bool writable;
};

/* What a program can see of the machine and the moment, held still: see docs/replay.md. Off unless asked for. */
struct box_profile {
    bool on;
    bool aslr;     /* false: addresses are the same in every run */
    uint32_t cpus; /* how many the box sees and uses; 0: all */
    char hostname[64];
    char locale[32], timezone[48], hash_seed[16]; /* "": not set */
    int64_t start_us;                             /* the wall clock begins here; 0: it is the real one */
    int64_t offset_us;                            /* to the real one, fixed when the box was made */
};

struct box_spec {
    char image[256]; /* "host", or an absolute directory */
    int64_t memory_bytes;
    int64_t disk_bytes; /* size of the writable layer */
    int64_t shm_bytes;  /* /dev/shm */
    int64_t cpu_milli;  /* 1000 = one core */
    int64_t pids;
    int64_t open_files;
    uint32_t network; /* enum box_network */
    bool sudo;
    bool user_namespaces;  /* programs may make some of their own: docs/browser.md */
    bool allow_unenforced; /* make the box even where a limit cannot be enforced */
    bool cold;             /* never take a parked seat: for measuring */
    uint32_t mount_count;
    struct box_mount mounts[LIMIT_MOUNTS];
    uint32_t layer_count; /* the state to begin with: layers over the image, oldest first */
    char layers[LIMIT_LAYERS][LAYER_ID_MAX];
    char parent_root[STATE_ROOT_MAX]; /* that state's root, "sha256:..."; "" for the bare image */
    struct box_profile profile;
};

/* Descriptors that come with CREATE and LIST replies, in this order; a bit of .gauges tells which are there.
 * Both cgroup versions' texts are understood by whoever reads them. */
enum {
    GAUGE_CPU,
    GAUGE_MEMORY_PEAK,
    GAUGE_MEMORY_EVENTS,
    GAUGE_PIDS_EVENTS,
    GAUGE_MEMORY,
    GAUGE_MEMORY_STAT,
    GAUGE_PIDS_PEAK
};

struct seat_other { /* the state that spec's is compared with */
    uint32_t text;  /* 1: with differences of texts */
    uint32_t layer_count;
    char layers[LIMIT_LAYERS][LAYER_ID_MAX];
    char root[STATE_ROOT_MAX];
};

struct seat_request {
    uint32_t version, verb;
    uint64_t seq; /* the reply carries it */
    char id[BOX_ID_MAX];
    struct box_spec spec;    /* CREATE, VERIFY, DIFF, CHECKOUT; the packet may end before it otherwise */
    struct seat_other other; /* DIFF, CHECKOUT; the same */
    struct {
        int64_t grace_ms; /* what is younger stays */
        bool dry;         /* count only */
    } gc;                 /* GC; the same */
};

struct seat_reply {
    uint32_t version, verb;
    uint64_t seq;
    int32_t result; /* 0, or a negative errno with err filled */
    struct err err;
    char id[BOX_ID_MAX];
    uint32_t gauges;     /* bits 1 << GAUGE_* */
    uint32_t unenforced; /* bits BOX_CAN_* */
    bool warm;           /* came from the pool */
    bool frozen;         /* LIST: because somebody asked for it */
    int32_t status;      /* DEAD: wait status of init */
    bool oom;            /* DEAD: the box's memory limit killed it */
    int64_t setup_us;    /* CREATE: from request to ready */
    struct {
        uint32_t ready, wanted, boxes;
    } pool;
    /* SNAPSHOT, VERIFY */
    bool more;            /* another reply with this seq follows */
    bool changed;         /* false: the files are as at the last snapshot, and no layer was made */
    uint32_t layer_count; /* the whole state: layers over the image, oldest first */
    char layers[LIMIT_LAYERS][LAYER_ID_MAX];
    uint64_t layer_entries, layer_bytes;
    int64_t frozen_us; /* how long the box stood still */
    char root[STATE_ROOT_MAX];
    struct {
        uint64_t layers_kept, layers_removed, objects_kept, objects_removed;
        uint64_t removed_bytes, used_bytes; /* as on disk */
    } gc;
};
