/* The conversation between serve and recorder, over a unix stream: frames as in frame.h's head, a packed
 * struct query one way, a packed struct answer with ready JSON the other. Requests may be pipelined; the
 * answer carries the request's id. A request of kind "blob" brings one memfd. */
#pragma once

#include "base/field.h"

struct query {
    struct str op;     /* "sync" "blob" "drop_audit" "open" "trajectories" "trajectory" "steps" "step" "key" ... */
    struct str id;     /* trajectory */
    struct str tenant; /* whose; absent: the default one's */
    struct str worker, tool, outcome, box, session, key, state;
    struct str tag, min_reward, max_reward; /* trajectories */
    int64_t since_us, until_us;             /* 0: any */
    int64_t after;                          /* steps: with a number above this. trajectories: cursor */
    int64_t step;                           /* one step */
    int64_t call;                           /* one step by its call's number; 0: by id and step */
    int64_t limit;                          /* rows, at most 1000 */
    int64_t upto;                           /* journal position that must be indexed (or synced) first */
};
struct answer {
    int64_t error; /* enum err_code */
    struct str message;
    struct str json; /* the result */
};
extern const struct field query_fields[], answer_fields[];
