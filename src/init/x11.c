#include "init/x11.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"

/* Requests, by their numbers; all values in this machine's byte order, as the first byte of a connection tells. */
enum {
    GET_GEOMETRY = 14,
    INTERN_ATOM = 16,
    GET_PROPERTY = 20,
    SEND_EVENT = 25,
    QUERY_POINTER = 38,
    TRANSLATE = 40,
    CHANGE_MAPPING = 100,
    GET_MAPPING = 101
};
enum { GENERIC_EVENT = 35 };
enum { ANSWER_SECONDS = 5, ANSWER_MAX = 1024 * 1024 };

struct x11 {
    int fd;
    uint32_t root;
    char *answer; /* the whole of the last one */
    size_t n;
};

static int gone(struct err *e)
{
    return err_set(e, ERR_SYSTEM, "the screen's server does not answer");
}

static int get(struct x11 *x, void *to, size_t n, struct err *e)
{
    for (size_t at = 0; at < n;) {
        ssize_t k = recv(x->fd, (char *)to + at, n - at, 0);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return gone(e);
        at += (size_t)k;
    }
    return 0;
}

static int skip(struct x11 *x, uint32_t words, struct err *e)
{
    char waste[4];
    int r = words > ANSWER_MAX / 4 ? gone(e) : 0;

    for (; r == 0 && words; words--)
        r = get(x, waste, sizeof waste, e);
    return r;
}

static int put(struct x11 *x, const void *from, size_t n, struct err *e)
{
    return send(x->fd, from, n, MSG_NOSIGNAL) == (ssize_t)n ? 0 : gone(e);
}

/* Sends a request and keeps its answer. -ENOENT: it was an error, such as of a window that has just gone. */
static int ask(struct x11 *x, const void *request, size_t n, struct err *e)
{
    uint8_t head[32] = { 0 }; /* unsigned: an event that another client sent has the highest bit */
    uint32_t more;
    int r = put(x, request, n, e);

    do {
        if (r == 0)
            r = get(x, head, sizeof head, e);
        memcpy(&more, head + 4, 4);
        if (r == 0 && (head[0] & 0x7f) == GENERIC_EVENT) /* the only one that is longer */
            r = skip(x, more, e);
    } while (r == 0 && head[0] > 1);
    if (r < 0)
        return r;
    if (head[0] == 0) {
        err_set(e, ERR_NOT_FOUND, "the screen's server refuses (error %d)", head[1]);
        return -ENOENT;
    }
    if (more > ANSWER_MAX / 4)
        return gone(e);
    free(x->answer);
    x->n = sizeof head + 4 * (size_t)more;
    x->answer = malloc(x->n);
    if (!x->answer)
        abort();
    memcpy(x->answer, head, sizeof head);
    return get(x, x->answer + sizeof head, 4 * (size_t)more, e);
}

static uint32_t word(const struct x11 *x, size_t at)
{
    uint32_t v = 0;

    if (at + 4 <= x->n)
        memcpy(&v, x->answer + at, 4);
    return v;
}

static int half(const struct x11 *x, size_t at)
{
    int16_t v = 0;

    if (at + 2 <= x->n)
        memcpy(&v, x->answer + at, 2);
    return v;
}

static int atom(struct x11 *x, const char *name, uint32_t *ret, struct err *e)
{
    struct {
        uint8_t op, only;
        uint16_t size, n, pad;
        char name[32];
    } m = { INTERN_ATOM, 0, 0, (uint16_t)strlen(name), 0, "" };
    size_t padded = (strlen(name) + 3) & ~(size_t)3;

    m.size = (uint16_t)(2 + padded / 4);
    memcpy(m.name, name, strlen(name));
    int r = ask(x, &m, 8 + padded, e);
    *ret = r < 0 ? 0 : word(x, 8);
    return r;
}

/* The property's bytes, until the next answer; absent: the window has none. */
static struct str property(struct x11 *x, uint32_t window, const char *name, struct err *e)
{
    struct {
        uint8_t op, forget;
        uint16_t size;
        uint32_t window, name, type, offset, length;
    } m = { GET_PROPERTY, 0, 6, window, 0, 0, 0, 16 * 1024 };

    if (atom(x, name, &m.name, e) < 0 || ask(x, &m, sizeof m, e) < 0 || word(x, 8) == 0)
        return (struct str){ 0 };
    size_t n = (size_t)word(x, 16) * ((unsigned char)x->answer[1] / 8);
    return n <= x->n - 32 ? (struct str){ x->answer + 32, n } : (struct str){ 0 };
}

struct x11 *x11_open(const char *path, struct err *e)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct timeval patience = { ANSWER_SECONDS, 0 };
    const struct {
        char order, pad;
        uint16_t major, minor, name, data, pad2;
    } hello = { 'l', 0, 11, 0, 0, 0, 0 };
    uint8_t head[8];
    struct x11 *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    strncpy(un.sun_path, path, sizeof un.sun_path - 1);
    x->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(x->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(x->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(x->fd, (struct sockaddr *)&un, sizeof un) < 0) {
        err_sys(e, "connect to the screen's server");
        goto fail;
    }
    if (put(x, &hello, sizeof hello, e) < 0 || get(x, head, sizeof head, e) < 0)
        goto fail;
    x->n = 4 * ((size_t)head[6] | (size_t)head[7] << 8);
    x->answer = malloc(x->n + 1);
    if (!x->answer)
        abort();
    if (get(x, x->answer, x->n, e) < 0)
        goto fail;
    /* behind 32 bytes: the vendor's name, then 8 bytes for each pixel format, then the first screen's root */
    size_t vendor = x->n > 32 ? (size_t)(uint8_t)x->answer[16] | (size_t)(uint8_t)x->answer[17] << 8 : 0;
    size_t formats = x->n > 32 ? (uint8_t)x->answer[21] : 0;
    x->root = word(x, 32 + ((vendor + 3) & ~(size_t)3) + 8 * formats);
    if (head[0] == 1 && x->root)
        return x;
    gone(e);
fail:
    x11_close(x);
    return NULL;
}

void x11_close(struct x11 *x)
{
    if (!x)
        return;
    close(x->fd);
    free(x->answer);
    free(x);
}

static void describe(struct x11 *x, struct arena *a, struct x_window *w)
{
    struct {
        uint8_t op, pad;
        uint16_t size;
        uint32_t window;
    } geometry = { GET_GEOMETRY, 0, 2, w->id };
    struct {
        uint8_t op, pad;
        uint16_t size;
        uint32_t from, to;
        int16_t x, y;
    } place = { TRANSLATE, 0, 4, w->id, x->root, 0, 0 };
    struct err ignored;

    struct str title = property(x, w->id, "_NET_WM_NAME", &ignored);
    if (!title.n)
        title = property(x, w->id, "WM_NAME", &ignored);
    w->title = arena_copy(a, title);
    struct str names = property(x, w->id, "WM_CLASS", &ignored); /* two words, each with its NUL */
    const char *second = names.n ? memchr(names.p, 0, names.n) : NULL;
    if (second) {
        size_t left = names.n - (size_t)(second + 1 - names.p);
        w->program = arena_copy(a, (struct str){ second + 1, strnlen(second + 1, left) });
    }
    struct str pid = property(x, w->id, "_NET_WM_PID", &ignored);
    uint32_t number = 0;
    if (pid.n >= 4)
        memcpy(&number, pid.p, 4);
    w->pid = number;
    if (ask(x, &geometry, sizeof geometry, &ignored) == 0) {
        w->width = (uint16_t)half(x, 16);
        w->height = (uint16_t)half(x, 18);
    }
    if (ask(x, &place, sizeof place, &ignored) == 0) {
        w->x = half(x, 12);
        w->y = half(x, 14);
    }
}

int x11_windows(struct x11 *x, struct arena *a, struct x_window *v, size_t *ret_n, struct err *e)
{
    uint32_t ids[X_WINDOWS_MAX], active = 0;
    struct str list = property(x, x->root, "_NET_ACTIVE_WINDOW", e);

    if (list.n >= 4)
        memcpy(&active, list.p, 4);
    list = property(x, x->root, "_NET_CLIENT_LIST", e);
    *ret_n = list.n / 4 < X_WINDOWS_MAX ? list.n / 4 : X_WINDOWS_MAX;
    if (*ret_n)
        memcpy(ids, list.p, *ret_n * 4);
    for (size_t i = 0; i < *ret_n; i++) {
        v[i] = (struct x_window){ .id = ids[i], .active = ids[i] == active };
        describe(x, a, &v[i]);
    }
    return 0;
}

/* A message to the window manager, as its specification (EWMH) has it. */
static int tell(struct x11 *x, uint32_t window, const char *what, uint32_t first, struct err *e)
{
    struct {
        uint8_t op, propagate;
        uint16_t size;
        uint32_t to, mask;
        uint8_t type, format;
        uint16_t sequence;
        uint32_t window, what, data[5];
    } m = { SEND_EVENT, 0, 11, x->root, 0x180000, 33, 32, 0, window, 0, { first } };
    struct str is = property(x, window, "WM_STATE", e); /* only those that are managed have it */

    if (!is.p)
        return err_set(e, ERR_NOT_FOUND, "window: there is no window %u", window);
    int r = atom(x, what, &m.what, e);
    if (r == 0)
        r = put(x, &m, sizeof m, e);
    return r < 0 ? r : atom(x, what, &m.what, e); /* an answer behind it: the server has passed it on */
}

int x11_focus(struct x11 *x, uint32_t window, struct err *e)
{
    return tell(x, window, "_NET_ACTIVE_WINDOW", 2, e);
}

int x11_end(struct x11 *x, uint32_t window, struct err *e)
{
    return tell(x, window, "_NET_CLOSE_WINDOW", 0, e);
}

int x11_spare_keys(struct x11 *x, uint8_t *codes, size_t max, size_t *ret_n, struct err *e)
{
    enum { FIRST = 97, LAST = 255, MEDIA = 0x1008ff00 };
    struct {
        uint8_t op, pad;
        uint16_t size;
        uint8_t first, count;
        uint16_t pad2;
    } m = { GET_MAPPING, 0, 2, FIRST, LAST - FIRST + 1, 0 };
    int r = ask(x, &m, sizeof m, e);

    *ret_n = 0;
    for (size_t i = 0; r == 0 && i < m.count && *ret_n < max; i++) {
        size_t each = (uint8_t)x->answer[1];
        bool spare = true;
        for (size_t k = 0; k < each; k++) {
            uint32_t sym = word(x, 32 + 4 * (i * each + k));
            spare &= sym == 0 || (sym & 0xffffff00) == MEDIA;
        }
        if (spare)
            codes[(*ret_n)++] = (uint8_t)(FIRST + i);
    }
    return r;
}

int x11_bind(struct x11 *x, uint8_t code, uint32_t keysym, struct err *e)
{
    struct {
        uint8_t op, count;
        uint16_t size;
        uint8_t first, each;
        uint16_t pad;
        uint32_t syms[2]; /* the same with and without shift: a letter that has two cases is then never another */
    } m = { CHANGE_MAPPING, 1, 4, code, 2, 0, { keysym, keysym } };
    uint32_t ignored;
    int r = put(x, &m, sizeof m, e);

    return r < 0 ? r : atom(x, "WM_STATE", &ignored, e); /* an answer behind it: it is done */
}

void x11_screen(struct x11 *x, int64_t *ret_width, int64_t *ret_height)
{
    struct {
        uint8_t op, pad;
        uint16_t size;
        uint32_t window;
    } m = { GET_GEOMETRY, 0, 2, x->root };
    struct err ignored;

    if (ask(x, &m, sizeof m, &ignored) < 0)
        return;
    *ret_width = (uint16_t)half(x, 16);
    *ret_height = (uint16_t)half(x, 18);
}

bool x11_managed(struct x11 *x)
{
    struct err ignored;

    return property(x, x->root, "_NET_SUPPORTING_WM_CHECK", &ignored).n >= 4;
}

int x11_pointer(struct x11 *x, int *ret_x, int *ret_y, struct err *e)
{
    struct {
        uint8_t op, pad;
        uint16_t size;
        uint32_t window;
    } m = { QUERY_POINTER, 0, 2, x->root };
    int r = ask(x, &m, sizeof m, e);

    *ret_x = r < 0 ? 0 : half(x, 16);
    *ret_y = r < 0 ? 0 : half(x, 18);
    return r;
}
