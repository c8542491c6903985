#include "init/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"

/* DRAIN_MAX: more than a pipe holds, so that one drain gets all that was written before it, yet a program that never
 * stops writing does not hold the loop. */
enum { READ_SMALL = 2048, READ_BIG = 64 * 1024, DRAIN_MAX = 2 * 1024 * 1024 };

void stream_init(struct stream *s, int64_t head_max, int64_t tail_max, int64_t kept_max)
{
    *s = (struct stream){
        .head_max = (size_t)(head_max < 0               ? 0
                             : head_max > LIMIT_FILE_IO ? LIMIT_FILE_IO
                                                        : head_max),
        .tail_max = (size_t)(tail_max < 0               ? 0
                             : tail_max > LIMIT_FILE_IO ? LIMIT_FILE_IO
                                                        : tail_max),
        .kept_max = kept_max < 0 ? 0 : kept_max,
        .memfd = -1,
    };
}

void stream_done(struct stream *s)
{
    free(s->head);
    free(s->tail);
    if (s->memfd > 0) /* 0 is a zeroed stream */
        close(s->memfd);
    *s = (struct stream){ .memfd = -1 };
}

static void need(char **p, size_t *size, size_t n, size_t max)
{
    if (n <= *size)
        return;
    size_t to = *size ? *size : 512;
    while (to < n)
        to *= 2;
    *size = to < max ? to : max;
    *p = realloc(*p, *size);
    if (!*p)
        abort();
}

static void keep(struct stream *s, const char *p, size_t n)
{
    if (s->memfd < 0 || s->kept >= s->kept_max)
        return;
    if ((int64_t)n > s->kept_max - s->kept)
        n = (size_t)(s->kept_max - s->kept);
    while (n) {
        ssize_t w = write(s->memfd, p, n);
        if (w <= 0)
            return; /* out of memory: what is missing is counted as dropped */
        s->kept += w;
        p += w;
        n -= (size_t)w;
    }
}

/* Everything up to here is still in head and tail: the last moment to write it down. */
static void spill(struct stream *s)
{
    s->memfd = memfd_create("output", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    keep(s, s->head, s->head_n);
    keep(s, s->tail, s->tail_n);
}

static void tail_add(struct stream *s, const char *p, size_t n)
{
    if (n >= s->tail_max) { /* replaces all of it */
        p += n - s->tail_max;
        n = s->tail_max;
        s->tail_n = s->tail_at = 0;
    }
    if (n == 0)
        return;
    need(&s->tail, &s->tail_size, s->tail_n + n, s->tail_max);
    if (s->tail_n < s->tail_max) {
        size_t part = s->tail_max - s->tail_n < n ? s->tail_max - s->tail_n : n;
        memcpy(s->tail + s->tail_n, p, part);
        s->tail_n += part;
        p += part;
        n -= part;
    }
    while (n) {
        size_t part = s->tail_max - s->tail_at < n ? s->tail_max - s->tail_at : n;
        memcpy(s->tail + s->tail_at, p, part);
        s->tail_at = (s->tail_at + part) % s->tail_max;
        p += part;
        n -= part;
    }
}

bool stream_put_back(struct stream *s, const char *p, size_t n)
{
    if (s->tail_n || s->memfd > 0 || s->total != (int64_t)s->head_n)
        return false;
    s->head_max += n;
    need(&s->head, &s->head_size, s->head_n + n, s->head_max);
    memmove(s->head + n, s->head, s->head_n);
    memcpy(s->head, p, n);
    s->head_n += n;
    s->total += (int64_t)n;
    return true;
}

/* What follows is the tail: so that the text says how much is missing, and where. */
void stream_skip(struct stream *s, int64_t n)
{
    s->total += n;
    s->tail_n = s->tail_at = 0;
}

void stream_add(struct stream *s, const char *p, size_t n)
{
    if (n == 0)
        return;
    if (s->memfd < 0 && s->kept_max > 0 && (uint64_t)s->total + n > s->head_max + s->tail_max)
        spill(s);
    keep(s, p, n);
    s->total += (int64_t)n;
    if (s->head_n < s->head_max) {
        size_t part = s->head_max - s->head_n < n ? s->head_max - s->head_n : n;
        need(&s->head, &s->head_size, s->head_n + part, s->head_max);
        memcpy(s->head + s->head_n, p, part);
        s->head_n += part;
        p += part;
        n -= part;
    }
    tail_add(s, p, n);
}

static bool continues(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* How many bytes at the end of p are the beginning of a character whose rest was cut off. */
static size_t cut_end(const char *p, size_t n)
{
    size_t back = 0;

    while (back < 3 && back < n && continues(p[n - 1 - back]))
        back++;
    if (back == n)
        return 0;
    unsigned char lead = (unsigned char)p[n - 1 - back];
    size_t whole = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return whole > back + 1 ? back + 1 : 0;
}

static void tail_copy(const struct stream *s, char *to)
{
    if (s->tail_n == 0)
        return;
    memcpy(to, s->tail + s->tail_at, s->tail_n - s->tail_at);
    memcpy(to + s->tail_n - s->tail_at, s->tail, s->tail_at);
}

struct str stream_text(const struct stream *s, struct arena *a)
{
    int64_t missing = s->total - (int64_t)(s->head_n + s->tail_n);
    char *text = arena_alloc(a, s->head_n + s->tail_n + 64);
    size_t n = s->head_n;

    if (n)
        memcpy(text, s->head, n);
    if (missing == 0) {
        tail_copy(s, text + n);
        return (struct str){ text, n + s->tail_n };
    }
    size_t cut = cut_end(text, n);
    n -= cut;
    missing += (int64_t)cut;

    char *tail = arena_alloc(a, s->tail_n + 1);
    size_t tail_n = s->tail_n;
    tail_copy(s, tail);
    for (int i = 0; i < 3 && tail_n && continues(*tail); i++) {
        tail++;
        tail_n--;
        missing++;
    }
    int m = snprintf(text + n, 64, "%s[... %lld bytes omitted ...]\n", n ? "\n" : "", (long long)missing);
    n += (size_t)m;
    if (n + tail_n > s->head_n + s->tail_n + 64) { /* the marker had less room than it took: cannot happen */
        tail_n = s->head_n + s->tail_n + 64 - n;
    }
    memcpy(text + n, tail, tail_n);
    return (struct str){ text, n + tail_n };
}

struct str stream_last_line(const struct stream *s, struct arena *a)
{
    const char *p = s->tail_n ? s->tail : s->head;
    size_t n = s->tail_n ? s->tail_n : s->head_n;
    char *whole = NULL;

    if (n == 0)
        return STR("");
    if (s->tail_n && s->tail_at) {
        whole = arena_alloc(a, n);
        tail_copy(s, whole);
        p = whole;
    }
    const char *nl = memrchr(p, '\n', n);
    const char *from = nl ? nl + 1 : p;
    size_t len = (size_t)(p + n - from);
    if (len > 1024) {
        from += len - 1024;
        len = 1024;
    }
    return arena_copy(a, (struct str){ from, len });
}

int64_t stream_dropped(const struct stream *s)
{
    int64_t from = s->memfd >= 0 ? s->kept : (int64_t)s->head_n; /* first byte that is not at the front */
    int64_t tail_from = s->total - (int64_t)s->tail_n;

    return tail_from > from ? tail_from - from : 0;
}

void stream_keep(struct stream *s)
{
    if (s->memfd < 0 && s->kept_max > 0 && s->total == (int64_t)(s->head_n + s->tail_n))
        spill(s);
}

int stream_take_memfd(struct stream *s)
{
    if (s->memfd >= 0) { /* the receiver shares the offset, and must be able to rely on the size */
        (void)lseek(s->memfd, 0, SEEK_SET);
        (void)fcntl(s->memfd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    }
    return TAKE_FD(s->memfd);
}

int stream_drain(struct stream *s, int fd, char **scratch)
{
    char small[READ_SMALL];
    char *p = *scratch ? *scratch : small;
    size_t size = *scratch ? READ_BIG : READ_SMALL;

    for (size_t got = 0; got < DRAIN_MAX;) {
        ssize_t n = read(fd, p, size);
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 1 : -errno;
        stream_add(s, p, (size_t)n);
        got += (size_t)n;
        if ((size_t)n < size)
            continue; /* most likely empty now, but only EAGAIN or 0 says which */
        if (!*scratch && (*scratch = malloc(READ_BIG))) {
            p = *scratch;
            size = READ_BIG;
        }
    }
    return 1;
}
