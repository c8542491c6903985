/* vm:done, vm:fail and vm:evaluate: how an agent says that it is finished, and how a task is judged. The judge (evaluate.py)
 * works inside the box, as its user: a checker of a task is as little trusted as the agent. */
#include "tool/desktop_internal.h"

#include "base/limits.h"

#define P struct desktop_judge_params
#define R struct desktop_judge_result
const struct field desktop_in_fail[] = { FIELD(STR, P, reason, "why", .max = 4096), { 0 } };
const struct field desktop_out_fail[] = { FIELD(BOOL, R, fail, "true"), FIELD(STR, R, reason, "why"), { 0 } };
const struct field desktop_out_done[] = { FIELD(BOOL, R, done, "true"), { 0 } };
const struct field desktop_in_evaluate[] = {
    FIELD(JSON, P, evaluator, "{func, result, expected, options, conj, postconfig}", .required = true,
          .def_str = "object", .max = 1 * MiB),
    { 0 },
};
const struct field desktop_out_evaluate[] = {
    FIELD(NUM, R, score, "from 0 to 1"),
    FIELD(JSON, R, results, "the score of each metric", .def_str = "[number]"),
    FIELD(JSON, R, details, "{func, score, result, expected} of each metric", .def_str = "[object]"),
    FIELD(JSON, R, evaluator, "as it was given", .def_str = "object"),
    FIELD(BOOL, R, last_action_failed, "vm:fail was the last action"),
    { 0 },
};

#ifdef IN_BOX

#include "base/auto.h"
#include "init/desktop.h"
#include "init/program.h"

__asm__(".section .rodata\nevaluate_script:\n.incbin \"src/tool/evaluate.py\"\n.byte 0\n.previous\n");
extern const char evaluate_script[];

int desktop_run_done(struct hand *h, const void *params, void *result, struct err *e)
{
    (void)params;
    (void)e;
    desktop_state(h)->gave_up = false;
    ((R *)result)->done = true;
    return 0;
}

int desktop_run_fail(struct hand *h, const void *params, void *result, struct err *e)
{
    R *r = result;

    (void)e;
    desktop_state(h)->gave_up = true;
    r->fail = true;
    r->reason = ((const P *)params)->reason;
    return 0;
}

int desktop_run_evaluate(struct hand *h, const void *params, void *result, struct err *e)
{
    const P *p = params;
    R *r = result;
    struct json *said = NULL;
    const struct json *score;
    struct program_end end;
    const char *const argv[] = { "/usr/bin/python3", "-c", evaluate_script, NULL };

    r->last_action_failed = desktop_state(h)->gave_up;
    const char *ask = arena_printf(h->arena, "{\"evaluator\":%.*s,\"failed\":%s}", STR_ARG(p->evaluator),
                                   r->last_action_failed ? "true" : "false");
    int n = program_run(h,
                        &(struct program_opts){ .argv = argv,
                                                .cwd = arena_z(h->arena, h->cwd),
                                                .input = str_of(ask),
                                                .deadline_ms = h->deadline_ms,
                                                .head_max = 1 * MiB },
                        &end, e);
    if (n < 0)
        return n;
    r->evaluator = p->evaluator;
    if (end.timed_out) {
        h->outcome = OUTCOME_TIMEOUT;
        h->message = STR("the judge did not come to an end in time");
        return 0;
    }
    if (end.exit_code || json_parse(h->arena, end.out, &said, e) < 0)
        return err_set(e, ERR_SYSTEM, "evaluate: the judge failed: %.*s", (int)(end.err.n < 160 ? end.err.n : 160),
                       end.err.p ? end.err.p : "");
    struct str error = json_get_str(said, "error");
    if (error.p)
        return err_set(e, ERR_SYSTEM, "evaluator: %.*s", (int)(error.n < 220 ? error.n : 220), error.p);
    score = json_get(said, "score");
    r->score = score ? score->num : 0;
    r->results = json_get(said, "results") ? json_get(said, "results")->raw : STR("[]");
    r->details = json_get(said, "details") ? json_get(said, "details")->raw : STR("[]");
    return 0;
}
#endif
