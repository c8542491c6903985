/* ZMTP 3.0, the protocol of ZeroMQ, as a client that connects with the NULL mechanism: bytes in, messages out, no
 * descriptor in it. The peer is a program of the box and may send anything: a frame that is too large is skipped and
 * counted, what is not ZMTP is an error and ends the connection. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum zmtp_type { ZMTP_DEALER, ZMTP_SUB };
enum { ZMTP_PARTS_MAX = 32, ZMTP_GREETING = 64, ZMTP_KEEP = 64 * 1024 };

struct zmtp_message {
    struct str
        parts[ZMTP_PARTS_MAX]; /* borrowed until the next call; of one beyond the cap, the first ZMTP_KEEP bytes */
    size_t n;
    uint64_t skipped; /* bytes that are in no part; 0: the message is whole */
    struct str tail;  /* the last ZMTP_KEEP bytes of the last part that was cut, not counted as skipped */
};

struct zmtp {
    enum zmtp_type type;
    bool greeted, up; /* greeted: their greeting was seen; up: their READY too */
    bool taken;       /* the message in body was handed out */
    struct buf in, out, body;
    struct buf held; /* what is to be sent once it is up: a peer takes no message before it has sent its READY */
    size_t ends[ZMTP_PARTS_MAX], n;
    uint64_t skip; /* bytes of the frame under way that nobody wants */
    uint64_t skipped;
    bool skip_more;
    char *tail; /* NULL: none */
};

void zmtp_init(struct zmtp *z, enum zmtp_type type, const char *identity); /* out holds what is to be said first */
void zmtp_done(struct zmtp *z);
/* Takes what is in z->in. 1: a message; 0: more bytes are needed; < 0: the peer does not speak ZMTP. */
int zmtp_next(struct zmtp *z, struct zmtp_message *ret, struct err *e);
bool zmtp_send(struct zmtp *z, const struct str *parts, size_t n); /* false: too much is waiting already */
