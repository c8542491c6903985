/* The system-call filter of a box: one BPF program, built once from a table and loaded as bytes.
 *
 * It is a deny list on purpose: agents run every program there is, and what the filter takes away is kernel surface
 * that a box has no use for, not the fence itself (namespaces, ids and capabilities are). What the kernel
 * learns after us is unknown to the list, so numbers above the newest known one do not exist. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "wire/boot.h"

struct err;

enum { SECCOMP_NEWEST = 462, SECCOMP_MAX_INSNS = 1024 };

struct seccomp_program {
    struct sock_filter insns[SECCOMP_MAX_INSNS];
    unsigned short count;
    unsigned short pass_at[BOOT_PASS_WORDS]; /* the comparisons with the pass */
    bool nests;
};

/* nests: programs may make user, pid and network namespaces, as Chromium's sandbox does. Who has made one has every right
 * in it, so what only such rights reach is closed instead: mounts as ever, and the configuration of networks, of which
 * init hands out sockets that belong to the box's own (init/rtnetlink.h). Built on first use. */
const struct seccomp_program *seccomp_program(bool nests);
/* For this process and its children; needs no_new_privs. With a pass (those that nest) *ret_asked is a descriptor that tells of
 * every socket that is to be rtnetlink's and does not show it; -1 where the kernel has none: then there are no such sockets. */
int seccomp_load(const struct boot_pass *pass, int *ret_asked, struct err *e);
