/* What the streaming file tools share: a stream socket that is read and written in large pieces, counted and hashed. */
#pragma once

#include "base/err.h"
#include "base/sha256.h"
#include "tool/file_internal.h"

enum { FILE_STREAM_ROOM = 256 * 1024 };

struct file_stream {
    int fd;
    struct sha256 sum;
    int64_t bytes;
    char *room;   /* FILE_STREAM_ROOM bytes */
    size_t at, n; /* what is in room: read and not taken, or to be written */
};

void file_stream_init(struct file_stream *s, struct hand *h);
/* Up to n bytes; 0: the end, which the sender has confirmed. A sender that vanished is an error. */
ssize_t file_stream_read(struct file_stream *s, char *to, size_t n, struct err *e);
int file_stream_take(struct file_stream *s, struct str *ret, struct err *e); /* some bytes, borrowed; n 0: the end */
int file_stream_write(struct file_stream *s, const void *p, size_t n, struct err *e); /* buffered */
int file_stream_flush(struct file_stream *s, struct err *e);
struct str file_stream_sum(struct file_stream *s, struct arena *a);
