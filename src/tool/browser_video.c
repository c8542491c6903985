/* browser:record: the tab at hand as a video. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/limits.h"
#include "tool/browser_internal.h"
#ifdef IN_BOX
#include <sys/stat.h>

#include "base/loop.h"
#include "tool/file_internal.h"
#endif

const struct field browser_in_record[] = {
    FIELD(STR, P, action, "once: for so long, and then the file is there", .def_str = "once",
          .choices = "once|start|pause|resume|stop|status"),
    FIELD(STR, P, path, "once, stop: the file, .mp4 or .webm; default: one in /tmp/recordings", .max = LIMIT_PATH),
    FIELD(NUM, P, duration, "once: seconds", .def_num = 10, .min = 0.1, .max = 600),
    FIELD(INT, P, fps, "pictures a second", .def = 15, .min = 1, .max = 60),
    FIELD(INT, P, quality, "of each of them", .def = 80, .min = 0, .max = 100),
    { 0 },
};
const struct field browser_out_record[] = { NEWS,
                                            { .name = "status",
                                              .type = FIELD_STR,
                                              .offset = __builtin_offsetof(R, recording),
                                              .help = "idle, recording, paused or stopped" },
                                            FIELD(STR, R, path, "the file", .nullable = true),
                                            FIELD(NUM, R, duration, "seconds that were filmed"),
                                            FIELD(INT, R, count, "pictures that the page gave"),
                                            FIELD(INT, R, size, "bytes of the file", .def = FIELD_ABSENT),
                                            { 0 } };

#ifdef IN_BOX

static int finish(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r,
                  struct film *film, struct err *e)
{
    struct str name = p->path;
    struct stat st;
    char *path = NULL;

    if (!name.n)
        name = str_of(arena_printf(h->arena, "/tmp/recordings/page_%lld.mp4", (long long)time(NULL)));
    int n = file_path(h, name, &path, e);
    if (n >= 0)
        n = file_make_parents(path, e);
    if (n >= 0)
        n = browser_film_end(h, b, path, film, e);
    if (n >= 0 && stat(path, &st) < 0)
        n = err_sys(e, "read %s", path);
    if (n >= 0) {
        r->path = str_of(path);
        r->size = st.st_size;
    }
    return n;
}

int browser_run_record(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);
    bool once = str_is(p->action, "once");
    struct film film = { 0 };
    int n = 0;

    r->size = FIELD_ABSENT;
    if (!b)
        return -EIO;
    if (once || str_is(p->action, "start"))
        n = browser_film(h, b, p->fps, p->quality, e);
    if (n >= 0 && once)
        n = browser_pause(h, b, now_ms() + (int64_t)(p->duration * 1000), e);
    if (str_is(p->action, "pause") || str_is(p->action, "resume")) {
        browser_film_state(b, &film);
        if (strcmp(film.state, "idle") == 0)
            n = err_set(e, ERR_NOT_FOUND, "no recording is under way");
        browser_film_pause(b, str_is(p->action, "pause"));
    }
    if (n >= 0 && (once || str_is(p->action, "stop")))
        n = finish(h, b, p, r, &film, e);
    else
        browser_film_state(b, &film);
    r->recording = str_of(film.state);
    r->duration = film.seconds;
    r->count = (int64_t)film.frames;
    return browser_verdict(h, b, n, r, e);
}
#endif
