/* What code.c (fresh processes), code_session.c (contexts that last) and code_text.c (files, as text) share. */
#pragma once

#include "base/str.h"
#include "init/program.h"
#include "tool/tool.h"

struct execute_params {
    struct str code, language, stdin, session, cwd, version;
    double timeout, cpu_limit, max_idle;
    int64_t memory_limit_mb;
    struct strs args;
    struct pairs files;
};
struct execute_result {
    struct str stdout, stderr, language, status, signal, result, session, ename, evalue;
    struct strs traceback, figures, lost;
    int64_t return_code, exit_code, stdout_bytes, stderr_bytes, execution_count;
    double execution_time_ms, memory_used_mb;
    bool restarted, carried;
};
extern const struct field execute_result_fields[];

struct open_params {
    struct str session, language, cwd, version;
    double max_idle;
    bool fresh, must_exist;
};
struct open_result {
    struct str session, language, cwd;
    bool created;
    double created_at;
    int64_t max_idle;
};
struct fork_params {
    struct str session, to;
};
struct context_params {
    struct str session;
};
struct end_params {
    struct str session, language;
    bool all;
};
struct count_result {
    int64_t count;
};
struct carry_params {
    struct str session, path;
};
struct carry_result {
    struct str path;
    int64_t bytes;
    struct strs lost;
};
struct context_row {
    struct str session, language, cwd, status;
    double created_at, last_used;
    int64_t age_seconds, max_idle;
};
struct contexts_result {
    struct rows sessions;
};

struct read_params {
    struct str file_path;
    int64_t offset, limit;
};
struct glob_params {
    struct str pattern, path;
};
struct grep_params {
    struct str pattern, path, glob;
};
struct text_result {
    struct str result;
};
struct edit_params {
    struct str file_path, old_string, new_string;
    bool replace_all;
};
struct write_params {
    struct str file_path, content;
};

#ifdef IN_BOX
struct task;
struct hand;
/* The program of a version of Node.js; "": any. ERR_INVALID names the one that is there. */
int node_find(struct hand *h, struct str language, struct str version, const char **ret, struct err *e);
void execute_begin(struct task *t, const void *params);
int execute_in_context(struct hand *h, const struct execute_params *p, struct execute_result *r, struct err *e);
void open_begin(struct task *t, const void *params);
int open_run(struct hand *h, const void *params, void *result, struct err *e);
void carry_begin(struct task *t, const void *params);
void fork_begin(struct task *t, const void *params);
int fork_run(struct hand *h, const void *params, void *result, struct err *e);
int save_run(struct hand *h, const void *params, void *result, struct err *e);
int load_run(struct hand *h, const void *params, void *result, struct err *e);
void contexts_begin(struct task *t, const void *params);
void end_begin(struct task *t, const void *params);
void interrupt_context_begin(struct task *t, const void *params);
int read_run(struct hand *h, const void *params, void *result, struct err *e);
int glob_run(struct hand *h, const void *params, void *result, struct err *e);
int grep_run(struct hand *h, const void *params, void *result, struct err *e);
int edit_run(struct hand *h, const void *params, void *result, struct err *e);
int write_run(struct hand *h, const void *params, void *result, struct err *e);
#endif
