/* Who sent a request, and what that one may do. Found once per request, before any handler runs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum who_role { ROLE_NONE, ROLE_VIEWER, ROLE_AGENT, ROLE_OPERATOR, ROLE_ADMIN, ROLE_COUNT };

enum {                  /* what a route asks for, and what a role or a key gives */
       MAY_READ = 1,    /* look at boxes, trajectories, states */
       MAY_EXECUTE = 2, /* call tools, use boxes and sessions that are there */
       MAY_MANAGE = 4,  /* make and end boxes, sessions, states */
       MAY_ADMIN = 8,   /* keys, secrets, quotas, metrics, the server itself */
};

struct who {
    char tenant[64];
    enum who_role role;
    unsigned may;
    char box[32];      /* an agent's: the only one that exists for it; "" for others */
    char key[24];      /* id of the API key, "" if there was none */
    char subject[128]; /* for people and the audit log: a token's sub, a key's name, "local" */
    char how[16]; /* "local", "jwt", "key", "ticket", "page" (a ticket that a page holds), "token", "peer", "open" */
};

const char *role_name(enum who_role r);
enum who_role role_find(const char *name, unsigned long n); /* ROLE_NONE: no such role */
unsigned role_may(enum who_role r);
