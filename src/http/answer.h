/* Reading the answer of an HTTP/1.1 server that nobody trusts: its head, and where its body ends. Like multipart.h it
 * keeps nothing but its place: what it cannot decide yet stays with the caller. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"

struct answer_reader {
    int state;
    bool no_body; /* set by the caller: the request was a HEAD */
    uint64_t left;
    int chunk_state;
    size_t chunk_left, chunk_count;
};

struct answer {
    int status;
    struct pairs headers; /* names in lower case; in the arena */
    int64_t length;       /* of the body; -1: to be seen */
};

enum answer_event { ANSWER_MORE, ANSWER_HEAD, ANSWER_DATA, ANSWER_END };

/* What is at the front of data, and how many of its bytes that is. HEAD: *ret_head, in a. DATA: *ret_data, decoded in
 * place. END: the answer is complete; what follows is none of it. An answer whose length nobody said ends with the
 * connection: answer_may_end. 1xx other than 101 are skipped. After a 101 everything is DATA. */
int answer_next(struct answer_reader *r, struct arena *a, char *data, size_t n, struct answer *ret_head,
                struct str *ret_data, size_t *ret_used, struct err *e);
bool answer_may_end(const struct answer_reader *r);
