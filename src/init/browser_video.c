/* A tab filmed: the browser sends a picture whenever the page looks different, and each is kept as a file with its
 * time. When the filming ends, ffmpeg makes a video of them with a steady rate; until then nothing is encoded, so that
 * a page which stands still costs nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/browser_parts.h"
#include "init/program.h"
#include "wire/boot.h"

#define DIR_OF_FRAMES BOX_USER_RUN "/video"

struct video {
    bool on, paused;
    char session[64];
    int64_t fps, quality;
    int64_t clock_ms, since_ms; /* filmed until the last pause; when it went on */
    size_t frames, bytes;
    int64_t at_ms[LIMIT_BROWSER_FRAMES]; /* when each was, by that clock */
    size_t size[LIMIT_BROWSER_FRAMES];
};

static int64_t film_clock(const struct video *v)
{
    return v->clock_ms + (v->on && !v->paused ? now_ms() - v->since_ms : 0);
}

static void frame_path(char out[120], size_t i)
{
    snprintf(out, 120, DIR_OF_FRAMES "/%zu.jpg", i);
}

static void keep_frame(struct video *v, struct str jpeg)
{
    int64_t at = film_clock(v);
    bool same = v->frames && at - v->at_ms[v->frames - 1] < 1000 / v->fps; /* it takes the place of the one before */
    size_t i = same ? v->frames - 1 : v->frames;
    char path[120];

    if (i >= LIMIT_BROWSER_FRAMES || v->bytes + jpeg.n > LIMIT_BROWSER_VIDEO)
        return;
    frame_path(path, i);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || write(fd, jpeg.p, jpeg.n) != (ssize_t)jpeg.n)
        return;
    v->bytes += jpeg.n - (same ? v->size[i] : 0);
    v->size[i] = jpeg.n;
    if (!same)
        v->at_ms[i] = at;
    v->frames = i + 1;
}

void video_event(struct browser *b, const struct view *from, const struct json *p)
{
    struct video *v = b->video;
    struct arena a = { 0 };
    char ack[60];

    snprintf(ack, sizeof ack, "{\"sessionId\":%lld}", (long long)json_get_int(p, "sessionId", 0));
    view_post(b, from, "Page.screencastFrameAck", str_of(ack));
    if (v && v->on && !v->paused && strcmp(from->session, v->session) == 0) {
        struct str jpeg = base64_decode(&a, json_get_str(p, "data"));
        if (jpeg.n)
            keep_frame(v, jpeg);
    }
    arena_done(&a);
}

static void forget(struct video *v)
{
    char path[120];

    for (size_t i = 0; i < v->frames; i++) {
        frame_path(path, i);
        (void)unlink(path);
    }
    v->frames = v->bytes = 0;
}

int browser_film(struct hand *h, struct browser *b, int64_t fps, int64_t quality, struct err *e)
{
    char params[120];

    if (b->video && b->video->on)
        return err_set(e, ERR_EXISTS, "a recording is under way: stop it first");
    if (program_find("ffmpeg", e) < 0)
        return err_set(e, ERR_NOT_FOUND, "ffmpeg is not installed in this image; recording needs it");
    if (!b->video)
        b->video = calloc(1, sizeof *b->video);
    if (!b->video)
        abort();
    if (mkdir(DIR_OF_FRAMES, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "make " DIR_OF_FRAMES);
    struct video *v = b->video;
    forget(v);
    *v = (struct video){ .on = true, .fps = fps, .quality = quality, .since_ms = now_ms() };
    snprintf(v->session, sizeof v->session, "%s", b->at ? b->at->session : "");
    snprintf(params, sizeof params, "{\"format\":\"jpeg\",\"quality\":%d,\"everyNthFrame\":1}", (int)quality);
    int n = browser_page(h, b, "Page.startScreencast", str_of(params), NULL, e);
    if (n < 0)
        v->on = false;
    return n;
}

void browser_film_pause(struct browser *b, bool pause)
{
    struct video *v = b->video;

    if (!v || !v->on || v->paused == pause)
        return;
    v->clock_ms = film_clock(v);
    v->since_ms = now_ms();
    v->paused = pause;
}

void browser_film_state(const struct browser *b, struct film *ret)
{
    const struct video *v = b->video;

    *ret = (struct film){ .state = "idle" };
    if (v && v->on)
        *ret = (struct film){ v->paused ? "paused" : "recording", (double)film_clock(v) / 1000, v->frames };
}

/* How long each picture is seen, as ffmpeg wants it told; the last one is named twice, or its time would not count. */
static int write_list(const struct video *v, struct err *e)
{
    auto_close int fd = open(DIR_OF_FRAMES "/list", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    int64_t end = film_clock(v);

    if (!f)
        return err_sys(e, "write " DIR_OF_FRAMES "/list");
    (void)TAKE_FD(fd);
    fprintf(f, "ffconcat version 1.0\n");
    for (size_t i = 0; i < v->frames; i++) {
        int64_t from = i ? v->at_ms[i] : 0, to = i + 1 < v->frames ? v->at_ms[i + 1] : end;
        fprintf(f, "file '%zu.jpg'\nduration %.3f\n", i, (double)(to > from ? to - from : 1) / 1000);
    }
    fprintf(f, "file '%zu.jpg'\n", v->frames - 1);
    return fclose(f) == 0 ? 0 : err_sys(e, "write " DIR_OF_FRAMES "/list");
}

static int encode(struct hand *h, const struct video *v, const char *path, struct err *e)
{
    const char *filter = arena_printf(h->arena, "fps=%d,scale=trunc(iw/2)*2:trunc(ih/2)*2,format=yuv420p", (int)v->fps);
    const char *const argv[] = { "ffmpeg", "-nostdin", "-loglevel", "error", "-y",   "-f", "concat", "-safe",
                                 "0",      "-i",       "list",      "-vf",   filter, path, NULL };
    struct program_end end;
    int n = program_run(
        h,
        &(struct program_opts){
            .argv = argv, .cwd = DIR_OF_FRAMES, .deadline_ms = h->deadline_ms, .head_max = 4096, .tail_max = 4096 },
        &end, e);

    if (n < 0)
        return n;
    if (end.timed_out)
        return err_set(e, ERR_SYSTEM, "ffmpeg was not ready in time");
    if (end.exit_code)
        return err_set(e, ERR_SYSTEM, "ffmpeg: %.*s", (int)(end.err.n < 200 ? end.err.n : 200), end.err.p);
    return 0;
}

int browser_film_end(struct hand *h, struct browser *b, const char *path, struct film *ret, struct err *e)
{
    struct video *v = b->video;
    struct view *from = v ? view_of(b, str_of(v->session)) : NULL;

    if (!v || !v->on)
        return err_set(e, ERR_NOT_FOUND, "no recording is under way");
    v->clock_ms = film_clock(v);
    v->on = false;
    if (from)
        view_post(b, from, "Page.stopScreencast", (struct str){ 0 });
    *ret = (struct film){ "stopped", (double)v->clock_ms / 1000, v->frames };
    int n = v->frames ? write_list(v, e) : err_set(e, ERR_SYSTEM, "the page showed nothing meanwhile");
    if (n >= 0)
        n = encode(h, v, path, e);
    forget(v);
    return n;
}
