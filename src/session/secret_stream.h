/* The values of secrets in a stream of bytes: asterisks in their place, as many as they have bytes, so that lengths and
 * offsets stay true. A value may lie across the border of two pieces: the end of a piece that could be the beginning of
 * a value waits for the next one, however long that takes, at most SECRET_MAX bytes of it. */
#pragma once

#include "base/buf.h"
#include "session/secret.h"

struct secret_stream {
    const struct secrets *secrets;
    const struct tenant *tenant;
    size_t eager;         /* so many bytes of a beginning do not wait: for people who type */
    struct buf kept, out; /* as it came, from where a value may begin; the same, covered: what is passed on */
    size_t told;          /* bytes at the front of kept that were passed on already */
    size_t drop;          /* and of those that are not needed any more: gone with the next call */
};

enum { SECRET_EAGER = 3 }; /* for live output */

void secret_stream_init(struct secret_stream *f, const struct secrets *s, const struct tenant *t, size_t eager);
void secret_stream_done(struct secret_stream *f);
/* What can be passed on now, valid until the next call. last: nothing follows. */
struct str secret_stream_put(struct secret_stream *f, struct str data, bool last);
size_t secret_stream_waits(const struct secret_stream *f); /* bytes that were put and not passed on */
/* How many bytes before the first one that is wanted have to be put, so that a value which lies across is found. */
size_t secret_stream_look_back(const struct secret_stream *f);

/* How many bytes at the end of a text may be the beginning of a value. */
size_t secrets_begun(const struct secrets *s, const struct tenant *t, struct str text);
/* The same for a file: the descriptor itself, or another one. -1: neither could be had. */
int secrets_redact_fd(const struct secrets *s, const struct tenant *t, int take_fd);
