/* How serve and the command line ask recorder. Every question may be asked twice without harm, so a client that loses
 * its recorder connects again and repeats what was not answered: callers wait, nothing is lost. */
#pragma once

#include "base/arena.h"
#include "base/loop.h"
#include "wire/query.h"

struct recorder_client;
typedef void on_answer(void *arg,
                       const struct answer *a); /* a is valid during the call; it may ask, not free the client */

struct recorder_client *recorder_client_new(struct loop *l, const char *home);
void recorder_client_free(struct recorder_client *c); /* questions under way get no answer */
/* take_fd: -1, or what the op "blob" stores. The callback comes later, never from inside this call. */
void recorder_ask(struct recorder_client *c, const struct query *q, int take_fd, on_answer *cb, void *arg);
size_t recorder_client_pending(const struct recorder_client *c);

/* Asks and blocks, with its own connection; waits up to RECORDER_WAIT_MS for a recorder that is not there (yet). An
 * error that recorder answers is in *ret, not returned. */
enum { RECORDER_WAIT_MS = 15000, RECORDER_RETRY_MS = 20, RECORDER_ANSWER_MS = 300000 /* it may be rebuilding */ };
int recorder_ask_wait(const char *home, const struct query *q, struct arena *a, struct answer *ret, struct err *e);

int recorder_connect(const char *home, struct err *e); /* a connected, non-blocking socket, or < 0 */
