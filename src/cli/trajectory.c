#include "cli/trajectory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/map.h"

enum { PAGE = 200, BAR = 30, BOXES_MAX = 1000 };

void loaded_done(struct loaded *l)
{
    arena_done(&l->arena);
    buf_done(&l->text);
}

void progress(const char *what, int64_t done, int64_t total)
{
    int filled = total > 0 ? (int)(done * BAR / total) : 0;

    if (getenv("SANDGLASS_PROGRESS")) { /* whoever started us reads it */
        fprintf(stderr, "progress %s %lld/%lld\n", what, (long long)done, (long long)total);
        return;
    }
    if (!isatty(STDERR_FILENO))
        return;
    if (done >= total) {
        fputs("\r\033[K", stderr);
        return;
    }
    fprintf(stderr, "\r%s [%.*s%*s] %lld/%lld steps", what, filled, "##############################", BAR - filled, "",
            (long long)done, (long long)total);
    fflush(stderr);
}

/* --- a file --- */

static int read_all(int fd, struct buf *out)
{
    for (;;) {
        char *room = buf_room(out, 1 << 16);
        ssize_t n = room ? read(fd, room, 1 << 16) : -1;
        if (!room)
            return -EFBIG;
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        buf_grew(out, (size_t)n);
    }
}

int load_file(const char *path, const char *format, struct loaded *l)
{
    bool is_stdin = strcmp(path, "-") == 0;
    auto_close int fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    const struct traj_format *f = format ? format_find(format) : NULL;
    struct err e = { 0 };

    *l = (struct loaded){ 0 };
    buf_init(&l->text, TRAJ_FILE_MAX);
    int r = fd < 0 ? -errno : read_all(fd, &l->text);
    if (r < 0) {
        complain("%s: %s", path, r == -EFBIG ? "larger than 1 GiB" : strerror(-r));
        return r == -ENOENT ? EXIT_NOT_FOUND : EXIT_USAGE;
    }
    if (format && !f) {
        (void)format_to_write(format, &e);
        complain("%s", e.msg);
        return EXIT_USAGE;
    }
    if (traj_read(&l->arena, buf_view(&l->text), f, &l->set, &e) < 0) {
        complain("%s: %s", path, e.msg);
        return EXIT_USAGE;
    }
    return 0;
}

/* --- the server --- */

/* ID names a trajectory, a box, or a worker, in this order. The answer about the trajectory is in *ret. */
static int find(struct api *api, const char *id, const struct json **ret)
{
    const struct json *answer;
    int r = api_try(api, api_path(api, "/sg/v1/trajectories/", id, ""), ret);

    if (r != 0 || *ret)
        return r;
    r = api_try(api, api_path(api, "/sg/v1/boxes/", id, ""), &answer);
    struct str found = json_get_str(answer, "trajectory");
    if (r == 0 && !found.n) {
        r = api_get(api, api_path(api, "/sg/v1/trajectories?limit=1&worker=", id, ""), &answer);
        const struct json *list = r == 0 ? json_get(answer, "trajectories") : NULL;
        found = json_get_str(list ? list->first : NULL, "id");
    }
    if (r != 0)
        return r;
    if (!found.n) {
        complain("there is no file, trajectory, box or worker '%s' with steps", id);
        return EXIT_NOT_FOUND;
    }
    return api_get(api, api_path(api, "/sg/v1/trajectories/", arena_z(&api->arena, found), ""), ret);
}

/* The answer's text is reused for the next one, so each page is copied and read again in memory that stays. */
static int take_page(struct api *api, struct loaded *l, int64_t *ret_next)
{
    struct json *page;
    struct err e = { 0 };
    struct trajectory *t = l->set.v;

    int r = json_parse(&l->arena, arena_copy(&l->arena, buf_view(&api->text)), &page, &e);
    if (r >= 0)
        r = l->set.format->read(&l->arena, page, t, &e);
    if (r < 0) {
        complain("the server's steps are not readable: %s", e.msg);
        return EXIT_REFUSED;
    }
    *ret_next = json_get_int(page, "next", 0);
    arena_reset(&api->arena);
    return 0;
}

/* What was said about it after the fact: docs/export.md. */
static void take_notes(struct loaded *l, struct str noted, struct str forked)
{
    struct trajectory *t = l->set.v;
    struct json *v = NULL;
    struct err e;

    if (json_parse(&l->arena, noted, &v, &e) >= 0 && v->type == JSON_OBJ) {
        const struct json *reward = json_get(v, "reward"), *tags = json_get(v, "tags"), *more = json_get(v, "metadata");
        t->has_reward = reward && reward->type == JSON_NUM;
        t->reward = t->has_reward ? reward->num : 0;
        t->tags = tags && tags->type == JSON_ARR ? tags : NULL;
        t->note = json_get_str(v, "note");
        t->group = json_get_str(more, "group");
        traj_metadata(t, more);
    }
    if (!t->group.n && json_parse(&l->arena, forked, &v, &e) >= 0 && v->type == JSON_OBJ) {
        t->group_step = json_get_int(v, "step", 0);
        t->group = str_of(
            arena_printf(&l->arena, "%.*s#%lld", STR_ARG(json_get_str(v, "trajectory")), (long long)t->group_step));
    }
}

/* So that a replay elsewhere, or when the log has forgotten them, makes boxes like these. */
static int load_boxes(struct api *api, struct loaded *l)
{
    struct trajectory *t = l->set.v;
    struct json *imported = NULL;
    struct map seen = { 0 };
    struct buf out;
    struct jw w = { .out = &out };
    struct err e;
    int r = 0;

    buf_init(&out, LIMIT_RECORD);
    jw_obj(&w);
    for (size_t i = 0; i < t->n && r == 0 && seen.count < BOXES_MAX; i++) {
        const struct json *known = NULL;
        struct str box = t->steps[i].box;
        if (!box.n || t->steps[i].temporary || map_get(&seen, box))
            continue;
        map_put(&seen, box, t);
        arena_reset(&api->arena);
        const char *id = arena_z(&api->arena, box);
        r = api_try(api, api_path(api, "/sg/v1/boxes/", id, "/settings"), &known);
        if (r == 0 && known && json_get(known, "settings")) {
            jw_key_str(&w, box);
            jw_raw(&w, json_get(known, "settings")->raw);
        }
    }
    jw_obj_end(&w);
    if (out.n > 2)
        t->boxes = arena_copy(&l->arena, buf_view(&out));
    else if (t->metadata.n && json_parse(&l->arena, t->metadata, &imported, &e) >= 0 && json_get(imported, "boxes"))
        t->boxes = json_get(imported, "boxes")->raw; /* it came from elsewhere, with these */
    buf_done(&out);
    map_done(&seen);
    return r;
}

static int load_from_server(struct api *api, const char *id, struct loaded *l)
{
    const struct json *about, *answer;
    int64_t after = 0, next = 1;
    int r = find(api, id, &about);

    if (r != 0)
        return r;
    *l = (struct loaded){ .from_server = true };
    int64_t total = json_get_int(about, "steps", 0);
    struct str found = arena_copy(&l->arena, json_get_str(about, "id"));
    struct str worker = arena_copy(&l->arena, json_get_str(about, "worker"));
    const struct json *metadata = json_get(about, "metadata");
    struct str noted =
        arena_copy(&l->arena, json_get(about, "annotations") ? json_get(about, "annotations")->raw : STR("{}"));
    struct str forked =
        arena_copy(&l->arena, json_get(about, "forked_from") ? json_get(about, "forked_from")->raw : STR("null"));
    l->set = (struct traj_set){ .v = arena_alloc(&l->arena, sizeof *l->set.v), .n = 1, .room = 1 };
    l->set.format = format_find("sandglass");
    l->set.v->worker = worker;
    if (metadata && metadata->type == JSON_OBJ) {
        struct json *kept;
        struct err e;
        if (json_parse(&l->arena, arena_copy(&l->arena, metadata->raw), &kept, &e) >= 0)
            traj_metadata(l->set.v, kept);
    }
    take_notes(l, noted, forked);
    while (next > 0) {
        const char *tail = arena_printf(&api->arena, "/steps?after=%lld&limit=%d", (long long)after, PAGE);
        progress("reading", (int64_t)l->set.v->n, total);
        r = api_get(api, api_path(api, "/sg/v1/trajectories/", found.p, tail), &answer);
        if (r == 0)
            r = take_page(api, l, &next);
        if (r != 0)
            return r;
        if (next <= after)
            break;
        after = next;
    }
    progress("reading", total, total);
    l->set.v->id = found;
    return load_boxes(api, l);
}

int load_trajectories(struct api *api, const char *what, const char *format, struct loaded *l)
{
    struct stat st;
    bool server = format && strcmp(format, "server") == 0; /* whatever files are called so here */
    bool is_file =
        !server && (strcmp(what, "-") == 0 || strchr(what, '/') || (stat(what, &st) == 0 && !S_ISDIR(st.st_mode)));

    return is_file ? load_file(what, format, l) : load_from_server(api, what, l);
}
