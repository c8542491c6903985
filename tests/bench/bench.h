/* What the parts of the bench program share: samples and their quantiles, a keep-alive HTTP client, spawned programs,
 * and the rows of the summary. Everything here ends the program on failure: a measurement with a hole is worthless. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct options {
    int port;
    size_t n;           /* samples of each operation */
    size_t boxes;       /* density */
    double seconds;     /* record: how long the load lasts */
    pid_t guard;        /* record: whose process tree is killed */
    const char *out;    /* directory of raw samples and of rows.tsv */
    const char *bundle; /* crun: directory with true/ and live/ */
    const char *group;  /* the server's control group, as --cgroup-name */
};
extern struct options opts;

void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
int64_t now_ns(void); /* monotonic */
void nap_ms(long ms);

/* samples.c */
struct samples {
    const char *name;
    int64_t *ns;
    size_t n, size;
};
void samples_add(struct samples *s, int64_t ns);
int64_t samples_at(const struct samples *s, double quantile); /* 0.5: median */
void samples_save(const struct samples *s);                   /* as <out>/<name>.ns, in the order they were taken */

enum better { AT_MOST, AT_LEAST, ONLY_SHOWN, NOT_MEASURED, NO_TARGET };
/* One line of the summary. ratio is ours divided by theirs. */
void row(const char *what, const char *ours, const char *theirs, double ratio, enum better better, double target);
void row_times(const char *what, const struct samples *ours, double q, const struct samples *theirs, double their_q,
               double target); /* at most target x theirs; 0: no target, the ratio only */
void row_shown(const struct samples *s);

/* http.c */
struct http {
    int fd;
    int status;
    char *body; /* of the last reply, NUL-terminated; valid until the next call */
    size_t body_n;
    char *in;
    size_t in_size;
};
void http_open(struct http *h, int port);
void http_close(struct http *h);
bool http_can_connect(int port);
/* Sends one request, waits for the whole reply. body may be NULL. */
void http_call(struct http *h, const char *method, const char *path, const char *body);
void http_expect(const struct http *h, int status, const char *what); /* dies with the reply otherwise */
/* Length of the complete reply at p, 0 if there is more to come; its status and body. */
size_t http_reply(const char *p, size_t n, int *status, const char **body, size_t *body_n);
int connect_loopback(int port);

/* First value of "key" in JSON text that we know to be ours: no parser. */
bool json_text(const char *json, const char *key, char *out, size_t size);
int64_t json_number(const char *json, const char *key, int64_t otherwise);
bool json_true(const char *json, const char *key);

/* spawn.c */
int64_t spawn_ns(char *const argv[]);                   /* posix_spawn, wait; dies unless it ends with 0 */
pid_t spawn_start(char *const argv[], int *ret_status); /* the same, without dying */

/* measures */
void measure_cold(void);
void measure_pool(void);
void measure_live(void);
void measure_density(void);
void measure_record(void);
void measure_forward(void);
void measure_terminals(void);
void measure_verify(void);
void measure_file_setup(void);
void measure_check_steps(void);
void destroy_all(void); /* boxes outlive their server: none may outlive the bench */
