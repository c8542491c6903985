#include "init/spool.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/loop.h"
#include "wire/frame.h"

/* The memfd: HEAD bytes as they came, then a ring of RING bytes. */
static const int64_t HEAD = LIMIT_OUTPUT_KEPT / 4;
static const int64_t RING = LIMIT_OUTPUT_KEPT - LIMIT_OUTPUT_KEPT / 4;

void spool_init(struct spool *s)
{
    *s = (struct spool){ .memfd = -1 };
}

void spool_done(struct spool *s)
{
    if (s->memfd >= 0)
        close(s->memfd);
    s->memfd = -1;
}

/* Where the byte at offset is, and how many follow it there. */
static int64_t place(int64_t offset, int64_t *run)
{
    if (offset < HEAD) {
        *run = HEAD - offset;
        return offset;
    }
    int64_t at = (offset - HEAD) % RING;
    *run = RING - at;
    return HEAD + at;
}

static void add(struct spool *s, const char *p, int64_t n)
{
    if (s->memfd < 0)
        s->memfd = memfd_create("job", MFD_CLOEXEC);
    s->last_us = now_us();
    while (n > 0) {
        int64_t run;
        int64_t at = place(s->total, &run);
        run = run < n ? run : n;
        (void)!pwrite(s->memfd, p, (size_t)run, at);
        s->total += run;
        p += run;
        n -= run;
    }
}

int spool_drain(struct spool *s, int fd)
{
    char chunk[8192];

    for (int i = 0; i < 128; i++) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n == 0)
            return 0;
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 1 : -errno;
        add(s, chunk, n);
    }
    return 1;
}

static int64_t settled_in_ms(const struct spool *s)
{
    int64_t ms = SPOOL_SETTLE_MS - (now_us() - s->last_us) / 1000;

    return ms > 0 ? ms : 0;
}

bool spool_flows(const struct spool *s, int64_t to, bool running)
{
    return to < s->total || (running && s->total);
}

bool spool_settled(const struct spool *s, int64_t to)
{
    return to >= s->total && settled_in_ms(s) == 0;
}

void spool_hold(struct spool *s, int64_t to, int64_t n)
{
    if (n <= 0 || n > to || to > s->total)
        return;
    if (s->read_to == to)
        s->read_to = to - n;
    s->held_from = to - n;
    s->held_to = to;
}

int64_t spool_wait_ms(const struct spool *s, int64_t from)
{
    if (s->total <= from)
        return -1;
    if (s->total != s->held_to || from < s->held_from)
        return 0;
    return s->held_to - s->held_from > WIRE_HELD_SHORT ? -1 : settled_in_ms(s);
}

static int64_t ring_begin(const struct spool *s)
{
    return s->total - RING > HEAD ? s->total - RING : HEAD;
}

bool spool_has_room(const struct spool *s, int64_t from, int64_t more)
{
    return s->total + more - (from > HEAD ? from : HEAD) <= RING;
}

/* So many bytes from *from on are gone; it moves behind them. */
static int64_t skip_gap(const struct spool *s, int64_t *from)
{
    *from = *from < 0 ? 0 : *from > s->total ? s->total : *from;
    int64_t gap = *from >= HEAD && *from < ring_begin(s) ? ring_begin(s) - *from : 0;

    *from += gap;
    return gap;
}

/* Adds to a text that has room for max bytes more. */
static struct str read_into(const struct spool *s, int64_t *offset, size_t max, struct str text_so_far)
{
    int64_t from = *offset, ring_from = ring_begin(s);
    char *text = (char *)text_so_far.p;
    size_t n = text_so_far.n;

    for (size_t left = max; left && from < s->total && !(from >= HEAD && from < ring_from);) {
        int64_t run;
        int64_t at = place(from, &run);
        if (run > s->total - from)
            run = s->total - from;
        if (run > (int64_t)left)
            run = (int64_t)left;
        ssize_t got = pread(s->memfd, text + n, (size_t)run, at);
        if (got <= 0)
            break;
        n += (size_t)got;
        from += got;
        left -= (size_t)got;
    }
    *offset = from;
    return (struct str){ text, n };
}

struct str spool_read_on(const struct spool *s, int64_t *offset, size_t max, struct arena *a)
{
    (void)skip_gap(s, offset);
    return read_into(s, offset, max, (struct str){ arena_alloc(a, max + 1), 0 });
}

struct str spool_read(const struct spool *s, int64_t *offset, size_t max, struct arena *a)
{
    int64_t gap = skip_gap(s, offset);
    struct str text = { arena_alloc(a, max + 64), 0 };

    if (gap)
        text.n = (size_t)snprintf((char *)text.p, 64, "[... %lld bytes omitted ...]\n", (long long)gap);
    return read_into(s, offset, max, text);
}
