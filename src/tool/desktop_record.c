/* desktop:record: the screen as a film, made by ffmpeg in the box. It ends when it is told to, after max_duration, or
 * with the driver. */
#include "tool/desktop_internal.h"

#include "base/auto.h"
#include "base/limits.h"

#define P struct desktop_record_params
const struct field desktop_in_record[] = {
    FIELD(STR, P, action, "what to do", .required = true, .choices = "start|stop|status"),
    FIELD(STR, P, save_path, "start: where to; default: /tmp/recordings/recording_{time}.mp4", .max = LIMIT_PATH - 1),
    FIELD(INT, P, fps, "start: pictures each second", .def = 5, .min = 1, .max = 30),
    FIELD(INT, P, crf, "start: quality of H.264; 0 is lossless, 51 worst", .def = 28, .min = 0, .max = 51),
    FIELD(NUM, P, max_duration, "start: seconds after which it ends by itself", .def_num = 600, .min = 0.1,
          .max = 86400),
    FIELD(INT, P, width, "start: of the film; default: of the screen", .def = FIELD_ABSENT, .min = 2,
          .max = LIMIT_SCREEN_SIDE),
    FIELD(INT, P, height, "start: of the film; default: of the screen", .def = FIELD_ABSENT, .min = 2,
          .max = LIMIT_SCREEN_SIDE),
    { 0 },
};
#undef P
#define R struct desktop_record_result
const struct field desktop_out_record[] = {
    FIELD(STR, R, status, "idle, recording, or stopped"),
    FIELD(STR, R, save_path, "the film", .nullable = true),
    FIELD(NUM, R, duration, "seconds so far"),
    FIELD(INT, R, file_size_bytes, "so far", .def = FIELD_ABSENT),
    { 0 },
};

#ifdef IN_BOX

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loop.h"
#include "init/child.h"
#include "init/desktop.h"
#include "init/program.h"
#include "init/rfb.h"
#include "init/script.h"

enum { BEGIN_MS = 20000, END_MS = 20000, LOOK_MS = 50 };
#define RECORD_LOG BOX_USER_RUN "/record.log"

static void note_end(struct desktop *d)
{
    d->lasted_ms = now_ms() - d->since_ms;
    d->recorder = 0;
}

static bool goes_on(struct desktop *d)
{
    if (d->recorder && waitpid(d->recorder, NULL, WNOHANG) == d->recorder)
        note_end(d);
    return d->recorder != 0;
}

static void report(struct desktop *d, struct desktop_record_result *r)
{
    struct stat st;

    r->file_size_bytes = FIELD_ABSENT;
    r->status = goes_on(d) ? STR("recording") : d->film[0] ? STR("stopped") : STR("idle");
    if (!d->film[0])
        return;
    r->save_path = str_of(d->film);
    r->duration = (double)(d->recorder ? now_ms() - d->since_ms : d->lasted_ms) / 1000;
    if (stat(d->film, &st) == 0)
        r->file_size_bytes = st.st_size;
}

static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(path, 0755);
        *slash = '/';
    }
}

static _Noreturn void run_ffmpeg(struct hand *h, struct desktop *d, const struct desktop_record_params *p)
{
    int width, height, log = open(RECORD_LOG, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    rfb_size(d->rfb, &width, &height);
    int64_t w = p->width == FIELD_ABSENT ? width : p->width, t = p->height == FIELD_ABSENT ? height : p->height;
    const char *const argv[] = { "ffmpeg", "-nostdin", "-loglevel", "error", "-y", "-f", "x11grab", "-framerate",
                                 arena_printf(h->arena, "%d", (int)p->fps), "-video_size",
                                 arena_printf(h->arena, "%dx%d", width, height), "-i", DESKTOP_DISPLAY, "-t",
                                 arena_printf(h->arena, "%.3f", p->max_duration),
                                 /* H.264 wants even sides */
                                 "-vf", arena_printf(h->arena, "scale=%d:%d", (int)(w & ~1LL), (int)(t & ~1LL)), "-c:v",
                                 "libx264", "-preset", "ultrafast", "-crf", arena_printf(h->arena, "%d", (int)p->crf),
                                 "-pix_fmt", "yuv420p", "-f", "mp4", d->film, NULL };
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGINT); /* it then ends its film properly */
    child_exec(&(struct child_opts){
        .argv = argv, .env = child_env(h->arena, false, "/", NULL), .fds = { -1, log, log }, .cwd = "/" });
}

static int say_why(struct err *e)
{
    char text[160] = "";
    int fd = open(RECORD_LOG, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return err_set(e, ERR_SYSTEM, "ffmpeg did not begin: %s", text);
}

static int start(struct hand *h, struct desktop *d, const struct desktop_record_params *p, struct err *e)
{
    struct stat st;

    if (goes_on(d))
        return err_set(e, ERR_EXISTS, "a recording is under way, to %.150s", d->film);
    if (program_find("ffmpeg", e) < 0)
        return err_set(e, ERR_NOT_FOUND, "there is no ffmpeg in this box (Debian package ffmpeg)");
    if (p->save_path.n)
        snprintf(d->film, sizeof d->film, "%s%.*s", p->save_path.p[0] == '/' ? "" : BOX_HOME "/",
                 STR_ARG(p->save_path));
    else
        snprintf(d->film, sizeof d->film, "/tmp/recordings/recording_%lld.mp4", (long long)(wall_us() / 1000000));
    make_parents(d->film);
    (void)unlink(d->film);
    d->since_ms = now_ms();
    d->recorder = fork();
    if (d->recorder == 0)
        run_ffmpeg(h, d, p);
    if (d->recorder < 0) {
        d->recorder = 0;
        return err_sys(e, "start ffmpeg");
    }
    while (stat(d->film, &st) < 0 && goes_on(d) && now_ms() - d->since_ms < BEGIN_MS && h->self->wish == WISH_NONE)
        (void)driver_poll(h, NULL, 0, LOOK_MS);
    if (d->recorder || stat(d->film, &st) == 0)
        return 0;
    d->film[0] = 0;
    return say_why(e);
}

static void stop(struct hand *h, struct desktop *d)
{
    int64_t end = now_ms() + END_MS;

    if (!goes_on(d))
        return;
    d->lasted_ms = now_ms() - d->since_ms;
    kill(d->recorder, SIGINT);
    while (waitpid(d->recorder, NULL, WNOHANG) == 0) {
        if (now_ms() > end)
            kill(d->recorder, SIGKILL);
        (void)driver_poll(h, NULL, 0, LOOK_MS);
    }
    d->recorder = 0;
}

int desktop_run_record(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_record_params *p = params;
    struct desktop *d = desktop_get(h, e);
    int n = 0;

    if (!d)
        return -EIO;
    if (str_is(p->action, "start"))
        n = start(h, d, p, e);
    else if (str_is(p->action, "stop"))
        stop(h, d);
    if (n >= 0)
        report(d, result);
    return n;
}
#endif
