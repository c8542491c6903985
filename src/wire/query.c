#include "wire/query.h"

const struct field query_fields[] = {
    FIELD(STR, struct query, op, "what is asked"),
    FIELD(STR, struct query, id, "trajectory"),
    FIELD(STR, struct query, tenant, "whose"),
    FIELD(STR, struct query, worker, "filter"),
    FIELD(STR, struct query, tool, "filter"),
    FIELD(STR, struct query, outcome, "filter"),
    FIELD(STR, struct query, box, "filter"),
    FIELD(STR, struct query, session, "filter"),
    FIELD(STR, struct query, key, "idempotency key"),
    FIELD(STR, struct query, state, "id or name"),
    FIELD(STR, struct query, tag, "filter"),
    FIELD(STR, struct query, min_reward, "filter"),
    FIELD(STR, struct query, max_reward, "filter"),
    FIELD(INT, struct query, since_us, "filter"),
    FIELD(INT, struct query, until_us, "filter"),
    FIELD(INT, struct query, after, "cursor"),
    FIELD(INT, struct query, step, "number"),
    FIELD(INT, struct query, call, "number"),
    FIELD(INT, struct query, limit, "rows"),
    FIELD(INT, struct query, upto, "position"),
    { 0 },
};
const struct field answer_fields[] = {
    FIELD(INT, struct answer, error, "enum err_code"),
    FIELD(STR, struct answer, message, "for people"),
    FIELD(STR, struct answer, json, "the result"),
    { 0 },
};
