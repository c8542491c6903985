/* The door: who sent a request, may that one use this route, and what every answer carries besides. */
#pragma once

#include "access/access.h"
#include "surface/surface.h"

struct door_opts {
    struct access *access;
    const char *cors_origins; /* "" none, "*", or origins separated by spaces or commas */
    const char *box_domain;   /* "": boxes have names below localhost only */
    const char *host_names;   /* our own, separated by spaces or commas: "{port}-{name}" is a port of the default box */
    bool tls;                 /* answers go over TLS */
    bool log_requests;        /* one line of JSON on stdout for each */
};

void door_greet(struct web *w); /* request id and the headers that every answer gets; before anything is answered */
/* Is this a page of another site that may not use us, does nobody know who sends it, or may that one not use w->route?
 * Then it was answered: with 403, 401, 403. Answers a preflight, too. Without a route only those who are known may learn
 * that there is none. */
bool door_turned_away(struct web *w);
bool door_is_shut(struct web *w);      /* will it be turned away? Says it by the head alone, and answers nothing */
bool door_is_tls(const struct web *w); /* does it come over TLS, to us or to a proxy in front of us? */
struct str door_without_ticket(const struct web *w, struct str cookies); /* a Cookie header's value without ours */
bool door_came_by_ticket(const struct web *w);
void door_keep_page(struct web *w, const char *box); /* the answer leaves a cookie that is good for this box's pages */
struct str door_ticket_of(const struct web *w); /* the one that it came with, in the URL or as a cookie; or absent */

extern const struct route door_routes[], key_routes[], secret_routes[];
const struct door_opts *surfaces_door(struct surfaces *s);
