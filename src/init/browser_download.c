/* Files that the browser fetches: where they are, and how far. What a site says about them is not believed further than
 * for telling it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/browser_parts.h"

enum { NEWS_BYTES = 64 * 1024 };

static char *owned(struct str s)
{
    return s.p ? strndup(s.p, s.n < 16 * KiB ? s.n : 16 * KiB) : NULL;
}

static struct download *download_of(struct browser *b, struct str guid, bool begins)
{
    size_t n = b->file_count < LIMIT_BROWSER_DOWNLOADS ? b->file_count : LIMIT_BROWSER_DOWNLOADS;

    for (size_t i = 0; i < n; i++)
        if (str_is(guid, b->files[i].guid))
            return &b->files[i];
    if (!begins)
        return NULL;
    struct download *d = &b->files[b->file_count++ % LIMIT_BROWSER_DOWNLOADS];
    free(d->url);
    free(d->name);
    free(d->path);
    *d = (struct download){ .begun_us = wall_us() };
    snprintf(d->guid, sizeof d->guid, "%.*s", STR_ARG(guid));
    return d;
}

static double bytes_of(const struct json *p, const char *name)
{
    const struct json *v = json_get(p, name);
    return v && v->type == JSON_NUM ? v->num : 0;
}

static void print_download(const struct download *d, struct jw *j)
{
    jw_obj(j);
    jw_kz(j, "guid", d->guid);
    jw_kz(j, "url", d->url);
    jw_kz(j, "suggested_filename", d->name);
    jw_kz(j, "state", d->state);
    jw_knum(j, "received", d->received);
    jw_knum(j, "total", d->total);
    jw_kz(j, "path", d->path);
    jw_knum(j, "created_at", (double)d->begun_us / 1e6);
    jw_obj_end(j);
}

static void tell(struct browser *b, const struct download *d)
{
    size_t before = b->downloads.n;
    struct jw j = { .out = &b->downloads };

    if (before)
        buf_char(&b->downloads, ',');
    print_download(d, &j);
    if (b->downloads.full || b->downloads.n > NEWS_BYTES) { /* enough news; browser:downloads has it all */
        b->downloads.n = before;
        b->downloads.full = false;
    }
}

void download_event(struct browser *b, const struct json *p, bool begins)
{
    struct download *d = download_of(b, json_get_str(p, "guid"), begins);
    struct str path = json_get_str(p, "filePath"), state = begins ? STR("started") : json_get_str(p, "state");

    if (!d)
        return;
    if (begins) {
        free(d->url);
        free(d->name);
        d->url = owned(json_get_str(p, "url"));
        d->name = owned(json_get_str(p, "suggestedFilename"));
    } else {
        d->received = bytes_of(p, "receivedBytes");
        d->total = bytes_of(p, "totalBytes");
    }
    if (path.n && !d->path)
        d->path = owned(path);
    snprintf(d->state, sizeof d->state, "%.*s", STR_ARG(state));
    d->fresh = str_is(state, "inProgress"); /* told once with the next result, however often the browser says it */
    if (d->fresh)
        return;
    if (str_is(state, "completed")) {
        b->last_file = (size_t)(d - b->files) + 1;
        b->downloads_done++;
    }
    tell(b, d);
}

void downloads_tell(struct browser *b)
{
    for (size_t i = 0; i < LIMIT_BROWSER_DOWNLOADS; i++)
        if (b->files[i].fresh) {
            tell(b, &b->files[i]);
            b->files[i].fresh = false;
        }
}

void downloads_end(struct browser *b)
{
    for (size_t i = 0; i < LIMIT_BROWSER_DOWNLOADS; i++)
        if (strcmp(b->files[i].state, "inProgress") == 0 || strcmp(b->files[i].state, "started") == 0)
            snprintf(b->files[i].state, sizeof b->files[i].state, "canceled");
}

struct str browser_downloads(struct hand *h, const struct browser *b)
{
    size_t n = b->file_count < LIMIT_BROWSER_DOWNLOADS ? b->file_count : LIMIT_BROWSER_DOWNLOADS;
    AUTO(buf_done) struct buf o = { .cap = 8 * MiB };
    struct jw j = { .out = &o };

    jw_arr(&j);
    for (size_t i = b->file_count - n; i < b->file_count; i++)
        print_download(&b->files[i % LIMIT_BROWSER_DOWNLOADS], &j);
    jw_arr_end(&j);
    return arena_copy(h->arena, buf_view(&o));
}

struct str browser_downloaded(struct hand *h, struct browser *b)
{
    const struct download *d = b->last_file ? &b->files[b->last_file - 1] : NULL;

    if (b->downloads_done <= b->downloads_before || !d || !d->path)
        return (struct str){ 0 };
    return str_of(arena_printf(h->arena, "%s", d->path));
}
