/* What a step keeps outside of its record: whole outputs and pictures, each stored once by its content (store/blob.h)
 * before the record that names it is written. The answer has a picture inline, the log its name: a record stays
 * small, and the same picture twice costs nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "session/call_parts.h"
#include "store/blob.h"
#include "store/recorder_client.h"

/* The box says what it likes: what is served as a picture later is what looks like one. NULL: no picture. */
static const char *picture_type(struct str s)
{
    if (s.n > 8 && memcmp(s.p, "\x89PNG\r\n\x1a\n", 8) == 0)
        return "image/png";
    if (s.n > 3 && memcmp(s.p, "\xff\xd8\xff", 3) == 0)
        return "image/jpeg";
    if (s.n > 12 && memcmp(s.p, "RIFF", 4) == 0 && memcmp(s.p + 8, "WEBP", 4) == 0)
        return "image/webp";
    return NULL;
}

static bool name_free(const struct call *c, struct str name)
{
    bool ok = name.n && name.n < sizeof c->keep->name;

    for (size_t i = 0; ok && i < name.n; i++)
        ok = (name.p[i] >= 'a' && name.p[i] <= 'z') || name.p[i] == '_';
    for (size_t i = 0; ok && i < c->keep_count; i++)
        ok = !str_is(name, c->keep[i].name);
    return ok;
}

void call_keep(struct call *c, struct str name, const char *type, int take_fd)
{
    struct stat st;

    if (take_fd < 0)
        return;
    if (c->keep_count == CALL_BLOBS_MAX || fstat(take_fd, &st) < 0 || st.st_size == 0) {
        close(take_fd);
        return;
    }
    struct call_blob *b = &c->keep[c->keep_count++];
    *b = (struct call_blob){ .type = type, .fd = take_fd };
    snprintf(b->name, sizeof b->name, "%.*s", STR_ARG(name));
}

static int memory_file(struct str s)
{
    auto_close int fd = memfd_create("blob", MFD_CLOEXEC);

    while (fd >= 0 && s.n) {
        ssize_t n = write(fd, s.p, s.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        s.p += n;
        s.n -= (size_t)n;
    }
    return TAKE_FD(fd);
}

static void keep_bytes(struct call *c, struct str name, struct str bytes)
{
    int fd = memory_file(bytes);

    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
        log_warn("picture not kept", "call=%lu name=%.*s, recording without it", (unsigned long)c->id, STR_ARG(name));
    call_keep(c, name, picture_type(bytes), fd);
}

bool call_keep_fields(struct call *c, void *result)
{
    bool any = false;

    for (const struct field *f = c->tool->result; f && f->name; f++) {
        struct str *value = (struct str *)((char *)result + f->offset);
        if (!f->blob || !value->n)
            continue;
        keep_bytes(c, str_of(f->name), *value);
        *value = (struct str){ 0 };
        any = true;
    }
    return any;
}

void call_keep_pictures(struct call *c, const struct wire_result *r)
{
    const struct wire_picture *v = r->pictures.v;

    for (size_t i = 0; i < r->pictures.n && i < WIRE_PICTURES_MAX; i++)
        if (name_free(c, v[i].name) && picture_type(v[i].bytes))
            keep_bytes(c, v[i].name, v[i].bytes);
}

void call_keep_nothing(struct call *c)
{
    for (size_t i = c->kept; i < c->keep_count; i++)
        close(c->keep[i].fd);
    c->kept = c->keep_count;
}

static void on_blob(void *arg, const struct answer *a)
{
    struct call *c = arg;
    struct call_blob *b = &c->keep[c->kept++];

    close(b->fd);
    if (a->error == 0 && a->json.n > 1) {
        struct str before = c->blobs.p ? c->blobs : STR("{}");
        struct str type = b->type ? str_of(arena_printf(&c->arena, ",\"type\":\"%s\"", b->type)) : STR("");
        c->blobs = str_of(arena_printf(&c->arena, "%.*s%s\"%s\":%.*s%.*s}}", (int)before.n - 1, before.p,
                                       c->blobs.p ? "," : "", b->name, (int)a->json.n - 1, a->json.p, STR_ARG(type)));
    } else {
        log_warn("output not kept", "call=%lu name=%s error='%.*s', recording without it", (unsigned long)c->id,
                 b->name, STR_ARG(a->message));
    }
    call_store(c, c->stored);
}

void call_store(struct call *c, void (*done)(struct call *c))
{
    struct query q = { .op = STR("blob") };

    c->stored = done;
    if (c->kept == c->keep_count)
        done(c);
    else
        recorder_ask(c->node->recorder, &q, dup(c->keep[c->kept].fd), on_blob, c);
}

/* --- a recorded answer --- */

static int read_blob(const struct call *c, struct str hash, struct buf *ret)
{
    auto_close int fd = -1;
    uint64_t bytes;
    struct err e;

    int r = blob_open(c->node->opts.home, hash, &fd, &bytes, &e);
    char *room = r >= 0 && bytes <= LIMIT_FRAME ? buf_room(ret, bytes + 1) : NULL;
    for (size_t at = 0; room && at < bytes; at = ret->n) {
        ssize_t n = read(fd, room + at, bytes - at);
        if (n <= 0)
            return -EIO;
        buf_grew(ret, (size_t)n);
    }
    return room ? 0 : -ENOENT;
}

void call_unstore(struct call *c)
{
    struct json *blobs = NULL;
    struct err e;

    if (!c->blobs.p || !c->tool || c->data.n < 2 || json_parse(&c->arena, c->blobs, &blobs, &e) < 0)
        return;
    for (const struct field *f = c->tool->result; f && f->name; f++) {
        struct buf bytes, out;
        struct str hash = f->blob ? json_get_str(json_get(blobs, f->name), "hash") : (struct str){ 0 };
        if (!hash.n)
            continue;
        buf_init(&bytes, LIMIT_FRAME + 1);
        buf_init(&out, LIMIT_RECORD);
        if (read_blob(c, hash, &bytes) >= 0) {
            struct jw w = { .out = &out };
            buf_add(&out, c->data.p, c->data.n - 1);
            buf_printf(&out, "%s\"%s\":", c->data.n > 2 ? "," : "", f->name);
            jw_base64(&w, buf_view(&bytes));
            buf_char(&out, '}');
            c->data = arena_copy(&c->arena, buf_view(&out));
        }
        buf_done(&bytes);
        buf_done(&out);
    }
}
