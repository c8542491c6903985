/* A blocking HTTP/1.1 client, as much as the command line needs: one request per connection, bodies by length, in
 * chunks or until the end, read whole or line by line (event streams). */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct client;

struct client_request {
    const char *url;    /* http[s]://HOST[:PORT][/prefix], HOST:PORT, unix:/path */
    const char *method; /* "GET" */
    const char *path;   /* "/sg/v1/boxes", already escaped */
    const char *header; /* nullable: more lines, without the last one's end */
    struct str body;    /* JSON, or absent */
    int timeout_ms;     /* silence after which to give up; 0: never */
    bool for_stdout;    /* what comes goes to standard output: whoever ends reading that ends this, by SIGPIPE */
};

int client_check_url(const char *url, struct err *e);
/* Sends the request and reads the answer's head. -ETIMEDOUT: connected, but no answer in time. */
int client_open(const struct client_request *r, struct client **ret, struct err *e);
void client_close(struct client *c);   /* accepts NULL */
void client_hang_up(struct client *c); /* whoever reads from it finds its end; also from another thread */
int client_status(const struct client *c);
const char *client_type(const struct client *c);    /* Content-Type; "": none */
const char *client_session(const struct client *c); /* Mcp-Session-Id; "": none */

int client_body(struct client *c, struct buf *out, struct err *e); /* to its end, appended */
/* The next bytes as they come, valid until the next call: > 0; 0 at the end of the body. */
int client_part(struct client *c, struct str *ret, struct err *e);
/* The next line without its end, into line: 1; 0 at the end of the body. */
int client_line(struct client *c, struct buf *line, struct err *e);
