/* One output stream of a command, bounded: its head and its tail in memory, its first bytes up to a cap in a memfd
 * that is made only if head and tail do not hold everything, or not as text. */
#pragma once

#include <stdint.h>

#include "base/arena.h"

struct stream {
    size_t head_max, tail_max;
    int64_t kept_max;
    char *head, *tail; /* tail is a ring once it is full */
    size_t head_n, tail_n, tail_at, head_size, tail_size;
    int64_t total;
    int64_t kept; /* bytes in the memfd */
    int memfd;    /* -1: none */
};

void stream_init(struct stream *s, int64_t head_max, int64_t tail_max, int64_t kept_max);
void stream_done(struct stream *s); /* accepts one that was done */
void stream_add(struct stream *s, const char *p, size_t n);
/* In front of all that is there; false: too much is. Then it is gone. */
bool stream_put_back(struct stream *s, const char *p, size_t n);
void stream_skip(struct stream *s, int64_t n); /* so many bytes were there and nobody has them */
/* Head, a line that says how much is missing, tail; in a. Cut at the borders of characters. */
struct str stream_text(const struct stream *s, struct arena *a);
struct str stream_last_line(const struct stream *s, struct arena *a); /* without a newline; "" if it ended with one */
int64_t stream_dropped(const struct stream *s); /* bytes that are neither in the text nor in the memfd */
void stream_keep(struct stream *s);             /* into the memfd, also if it is short: its text is not what it was */
int stream_take_memfd(struct stream *s);

/* Reads fd, which must not block, until it is empty. 0: end of file, 1: more may come, < 0: an error.
 * *scratch grows to the size of a burst; the owner frees it when the command is over. */
int stream_drain(struct stream *s, int fd, char **scratch);
