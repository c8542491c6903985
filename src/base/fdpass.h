/* Packets that carry descriptors over a unix socket. */
#pragma once

#include <sys/types.h>

enum { FDPASS_MAX = 16 };

/* 0, or -errno. The descriptors stay the caller's. */
int fdpass_send(int sock, const void *data, size_t n, const int *fds, int count, int flags);
/* The packet's bytes, 0 at the end, or -errno. *count: in, how many fit; out, how many came: the caller's,
 * close-on-exec. */
ssize_t fdpass_recv(int sock, void *data, size_t n, int *ret_fds, int *count, int flags);
