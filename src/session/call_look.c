/* Calls that only look at what their box wrote. Where the tool can do that from outside (tool.look), the box is not asked:
 * nothing is sent, nothing runs there, and one record says it all, as with a tool that has no box. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "session/call_parts.h"
#include "session/seats.h"
#include "wire/boot.h"

static void on_written(void *arg, const struct seat_reply *r, const int *take_fds)
{
    struct box *b = box_of_seat(arg, r->id);
    auto_close int fd = take_fds[0];
    struct stat st;

    if (b && r->result < 0) /* supervise went away: its next life is asked */
        b->written_asked = false;
    if (!b || b->state == BOX_CLOSING || b->written >= 0 || fd < 0 || fstat(fd, &st) < 0)
        return;
    b->written = TAKE_FD(fd);
    b->user = st.st_uid + BOX_UID; /* it is root's, and the box's users are numbered from there */
}

/* Most boxes are never asked for a file: supervise is asked with the first one, which init reads meanwhile. */
static void ask_supervise(struct box *b)
{
    if (b->written_asked)
        return;
    b->written_asked = true;
    seats_ask(b->node->seats, SEAT_LOOK, b->seat, NULL, on_written, b->node);
}

void box_look_end(struct box *b)
{
    if (b->written >= 0)
        close(TAKE_FD(b->written));
    b->written_asked = false;
}

/* As init has it: in its home, if the workspace is no directory, which a state or an image of somebody else can bring
 * about. A box that an earlier serve had may be from before the setting was changed. */
static struct str cwd_of(const struct box *b)
{
    const char *workspace = b->node->opts.box_workspace;
    bool sure = strcmp(workspace, BOX_HOME) == 0 || (strcmp(b->spec.image, "host") == 0 && !b->spec.layer_count);

    return sure && !b->adopted ? str_of(workspace) : (struct str){ 0 };
}

bool call_look(struct call *c)
{
    struct box *b = c->box;

    if (!c->tool->look || c->silent)
        return false;
    if (b->written < 0) {
        ask_supervise(b);
        return false;
    }
    struct tool_look l = { .arena = &c->arena, .files = b->written, .user = b->user, .cwd = cwd_of(b) };
    void *result = arena_alloc(&c->arena, c->tool->result_size + 1);
    field_defaults(c->tool->result, result, c->tool->result_size);
    int64_t begin = now_us();
    if (c->tool->look(&l, c->bound, result) < 0)
        return false;
    c->run_us = now_us() - begin;
    call_known_gauges(c);
    if (call_print_result(c, result))
        c->outcome = OUTCOME_OK;
    call_finish(c);
    return true;
}
