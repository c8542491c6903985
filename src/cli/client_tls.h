/* TLS for the client: a connected, blocking socket whose other end has proved that it is the host of the URL.
 *
 * It is believed if a certificate of $SANDGLASS_CA (a PEM file, or a directory of hashed ones) vouches for it, without
 * that one of the system's; with $SANDGLASS_INSECURE nobody is asked. --ca and --insecure set these variables, so that
 * programs which the command line starts trust the same. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/buf.h"

struct client_tls;

int client_tls_open(int fd, const char *host, struct client_tls **ret, struct err *e); /* fd is borrowed */
void client_tls_close(struct client_tls *t);                                           /* accepts NULL */
bool client_tls_pending(struct client_tls *t);                                         /* recv has something already */
ssize_t client_tls_recv(struct client_tls *t, void *to, size_t n);                     /* as recv */
ssize_t client_tls_send(struct client_tls *t, const void *from, size_t n);             /* as send */
