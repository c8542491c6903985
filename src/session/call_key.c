/* Idempotency keys: the same key and body share one answer, also while it runs, also after a crash; the same key with
 * another body is an error. A call that never reached a box may run again. */
#include <openssl/sha.h>
#include <stdio.h>

#include "base/limits.h"
#include "session/call_parts.h"
#include "store/recorder_client.h"

static void hash_body(struct call *c)
{
    unsigned char sum[SHA256_DIGEST_LENGTH];
    struct buf b;

    buf_init(&b, LIMIT_RECORD);
    buf_str(&b, c->worker_id);
    buf_char(&b, 0);
    buf_z(&b, c->tool->name);
    buf_char(&b, 0);
    buf_str(&b, c->params);
    SHA256((unsigned char *)b.p, b.n, sum);
    for (int i = 0; i < 16; i++)
        snprintf(c->key_hash + 2 * i, 3, "%02x", sum[i]);
    buf_done(&b);
}

static void refuse_key(struct call *c)
{
    struct err e;

    err_set(&e, ERR_EXISTS, "idempotency_key: '%.*s' was used before with another worker, tool or params",
            (int)(c->key.n < 64 ? c->key.n : 64), c->key.p);
    if (map_get(&c->node->keys, c->map_key) == c)
        map_del(&c->node->keys, c->map_key); /* it stands for nothing that others could share */
    c->key = (struct str){ 0 };
    c->blameless = true;
    call_fail(c, OUTCOME_INVALID_REQUEST, &e, false);
}

/* The same key and body as a recorded step: its answer, again. */
void call_replay(struct call *c, const struct json *row)
{
    struct str outcome = json_get_str(row, "outcome"), text;

    c->replayed = true;
    c->step = json_get_int(row, "step", 0);
    c->outcome = (enum outcome)outcome_find(outcome.p ? outcome.p : "", outcome.n);
    c->retry_safe = json_get_bool(row, "retry_safe", false);
    c->code = (int)json_get_int(row, "code", 0);
    if (c->outcome == OUTCOME_INVALID_REQUEST)
        c->error = c->code == 4003   ? ERR_MISSING
                   : c->code == 4004 ? ERR_TYPE
                   : c->code == 4000 ? ERR_LIMIT
                                     : ERR_INVALID;
    c->message = arena_copy(&c->arena, json_get_str(row, "message"));
    const struct json *data = json_get(row, "observation");
    if (data && data->type != JSON_NULL)
        c->data = arena_copy(&c->arena, data->raw);
    text = json_get_str(row, "session");
    snprintf(c->session_id, sizeof c->session_id, "%.*s", STR_ARG(text));
    text = json_get_str(row, "box");
    snprintf(c->box_id, sizeof c->box_id, "%.*s", STR_ARG(text));
    text = json_get_str(row, "trajectory");
    if (text.p && text.n <= LIMIT_TRAJECTORY_ID) {
        trajectory_drop(c->node, c->trajectory);
        c->trajectory = trajectory_use(c->node, c->tenant, text, c->step);
    }
    text = json_get_str(row, "state_id");
    snprintf(c->state_id, sizeof c->state_id, "%.*s", STR_ARG(text));
    c->temporary = json_get_bool(row, "temporary", false);
    c->run_us = json_get_int(row, "run_us", 0);
    c->cpu_us = json_get_int(row, "cpu_us", 0);
    c->peak_bytes = json_get_int(row, "peak_bytes", 0);
    c->pids_peak = json_get_int(row, "pids_peak", -1);
    c->disk_used_bytes = json_get_int(row, "disk_used_bytes", -1);
    c->dropped_bytes = json_get_int(row, "dropped_bytes", 0);
    const struct json *blobs = json_get(row, "blobs");
    if (blobs && blobs->type == JSON_OBJ)
        c->blobs = arena_copy(&c->arena, blobs->raw);
    if (!str_is(json_get_str(row, "surface"), "import")) /* which may name what it has never seen */
        call_unstore(c);
    call_finish(c);
}

static void on_key(void *arg, const struct answer *a)
{
    struct call *c = arg;
    struct json *row = NULL;
    struct err e;

    if (a->error || json_parse(&c->arena, a->json, &row, &e) < 0) {
        err_set(&e, ERR_BUSY, "the recorder could not say whether the idempotency key was used: %.*s",
                STR_ARG(a->message));
        call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
        return;
    }
    const struct json *found = json_get(row, "found");
    bool absent = found && found->type == JSON_BOOL && !found->b;
    if (absent || json_get_bool(row, "retry_safe", false) || !json_get_str(row, "outcome").p)
        call_proceed(c); /* never seen, or never reached a box: it may run */
    else if (!str_is(json_get_str(row, "key_hash"), c->key_hash))
        refuse_key(c);
    else
        call_replay(c, row);
}

/* True: the call goes on elsewhere (it joined another, or waits for the recorder). */
bool call_use_key(struct call *c)
{
    struct call *other = map_get(&c->node->keys, c->map_key);

    hash_body(c);
    if (other && strcmp(other->key_hash, c->key_hash) != 0) {
        refuse_key(c);
        return true;
    }
    if (other) { /* it runs now: share its answer */
        call_join(c, other);
        return true;
    }
    map_put(&c->node->keys, c->map_key, c);
    c->state = CALL_LOOKUP;
    struct query q = { .op = STR("key"),
                       .key = c->key,
                       .tenant = str_of(c->tenant->name),
                       .upto = (int64_t)journal_end(c->node->journal) };
    recorder_ask(c->node->recorder, &q, -1, on_key, c);
    return true;
}
