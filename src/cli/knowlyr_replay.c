/* knowlyr-sandbox replay: a trajectory once more in a sandbox, from where that began. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/field.h"
#include "cli/knowlyr.h"
#include "cli/replay_world.h"
#include "cli/text.h"
#include "cli/trajectory.h"
#include "replay/run.h"

struct replaying {
    struct world *world;
};

static int call(void *arg, enum replay_world w, const struct traj_step *s, struct arena *a, struct traj_step *got,
                struct err *e)
{
    struct replaying *r = arg;

    (void)w; /* there is only the one sandbox */
    if (world_call(r->world, s, a, got) == 0)
        return 0;
    return err_set(e, ERR_SYSTEM, "step %lld could not be run", (long long)s->step);
}

/* Back to the beginning. What the sandbox holds is kept as a snapshot first: nothing is lost. */
static int begin_again(struct api *api, const char *id)
{
    const struct json *kept = NULL, *answer = NULL;

    int status = knowlyr_ask(api, "POST", api_path(api, "/sg/v1/boxes/", id, "/snapshot"), STR("{}"), &kept);
    if (status == 201)
        status = knowlyr_ask(api, "POST", api_path(api, "/sg/v1/boxes/", id, "/reset"), STR("{}"), &answer);
    else
        answer = kept;
    if (status == 200) {
        fprintf(stderr, "重放前已重置; 之前的状态: %s\n", arena_z(&api->arena, json_get_str(kept, "state")));
        return EXIT_FINE;
    }
    struct str why = json_get_str(json_get(answer, "error"), "message");
    if (status)
        fprintf(stderr, "重放失败: %.*s\n", STR_ARG(why));
    return EXIT_FAILED;
}

static bool all_zero(const struct replay_result *r)
{
    for (size_t i = 0; i < r->total; i++)
        if (r->steps[i].ran && r->steps[i].got.exit_code != FIELD_ABSENT && r->steps[i].got.exit_code != 0)
            return false;
    return true;
}

/* As there: a step that fails is no success, even if it failed when it was recorded; but only what differs is a failure
 * of the replay, and of this command. */
static void print_end(const struct replay_result *res)
{
    printf("完成: %zu/%zu 步\n", res->completed, res->total);
    printf("成功: %s\n", res->success && all_zero(res) ? "True" : "False");
    if (res->divergence_step >= 0)
        printf("首次偏离: step %lld\n", (long long)res->divergence_step);
}

static int replay(struct api *api, const char *id, const struct trajectory *t, bool json)
{
    struct arena arena = { 0 };
    struct replaying r = { .world = world_new(api, id, "replay") };
    struct replay_result res = { 0 };
    struct err e = { 0 };
    struct canon *c = canon_new();
    struct buf out;
    struct jw w = { .out = &out };

    if (!json)
        printf("重放轨迹: %zu 步\n", t->n);
    fflush(stdout);
    int n = replay_run(t, c, &(struct replay_ops){ .arg = &r, .call = call }, &arena, &res, &e);
    if (n < 0)
        fprintf(stderr, "重放失败: %s\n", e.msg);
    if (n >= 0 && json) {
        buf_init(&out, TRAJ_FILE_MAX);
        jw_obj(&w);
        replay_print(&w, &arena, &res);
        jw_obj_end(&w);
        printf("%.*s\n", STR_ARG(buf_view(&out)));
        buf_done(&out);
    } else if (n >= 0) {
        print_end(&res);
    }
    int code = n < 0 || !res.success ? EXIT_FAILED : EXIT_FINE;
    world_free(r.world, true);
    canon_free(c);
    arena_done(&arena);
    return code;
}

int knowlyr_replay(const struct command *cmd, int argc, char **argv)
{
    bool as_is = false;
    struct words w;
    struct loaded l = { 0 };
    struct api api;
    const struct option rows[] = {
        { "no-reset", 0, OPTION_FLAG, &as_is, NULL, "in the sandbox as it is, not from where it began" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n != 2)
        return usage_error(cmd, "name one sandbox and one file");
    if (access(w.v[1], R_OK) < 0)
        return usage_error(cmd, "FILE '%s': %s", w.v[1], strerror(errno));
    api_init(&api, &w);
    const char *id = knowlyr_find(&api, w.v[0], "重放失败");
    r = id ? load_file(w.v[1], NULL, &l) : EXIT_FAILED;
    if (id && r != 0)
        r = EXIT_FAILED;
    if (r == 0 && l.set.n != 1) {
        fprintf(stderr, "重放失败: %zu trajectories in the file, not one\n", l.set.n);
        r = EXIT_FAILED;
    }
    if (r == 0 && !as_is)
        r = begin_again(&api, id);
    char *name = r == 0 ? strdup(id) : NULL; /* the arena is emptied by calls */
    if (name)
        r = replay(&api, name, &l.set.v[0], w.json);
    free(name);
    loaded_done(&l);
    api_done(&api);
    return r;
}
