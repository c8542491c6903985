/* A Jupyter kernel, driven from its driver's process: found by its spec, started in the box, spoken to in the Jupyter
 * messaging protocol (5.3) over ZeroMQ's, on unix sockets in a directory that only the box's user can enter.
 *
 *   DOWN --start--> STARTING --kernel_info, subscribed--> IDLE --execute--> BUSY --reply and idle--> IDLE
 *                   BUSY --input_request--> ASKING --input_reply--> BUSY
 *   any --the process ends, or speaks nonsense--> DOWN; the next call starts another and says so
 */
#pragma once

#include "init/driver.h"
#include "init/outputs.h"
#include "init/peer.h"
#include "wire/zmtp.h"

extern const struct driver_kind jupyter_kind;

enum { KERNELS_MAX = 64 };

struct kernel_spec {
    struct str name, display_name, language;
    struct strs argv;
    struct pairs env;
    bool interrupt_by_message;
};
/* All that are installed in the box; ERR_NOT_FOUND names them if the wanted one is not among them. */
size_t kernel_specs(struct arena *a, struct kernel_spec *ret, size_t max);
int kernel_spec_find(struct arena *a, struct str name, struct kernel_spec *ret, struct err *e);

struct cell {
    struct str code;
    bool silent;         /* no output, no number */
    struct strs answers; /* to input requests, in order */
    bool no_stdin;       /* input() is an error: nobody could answer */
    double timeout;      /* seconds; 0: the call's own */
};

enum cell_status { CELL_OK, CELL_ERROR, CELL_TIMEOUT, CELL_INTERRUPTED, CELL_ASKING, CELL_DIED };

struct cell_end {
    enum cell_status status;
    int64_t count;
    struct str ename, evalue, prompt, msg_id;
    struct strs traceback;
    bool password;
    bool lost;               /* it did not react to the interrupt, and its kernel was ended */
    struct outputs *outputs; /* until the next cell */
    double limit_s;
    int64_t run_us;
};

/* Makes ready, in init, what the next kernel comes from: the fork server, or one that waits. */
void kernel_ahead(struct init *in);
/* Whether a new one of that name (empty: the default) may be the one that waits: driver_ask.spare. */
bool kernel_may_wait(const struct init *in, struct str name);

struct kernel;
/* The driver's own, started if need be. name, cwd: of a new one; cwd of an old one is entered if it is Python. */
int kernel_get(struct hand *h, struct str name, struct str cwd, struct kernel **ret, struct err *e);
/* Its variables to a file or from it: op is "save" or "load" (script/carry.py), only of Python. ret_lost: what was left
 * out, in a. kernel_carry.c */
int kernel_carry(struct hand *h, struct kernel *k, const char *op, const char *path, struct arena *a,
                 struct strs *ret_lost, struct err *e);
/* Since the last call of this: it began with the variables of the one that a state was taken of. */
bool kernel_carried(struct kernel *k, struct strs *ret_lost);
struct str kernel_language(const struct kernel *k);
bool kernel_fresh(struct kernel *k); /* since the last call of this: the former one died or was restarted */
struct str kernel_name(const struct kernel *k);
struct str kernel_background(struct kernel *k, struct arena *a); /* what earlier cells wrote since */
int kernel_run(struct hand *h, struct kernel *k, const struct cell *c, struct cell_end *ret, struct err *e);
int kernel_answer(struct hand *h, struct kernel *k, struct str text, double timeout, struct cell_end *ret,
                  struct err *e);
bool kernel_is_up(const struct hand *h);
bool kernel_asking(const struct hand *h); /* its cell waits for input */
void kernel_stop(struct hand *h);
/* Any other request of the shell channel; content is JSON. Returns the reply's content, in the hand's arena. */
int kernel_request(struct hand *h, struct kernel *k, const char *type, struct str content, struct str *ret,
                   struct err *e);
