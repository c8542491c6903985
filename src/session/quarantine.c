#include "session/quarantine.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "session/call.h"

bool box_quarantined(const struct box *b)
{
    return b->quarantine.since_us != 0;
}

int box_quarantine_error(const struct box *b, struct err *e)
{
    const char *state = b->quarantine.state;
    char since[32];

    utc_time(b->quarantine.since_us, since);
    return err_set(e, ERR_DENIED,
                   "box %s is quarantined since %s: %s%s did not prove itself when the box was reset; reset it to what "
                   "does, or destroy it",
                   b->id, since, state[0] ? "state " : "its image", state);
}

void box_quarantine_print(const struct box *b, struct jw *w)
{
    char since[32];

    if (!box_quarantined(b))
        return;
    utc_time(b->quarantine.since_us, since);
    jw_key(w, "quarantine");
    jw_obj(w);
    jw_kz(w, "state", b->quarantine.state[0] ? b->quarantine.state : NULL);
    jw_kz(w, "since", since);
    jw_kint(w, "since_us", b->quarantine.since_us);
    jw_obj_end(w);
}

static void on_still(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    char *id = arg;

    (void)take_gauges;
    if (r->result < 0 && r->err.code != ERR_NOT_FOUND)
        log_warn("quarantined box is not frozen", "box=%s error='%s', no call reaches it all the same", id, r->err.msg);
    free(id);
}

static void hold_still(struct box *b)
{
    char *id = strdup(b->id);

    if (!id)
        abort();
    b->state = BOX_QUARANTINED;
    seats_ask(b->node->seats, SEAT_FREEZE, b->seat, NULL, on_still, id);
}

void box_quarantine(struct box *b, const char *state)
{
    struct err e;

    b->quarantine.since_us = wall_us();
    snprintf(b->quarantine.state, sizeof b->quarantine.state, "%s", state);
    log_error("box quarantined", "box=%s by=%s", b->id, state[0] ? state : "image");
    if (box_record(b, &e) < 0)
        log_error("quarantine of a box not recorded", "box=%s error='%s', it is quarantined until a restart", b->id,
                  e.msg);
    hold_still(b);
    (void)box_quarantine_error(b, &e);
    box_dials_fail(b, e.msg);
    while (b->running)
        call_fail(b->running, OUTCOME_INFRA_ERROR, &e, false); /* they had begun */
    for (struct session *s = b->sessions; s; s = s->next_in_box)
        session_pump(s); /* what waits is told */
}

void box_quarantine_end(struct box *b)
{
    if (box_quarantined(b))
        log_info("quarantine of a box ends", "box=%s", b->id);
    memset(&b->quarantine, 0, sizeof b->quarantine);
}

void box_quarantine_adopt(struct box *b, const struct json *record, bool frozen)
{
    const struct json *q = json_get(record, "quarantine");
    struct str state = json_get_str(q, "state");

    if (!q)
        return;
    b->quarantine.since_us = json_get_int(q, "since_us", b->created_us);
    snprintf(b->quarantine.state, sizeof b->quarantine.state, "%.*s", STR_ARG(state));
    if (frozen)
        b->state = BOX_QUARANTINED;
    else
        hold_still(b);
}
