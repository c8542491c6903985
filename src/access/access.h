/* Who may come in. Everything that a request can show for itself is checked here, in one place; which routes ask for
 * it, and what a role may do, is decided by whoever knows the route. */
#pragma once

#include "access/key.h"
#include "access/who.h"
#include "base/arena.h"
#include "base/err.h"

enum access_mode {
    ACCESS_AUTO,     /* as required, but on a loopback address without any configured credential everyone is local */
    ACCESS_REQUIRED, /* nobody comes in without credentials */
    ACCESS_OPEN,     /* everyone may do everything, whatever the address */
};

struct access_opts {
    const char *home;
    enum access_mode mode;
    bool loopback; /* the address that we listen on */
    /* JWT: the environment's JWT_PUBLIC_KEY, or a file, which is read again when it changes */
    const char *jwt_key, *jwt_file, *jwt_audience, *jwt_issuer;
    int64_t jwt_skew_s;
    enum who_role jwt_role;
    /* bearer tokens that an operator chose: AgentScope's BEARER_TOKEN, AIO's SANDBOX_API_KEY, and a file's first line
     */
    const char *token_file;
    int64_t ticket_ttl_ms;
};

/* What the surroundings say about credentials, for guard: does this server have a door at all? */
bool access_has_credentials(const struct access_opts *o);
int access_refuse_start(const struct access_opts *o, const char *listen, struct err *e); /* < 0: it must not start */

struct access;
int access_new(const struct access_opts *o, struct access **ret, struct err *e);
void access_free(struct access *a);
struct key_store *access_keys(struct access *a);
bool access_is_required(const struct access *a);

struct credentials {    /* what a request shows; each may be absent */
    struct str bearer;  /* Authorization: Bearer */
    struct str api_key; /* X-AIO-API-Key, X-API-Key, ?api_key= */
    struct str ticket;  /* ?ticket= */
    struct str cookie;  /* a ticket in our own cookie */
    int64_t peer_uid;   /* of a unix socket's other end; < 0: not one */
};
enum access_result { ACCESS_FINE, ACCESS_MISSING, ACCESS_WRONG };
/* e is set unless ACCESS_FINE. One valid credential is enough; wrong ones beside it do no harm. */
enum access_result access_check(struct access *a, const struct credentials *c, struct who *ret, struct err *e);

/* A ticket for who; not for one who came by a ticket himself. */
int access_ticket(struct access *a, const struct who *w, struct arena *arena, struct str *ret_ticket,
                  int64_t *ret_ttl_s, struct err *e);
/* What the page of a box keeps after a ticket opened it: for that box, and an hour. It gives nothing further. */
struct str access_page_ticket(struct access *a, const struct who *w, const char *box, struct arena *arena);
/* For work of our own on somebody's behalf: good for as long as that may take. */
struct str access_job_ticket(struct access *a, const struct who *w, struct arena *arena);
