/* desktop:handover: the agent asks a person to do something on the screen, and waits. The person sees the message on the
 * page /vnc/index.html and says there that it is done, which is desktop:hand_back. */
#include "tool/desktop_internal.h"

#include "base/auto.h"
#include "base/limits.h"

#define P struct desktop_handover_params
const struct field desktop_in_handover[] = {
    FIELD(STR, P, message, "what the person is asked to do", .required = true, .max = 4096),
    FIELD(NUM, P, timeout, "seconds to wait", .def_num = 60, .min = 0, .max = 86400),
    { 0 },
};
const struct field desktop_in_hand_back[] = { FIELD(STR, P, note, "what the agent is told", .max = 4096), { 0 } };
#undef P
#define R struct desktop_handover_result
const struct field desktop_out_handover[] = {
    FIELD(BOOL, R, done, "a person said so; else the time was over"),
    FIELD(STR, R, note, "what the person says", .nullable = true),
    FIELD(NUM, R, waited, "seconds"),
    { 0 },
};
const struct field desktop_out_hand_back[] = { FIELD(INT, R, told, "calls that waited for it"), { 0 } };

#ifdef IN_BOX

#include <stdlib.h>

#include "init/browser.h"
#include "init/driver.h"
#include "init/init.h"
#include "init/task.h"

struct handover {
    struct handover *next;
    struct task *task;
    struct loop_timer *timer;
    int64_t began_ms;
};

static void finish(struct handover *o, enum outcome outcome, bool done, struct str note)
{
    struct desktop_handover_result r = { .done = done, .note = note };
    struct task *t = o->task;

    for (struct handover **at = &t->init->handovers; *at; at = &(*at)->next)
        if (*at == o) {
            *at = o->next;
            break;
        }
    r.waited = (double)(now_ms() - o->began_ms) / 1000;
    loop_timer_free(o->timer);
    free(o);
    task_finish(t, outcome, NULL, &r, 0, NULL);
}

static void on_late(void *arg)
{
    finish(arg, OUTCOME_OK, false, (struct str){ 0 });
}

static void cancel(struct task *t)
{
    finish(t->state, OUTCOME_KILLED, false, (struct str){ 0 });
}

void desktop_begin_handover(struct task *t, const void *params)
{
    const struct desktop_handover_params *p = params;
    int64_t ms = (int64_t)(p->timeout * 1000);
    struct handover *o = calloc(1, sizeof *o);

    if (!o)
        abort();
    if (t->call.timeout_ms > 0 && t->call.timeout_ms < ms)
        ms = t->call.timeout_ms;
    *o = (struct handover){ .next = t->init->handovers, .task = t, .began_ms = now_ms() };
    t->init->handovers = o;
    t->state = o;
    t->cancel = cancel;
    o->timer = loop_timer_new(t->init->loop, on_late, o);
    loop_timer_set(o->timer, ms);
}

void desktop_begin_hand_back(struct task *t, const void *params)
{
    const struct desktop_handover_params *p = params;
    struct desktop_handover_result r = { 0 };
    struct driver *d = driver_find(t->init, &browser_kind, STR("browser"));

    while (t->init->handovers) {
        finish(t->init->handovers, OUTCOME_OK, true, p->note);
        r.told++;
    }
    if (d && driver_interrupt(d)) /* browser:captcha waits for it; other calls of a browser do not heed it */
        r.told++;
    task_finish(t, OUTCOME_OK, NULL, &r, 0, NULL);
}
#endif
