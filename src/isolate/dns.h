/* Name resolution for boxes: a process of its own in the host's network that hands questions from the gateway's address
 * to the host's resolvers, and answers back. It reads no more of a packet than its length. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct err;

pid_t dns_start(uint32_t gateway, struct err *e); /* ends with its parent */
void dns_stop(pid_t pid);
int dns_parse_servers(const char *resolv_conf, uint32_t *out, int max); /* host byte order */
