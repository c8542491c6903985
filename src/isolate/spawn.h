/* The first process of a box, from its fork to the life of init. It is the program sandglass-init from the beginning.
 *
 *   supervise                             spawner                    child (pid 1 of the box)
 *   spawn_begin  v2 cgroup -------------> clone3 ------------------> unshare
 *                v1 cgroups, socket       network namespace
 *                stage -------------------------------------------> attach to cgroups
 *   spawn_finish  <---------- pid, pidfd
 *     ... any time later: until here nothing depends on what is asked for, so it is done ahead. For a box that somebody
 *     waits for, spawn_go comes before spawn_finish: the child goes on while we hear of it
 *   spawn_go     spec, boot ---------------------------------------> build root, enter it, network and user namespaces,
 *   cgroup limits, state file                                        drop rights, become init: READY
 *
 * A step of the child that fails sends its struct err over the channel and ends the child. Nothing here waits, except
 * for the fork. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/boot.h"

struct cgroups;
struct child_go;
struct err;
struct network;
struct spawner;

/* Host paths that every box may need; set once */
struct spawn_paths {
    const char *host_root, *host_sudo;     /* image "host" */
    const char *image_roots, *mount_roots; /* colon-separated; may be NULL */
    const char *layers;                    /* directory of layers */
};

struct spawn_opts {
    const char *id;
    const struct cgroups *groups;
    const struct spawn_paths *paths;
    const struct network *network;
    int slot;   /* of its ids and addresses */
    int userns; /* the mapping of its ids */
    struct spawner *spawner;
    int sockets; /* directory for <id>.sock */
    uid_t serve_uid;
    gid_t serve_gid;
};

struct spawned {
    pid_t pid; /* 0: there is no process */
    int pidfd;
    bool asked;  /* the spawner's answer is not taken in yet */
    int channel; /* SEQPACKET; an err comes from it if the child failed */
    int ready;   /* init writes one byte */
    int scratch; /* directory of all that the box writes, once it is ready; -1 */
};

/* Leaves what it made in *s, also on failure; spawn_finish follows in any case, and tells what came of the fork. Then the
 * caller ends the process by s->pidfd. */
int spawn_begin(const struct spawn_opts *o, struct spawned *s, struct err *e);
int spawn_finish(struct spawner *spawner, struct spawned *s, struct err *e);
int spawn_go(const struct spawned *s, const struct child_go *go, struct err *e);
void spawn_close(struct spawned *s); /* descriptors only */
/* A descriptor of its mount namespace, or -1: the namespace lives on until it is closed. */
int spawn_mounts(const struct spawned *s);
/* Takes in what the child has sent: s->scratch. Why it failed, if it said so: true and *ret filled. */
bool spawn_story(struct spawned *s, struct err *ret);

/* A sealed copy of the program, so that nobody in a box can write to the file that the host runs (CVE-2019-5736). */
int spawn_copy_init(const char *path, struct err *e);
