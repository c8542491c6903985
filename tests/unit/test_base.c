/* Arenas, buffers, errors, the loop, frames. */
#include "test.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/loop.h"
#include "wire/frame.h"

#define auto_arena AUTO(arena_done) struct arena
#define auto_buf   AUTO(buf_done) struct buf

TEST(arena_memory_is_zeroed_aligned_and_apart)
{
    auto_arena a = { 0 };
    char *last = NULL;

    for (size_t n = 0; n < 10000; n += 97) {
        char *p = arena_alloc(&a, n);
        EXPECT_INT((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            if (p[i]) {
                EXPECT_INT(p[i], 0);
                break;
            }
        memset(p, 0x55, n);
        EXPECT_TRUE(!last || *last == 0x55);
        last = n ? p + n - 1 : last;
    }
}

TEST(arena_reset_starts_afresh_with_zeroed_memory)
{
    AUTO(arena_done) struct arena a;

    arena_init(&a);
    for (int round = 0; round < 3; round++) {
        char *p = arena_alloc(&a, 100);
        EXPECT_INT(p[0] | p[99], 0);
        memset(p, 1, 100);
        memset(arena_alloc(&a, 100000), 1, 100000);
        EXPECT_TRUE(a.total >= 100100);
        arena_reset(&a);
        EXPECT_INT(a.total, 0);
    }
}

TEST(arena_copies_are_terminated)
{
    auto_arena a = { 0 };
    struct str s = arena_copy(&a, (struct str){ "abcdef", 3 });

    EXPECT_STR(s, "abc");
    EXPECT_INT(s.p[3], 0);
    EXPECT_TRUE(!arena_copy(&a, (struct str){ 0 }).p);
    EXPECT_STR(str_of(arena_z(&a, (struct str){ 0 })), "");
    EXPECT_STR(str_of(arena_printf(&a, "%d-%s", 7, "x")), "7-x");
}

TEST(buf_grows_up_to_its_cap_and_drops_whole_writes)
{
    auto_buf b;

    buf_init(&b, 10);
    EXPECT_TRUE(buf_z(&b, "12345"));
    EXPECT_TRUE(buf_str(&b, STR("678")));
    EXPECT_TRUE(!buf_z(&b, "9ab"));
    EXPECT_INT(b.full, true);
    EXPECT_STR(buf_view(&b), "12345678");
    EXPECT_TRUE(!buf_char(&b, '9')); /* later writes would leave a hole */
    EXPECT_STR(buf_view(&b), "12345678");
    buf_reset(&b);
    EXPECT_TRUE(buf_printf(&b, "%s", "123456789"));
    EXPECT_STR(buf_view(&b), "123456789");
    EXPECT_INT(b.full, false);
}

TEST(buf_eats_from_the_front)
{
    auto_buf b;

    buf_init(&b, 1000);
    buf_z(&b, "abcdef");
    buf_eat(&b, 2);
    EXPECT_STR(buf_view(&b), "cdef");
    buf_eat(&b, 100);
    EXPECT_STR(buf_view(&b), "");
}

TEST(buf_room_is_writable)
{
    auto_buf b;

    buf_init(&b, 5000);
    memset(buf_room(&b, 5000), 'x', 5000);
    buf_grew(&b, 5000);
    EXPECT_INT(b.n, 5000);
    EXPECT_TRUE(!buf_room(&b, 1));
}

TEST(err_keeps_code_and_outermost_context_first)
{
    struct err e = { 0 };

    EXPECT_INT(err_set(&e, ERR_NOT_FOUND, "no box %s", "b1"), -ENOENT);
    EXPECT_INT(err_wrap(&e, -ENOENT, "run %d", 7), -ENOENT);
    EXPECT_STR(str_of(e.msg), "run 7: no box b1");
    EXPECT_INT(e.code, ERR_NOT_FOUND);
    errno = EACCES;
    EXPECT_INT(err_sys(&e, "open '%s'", "f"), -EACCES);
    EXPECT_STR(str_of(e.msg), "open 'f': Permission denied");
    EXPECT_INT(e.sys, EACCES);
    EXPECT_INT(e.code, ERR_SYSTEM);
    EXPECT_STR(str_of(err_name(ERR_LIMIT)), "limit");
    EXPECT_INT(err_set(NULL, ERR_INVALID, "nobody reads this"), -EINVAL);
    EXPECT_INT(err_wrap(NULL, -EINVAL, "nor this"), -EINVAL);
}

TEST(err_too_long_a_message_is_cut_and_terminated)
{
    struct err e = { 0 };

    err_set(&e, ERR_INVALID, "%0300d", 1);
    EXPECT_INT(strlen(e.msg), sizeof e.msg - 1);
    err_wrap(&e, -1, "outer");
    EXPECT_INT(strncmp(e.msg, "outer: 000", 10), 0);
    EXPECT_INT(strlen(e.msg), sizeof e.msg - 1);
    err_wrap(&e, -1, "%0300d", 1);
    EXPECT_INT(strlen(e.msg), sizeof e.msg - 1);
}

/* What happened in a loop, as letters in order. */
struct diary {
    struct loop *loop;
    char text[64];
    size_t n;
};
struct entry {
    struct diary *d;
    char letter;
    struct loop_timer *timer;
    struct loop_fd *watch;
};

static void note(struct entry *e)
{
    if (e->d->n + 1 < sizeof e->d->text)
        e->d->text[e->d->n++] = e->letter;
}
static void on_note(void *arg)
{
    note(arg);
}
static void on_note_and_stop(void *arg)
{
    struct entry *e = arg;
    note(e);
    loop_stop(e->d->loop);
}
static void on_note_and_free_self(void *arg)
{
    struct entry *e = arg;
    note(e);
    loop_timer_free(e->timer);
    e->timer = NULL;
}

TEST(loop_timers_fire_once_in_order_of_time)
{
    struct diary d = { .loop = loop_new() };
    static const int in_ms[] = { 100, 25, 75, 0, 50, 125 }; /* far apart: the machine may be busy */
    struct entry entries[ARRAY_LEN(in_ms)];

    for (size_t i = 0; i < ARRAY_LEN(in_ms); i++) {
        entries[i] = (struct entry){ .d = &d, .letter = (char)('a' + i) };
        entries[i].timer = loop_timer_new(d.loop, in_ms[i] == 125 ? on_note_and_stop : on_note, &entries[i]);
        loop_timer_set(entries[i].timer, in_ms[i]);
    }
    EXPECT_INT(loop_run(d.loop), 0);
    EXPECT_STR(str_of(d.text), "dbecaf");
    for (size_t i = 0; i < ARRAY_LEN(in_ms); i++)
        loop_timer_free(entries[i].timer);
    loop_free(d.loop);
}

TEST(loop_timers_can_be_stopped_moved_and_freed_by_themselves)
{
    struct diary d = { .loop = loop_new() };
    struct entry never = { &d, 'n' }, moved = { &d, 'm' }, self = { &d, 's' }, end = { &d, 'e' };

    never.timer = loop_timer_new(d.loop, on_note, &never);
    moved.timer = loop_timer_new(d.loop, on_note, &moved);
    self.timer = loop_timer_new(d.loop, on_note_and_free_self, &self);
    end.timer = loop_timer_new(d.loop, on_note_and_stop, &end);
    loop_timer_set(never.timer, 1);
    loop_timer_set(moved.timer, 100000);
    loop_timer_set(self.timer, 10);
    loop_timer_set(end.timer, 80);
    loop_timer_set(moved.timer, 40);
    loop_timer_set(never.timer, -1);
    EXPECT_INT(loop_run(d.loop), 0);
    EXPECT_STR(str_of(d.text), "sme");
    EXPECT_TRUE(!self.timer);
    loop_timer_free(never.timer);
    loop_timer_free(moved.timer);
    loop_timer_free(end.timer);
    loop_timer_free(NULL);
    loop_free(d.loop);
}

TEST(loop_many_timers_keep_their_order)
{
    enum { MANY = 500 };
    static struct entry entries[MANY];
    struct diary d = { .loop = loop_new() };
    struct entry end = { &d, '.' };
    uint32_t seed = 7;

    for (size_t i = 0; i < MANY; i++) {
        seed = seed * 1664525 + 1013904223;
        entries[i] = (struct entry){ .d = &d, .letter = 'x' };
        entries[i].timer = loop_timer_new(d.loop, on_note, &entries[i]);
        loop_timer_set(entries[i].timer, 1000 + (seed >> 20));
    }
    for (size_t i = 0; i < MANY; i++) /* all but every tenth go, from all over the heap */
        if (i % 10)
            loop_timer_set(entries[i].timer, -1);
        else
            loop_timer_set(entries[i].timer, 1 + (int64_t)(i % 7));
    end.timer = loop_timer_new(d.loop, on_note_and_stop, &end);
    loop_timer_set(end.timer, 20);
    EXPECT_INT(loop_run(d.loop), 0);
    EXPECT_INT(d.n, MANY / 10 + 1);
    EXPECT_INT(d.text[MANY / 10], '.');
    for (size_t i = 0; i < MANY; i++)
        loop_timer_free(entries[i].timer);
    loop_timer_free(end.timer);
    loop_free(d.loop);
}

static void on_note_and_later(void *arg)
{
    struct entry *e = arg;
    note(e);
    if (e->d->n < 3)
        loop_later(e->d->loop, on_note_and_later, e);
}

TEST(loop_later_runs_at_the_end_of_the_turn_before_each_turn)
{
    struct diary d = { .loop = loop_new() };
    struct entry later = { &d, 'l' }, each = { &d, 't' };

    loop_later(d.loop, on_note_and_later, &later);
    loop_each_turn(d.loop, on_note_and_stop, &each);
    EXPECT_INT(loop_run(d.loop), 0);
    EXPECT_STR(str_of(d.text), "lllt");
    loop_free(d.loop);
}

static struct entry *other_entry;

static void on_ready_unwatch_both(void *arg, uint32_t events)
{
    struct entry *e = arg;
    (void)events;
    note(e);
    loop_unwatch(e->watch);
    loop_unwatch(other_entry->watch == e->watch ? e[1].watch : other_entry->watch);
    loop_later(e->d->loop, on_note_and_stop, e);
}

TEST(loop_unwatch_keeps_an_event_of_the_same_turn_from_arriving)
{
    struct diary d = { .loop = loop_new() };
    struct entry entries[2] = { { &d, 'r' }, { &d, 'r' } };
    int a[2], b[2];

    EXPECT_INT(pipe(a) + pipe(b), 0);
    EXPECT_INT(write(a[1], "x", 1) + write(b[1], "x", 1), 2);
    other_entry = &entries[0];
    entries[0].watch = loop_watch(d.loop, a[0], EPOLLIN, on_ready_unwatch_both, &entries[0]);
    entries[1].watch = loop_watch(d.loop, b[0], EPOLLIN, on_ready_unwatch_both, &entries[1]);
    EXPECT_INT(loop_run(d.loop), 0);
    EXPECT_STR(str_of(d.text), "rr"); /* one ready, one stop */
    loop_unwatch(NULL);
    loop_free(d.loop);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}

TEST(frame_reads_back_and_waits_for_the_rest)
{
    auto_arena a = { 0 };
    auto_buf b;
    struct wire_call call = { .tool = STR("bash:run"), .timeout_ms = 5, .params = STR("\0p") }, back;
    struct frame_head head;
    struct str payload;

    buf_init(&b, 10000);
    frame_add(&b, FRAME_CALL, 77, 0, wire_call_fields, &call);
    size_t first = b.n;
    frame_add(&b, FRAME_ACK, 78, 2, NULL, NULL);
    size_t whole = b.n;
    for (b.n = 0; b.n < first; b.n++)
        EXPECT_INT(frame_peek(&b, &head, &payload, NULL), 0);
    b.n = whole;
    EXPECT_INT(frame_peek(&b, &head, &payload, NULL), 1);
    EXPECT_INT(head.type, FRAME_CALL);
    EXPECT_INT(head.id, 77);
    EXPECT_INT(field_unpack(wire_call_fields, payload, &a, &back, sizeof back, NULL), 0);
    EXPECT_STR(back.tool, "bash:run");
    EXPECT_TRUE(!back.session.p);
    EXPECT_INT(back.timeout_ms, 5);
    EXPECT_TRUE(str_eq(back.params, call.params));
    buf_eat(&b, sizeof head + head.size);
    EXPECT_INT(frame_peek(&b, &head, &payload, NULL), 1);
    EXPECT_INT(head.type, FRAME_ACK);
    EXPECT_INT(head.fds, 2);
    EXPECT_INT(payload.n, 0);
}

TEST(frame_is_never_half_written)
{
    struct wire_hello hello = { .version = WIRE_VERSION, .build = STR("0123456789abcdef") };

    for (size_t cap = 0; cap < 80; cap++) {
        auto_buf b;
        struct frame_head head;
        struct str payload;
        buf_init(&b, cap);
        frame_add(&b, FRAME_HELLO, 1, 0, wire_hello_fields, &hello);
        EXPECT_INT(b.full, b.n == 0);
        EXPECT_INT(frame_peek(&b, &head, &payload, NULL), b.n > 0);
    }
}

TEST(frame_garbage_is_refused_before_its_payload_arrives)
{
    static const struct {
        struct frame_head head;
        int r;
    } cases[] = {
        { { .size = 0, .type = FRAME_HELLO }, 1 },
        { { .size = 1, .type = FRAME_HELLO }, 0 },
        { { .size = LIMIT_FRAME, .type = FRAME_RESULT, .fds = 2 }, 0 },
        { { .size = LIMIT_FRAME + 1, .type = FRAME_RESULT }, -ENOBUFS },
        { { .size = UINT32_MAX, .type = FRAME_RESULT }, -ENOBUFS },
        { { .size = 0, .type = 0 }, -EINVAL },
        { { .size = 0, .type = FRAME_TYPES }, -EINVAL },
        { { .size = 0, .type = FRAME_RESULT, .fds = 3 }, -EINVAL },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_buf b;
        struct frame_head head;
        struct str payload;
        struct err e = { 0 };
        buf_init(&b, 1000);
        buf_add(&b, &cases[i].head, sizeof cases[i].head);
        EXPECT_INT(frame_peek(&b, &head, &payload, &e), cases[i].r);
        EXPECT_INT(e.code != ERR_NONE, cases[i].r < 0);
    }
}
