#include "cli/replay_world.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/repo.h"

enum { TRIES = 6, ROOT_TRIES = 220, PAGES = 10000, TTL_S = 24 * 3600 };

struct pair_of_boxes {
    char *recorded, *made;
};
struct counterpart { /* a name of the recording, and what is meant by it here */
    struct counterpart *next;
    struct str recorded, made;
};
struct expected { /* a state that was taken over the API */
    struct expected *next;
    struct str state, box;
    int64_t step; /* after which */
    bool taken;
};
struct world {
    struct api *api;
    const char *on, *label;
    struct pair_of_boxes *boxes;
    size_t n;
    struct counterpart *states;
    struct counterpart *sessions; /* of terminals and the like, if the server named them */
    struct counterpart *aliases;  /* boxes: .made goes on where .recorded was */
    struct expected *expected;
    const struct trajectory *trajectory; /* nullable */
    struct str marked;                   /* the last of our own trajectories that the log knows as a replay */
    struct arena arena;
};

struct world *world_new(struct api *api, const char *on, const char *label)
{
    struct world *w = calloc(1, sizeof *w);

    if (!w)
        abort();
    *w = (struct world){ .api = api, .on = on, .label = label };
    return w;
}

/* Its states would stay for ever, and names that were given again would mean them. */
static void forget_states(struct world *w, const char *box)
{
    const struct json *page = NULL;

    for (int i = 0; i < PAGES; i++) {
        arena_reset(&w->api->arena);
        int r = api_try(w->api, arena_printf(&w->api->arena, "/sg/v1/states?box=%s", box), &page);
        const struct json *states = r == 0 ? json_get(page, "states") : NULL;
        if (!states || !states->first)
            return;
        for (const struct json *s = states->first; s; s = s->next) {
            const char *id = arena_z(&w->api->arena, json_get_str(s, "state"));
            if (api_call(w->api, "DELETE", api_path(w->api, "/sg/v1/states/", id, ""), (struct str){ 0 }, NULL) != 0)
                return;
        }
    }
}

static void destroy(struct world *w, const char *box)
{
    arena_reset(&w->api->arena);
    (void)api_call(w->api, "DELETE", api_path(w->api, "/sg/v1/boxes/", box, ""), (struct str){ 0 }, NULL);
    forget_states(w, box);
}

void world_free(struct world *w, bool keep)
{
    bool json = w->api->json;

    w->api->json = false; /* a box that is gone already is no part of the result */
    for (size_t i = 0; i < w->n; i++) {
        if (!keep)
            destroy(w, w->boxes[i].made);
        free(w->boxes[i].recorded);
        free(w->boxes[i].made);
    }
    w->api->json = json;
    free(w->boxes);
    arena_done(&w->arena);
    free(w);
}

const char *world_box(const struct world *w, size_t i)
{
    if (w->on)
        return i == 0 ? w->on : NULL;
    return i < w->n ? w->boxes[i].made : NULL;
}

/* --- making boxes --- */

/* Of a box that this server never had, the file may have them. */
static const struct json *settings_in_file(struct world *w, const char *recorded)
{
    struct json *boxes = NULL;
    struct err e;

    if (!w->trajectory || !w->trajectory->boxes.n || json_parse(&w->arena, w->trajectory->boxes, &boxes, &e) < 0)
        return NULL;
    const struct json *found = json_get(boxes, recorded);
    return found && found->type == JSON_OBJ ? found : NULL;
}

/* Like the recorded one, of which the log knows the settings; if it was forked, from the same state. */
static int make_box(struct world *w, const char *recorded, char **ret)
{
    const struct json *known = NULL, *answer = NULL;
    struct buf body;
    struct jw j = { .out = &body };
    int r = 0;

    arena_reset(&w->api->arena);
    if (*recorded)
        r = api_try(w->api, api_path(w->api, "/sg/v1/boxes/", recorded, "/settings"), &known);
    if (r != 0)
        return r;
    struct str state = json_get_str(known, "began_with");
    const struct json *settings = known ? json_get(known, "settings") : settings_in_file(w, recorded);
    buf_init(&body, LIMIT_HTTP_BODY);
    jw_obj(&j);
    for (const struct json *m = settings ? settings->first : NULL; m; m = m->next) {
        if (!known && str_is(m->name, "repo")) { /* another server's: if it was on this machine, it is sent along */
            (void)repo_add(w->api, &j, arena_z(&w->arena, json_get_str(m, "url")),
                           arena_z(&w->arena, json_get_str(m, "commit")));
            continue;
        }
        jw_key_str(&j, m->name);
        jw_raw(&j, m->raw);
    }
    jw_kint(&j, "ttl", TTL_S); /* if we are killed, nobody else destroys it */
    jw_key(&j, "labels");
    jw_obj(&j);
    jw_kz(&j, "replay", w->label);
    jw_obj_end(&j);
    jw_obj_end(&j);
    char *begin = state.n ? arena_z(&w->api->arena, state) : NULL;
    r = api_call(w->api, "POST", "/sg/v1/boxes", buf_view(&body), &answer);
    buf_done(&body);
    if (r == 0)
        *ret = strndup(json_get_str(answer, "id").p, json_get_str(answer, "id").n);
    if (r == 0 && begin) {
        buf_init(&body, 4096);
        buf_printf(&body, "{\"state\":\"%s\"}", begin);
        r = api_call(w->api, "POST", api_path(w->api, "/sg/v1/boxes/", *ret, "/restore"), buf_view(&body), NULL);
        buf_done(&body);
    }
    return r;
}

void world_alias(struct world *w, struct str from, struct str to)
{
    struct counterpart *p = arena_alloc(&w->arena, sizeof *p);

    *p = (struct counterpart){ .next = w->aliases, .recorded = from, .made = to };
    if (from.n && to.n)
        w->aliases = p;
}

int world_diff(struct api *api, struct str x, struct str y, struct arena *a, const struct json **ret)
{
    const struct json *answer = NULL;
    struct json *rows = NULL;
    struct err e;

    arena_reset(&api->arena);
    const char *path = arena_printf(&api->arena, "/sg/v1/diff?a=%.*s&b=%.*s&text=1", STR_ARG(x), STR_ARG(y));
    if (api_try(api, path, &answer) != 0 || !answer || !json_get(answer, "rows"))
        return -1;
    if (json_parse(a, arena_copy(a, json_get(answer, "rows")->raw), &rows, &e) < 0)
        return -1;
    *ret = rows;
    return 0;
}

static void add_box(struct world *w, struct str recorded, struct str made)
{
    struct pair_of_boxes *more = realloc(w->boxes, (w->n + 1) * sizeof *more);

    if (!more)
        abort();
    w->boxes = more;
    w->boxes[w->n++] =
        (struct pair_of_boxes){ strndup(recorded.p ? recorded.p : "", recorded.n), strndup(made.p, made.n) };
}

static int box_for(struct world *w, const struct traj_step *s, const char **ret)
{
    struct str recorded = s->box.p ? s->box : STR("");

    for (const struct counterpart *p = w->aliases; p; p = p->next) /* the newest first: chains are followed */
        if (str_eq(p->made, recorded))
            recorded = p->recorded;
    if (w->on) {
        *ret = w->on;
        return 0;
    }
    for (size_t i = 0; i < w->n; i++) /* a step that never reached a box goes to any */
        if (!recorded.n || str_is(recorded, w->boxes[i].recorded)) {
            *ret = w->boxes[i].made;
            return 0;
        }
    auto_free char *made = NULL;
    int r = make_box(w, arena_z(&w->arena, recorded), &made);
    if (r != 0)
        return r;
    add_box(w, recorded, str_of(made));
    *ret = w->boxes[w->n - 1].made;
    return 0;
}

/* The copies that box:fork made are counterparts of the recorded ones, in their order, and end with the world. */
static void know_copies(struct world *w, const struct traj_step *s, const struct traj_step *got)
{
    const struct json *theirs = json_get(s->data, "boxes"), *ours = json_get(got->data, "boxes");
    const struct json *x = theirs ? theirs->first : NULL;

    for (const struct json *y = ours ? ours->first : NULL; y; y = y->next) {
        if (json_get_str(y, "id").n)
            add_box(w, json_get_str(x, "id"), json_get_str(y, "id"));
        x = x ? x->next : NULL;
    }
}

/* A box that the recording used for one call only. */
static void drop_temporary(struct world *w, const struct traj_step *s)
{
    for (size_t i = 0; s->temporary && !w->on && i < w->n; i++)
        if (s->box.n && str_is(s->box, w->boxes[i].recorded)) {
            destroy(w, w->boxes[i].made);
            free(w->boxes[i].recorded);
            free(w->boxes[i].made);
            w->boxes[i] = w->boxes[--w->n];
        }
}

/* --- calls --- */

static void know(struct world *w, struct counterpart **list, struct str recorded, struct str made)
{
    struct counterpart *p = arena_alloc(&w->arena, sizeof *p);

    if (!recorded.n || !made.n)
        return;
    *p = (struct counterpart){ .next = *list,
                               .recorded = arena_copy(&w->arena, recorded),
                               .made = arena_copy(&w->arena, made) };
    *list = p;
}

static const struct counterpart *find(const struct counterpart *list, struct str recorded)
{
    const struct counterpart *p = recorded.n ? list : NULL;

    while (p && !str_eq(p->recorded, recorded))
        p = p->next;
    return p;
}

static bool is_box_tool(const struct traj_step *s)
{
    return s->tool.n > 4 && memcmp(s->tool.p, "box:", 4) == 0;
}

static struct str snapshot_of(const struct traj_step *s)
{
    return str_is(s->tool, "box:snapshot") ? json_get_str(s->data, "state") : (struct str){ 0 };
}

/* The state that a parameter of a box:* tool named, by its id: the result has it, where it was a name or a step's. */
static struct str state_named(const struct traj_step *s, const struct json *param)
{
    if (str_is(param->name, "state") || str_is(param->name, "step")) {
        struct str restored = json_get_str(s->data, "restored");
        return restored.n ? restored : json_get_str(s->data, "state");
    }
    if (str_is(param->name, "a") || str_is(param->name, "b"))
        return json_get_str(s->data, param->name.p[0] == 'a' ? "a" : "b");
    return (struct str){ 0 };
}

/* Tools that go back to a state name one of the recording: here, its counterpart is meant. */
static int print_params(struct world *w, struct jw *j, const struct traj_step *s, struct arena *a)
{
    struct str params = s->params.n ? s->params : STR("{}");
    struct json *v = NULL;
    struct err e;

    if (json_parse(a, params, &v, &e) < 0 || v->type != JSON_OBJ) {
        jw_raw(j, params);
        return 0;
    }
    const struct json *step = json_get(v, "step");
    bool by_state = step && find(w->states, state_named(s, step));
    jw_obj(j);
    for (const struct json *m = v->first; m; m = m->next) {
        const struct counterpart *p = find(w->states, state_named(s, m));
        bool is_step = str_is(m->name, "step");
        if (by_state && str_is(m->name, "trajectory"))
            continue;
        if (!p && m->type == JSON_STR)
            p = find(w->states, m->s);
        jw_key_str(j, p && is_step ? STR("state") : m->name);
        if (m->type == JSON_STR && str_is(m->name, "box")) { /* never the recorded one: that may still be in use */
            const char *box;
            int r = box_for(w, &(struct traj_step){ .box = m->s }, &box);
            if (r != 0)
                return r;
            jw_z(j, box);
        } else if (p) {
            jw_str(j, p->made);
        } else {
            jw_raw(j, m->raw);
        }
    }
    jw_obj_end(j);
    return 0;
}

/* So do those that go on in a session that an earlier step began. */
static void print_session_params(struct world *w, struct jw *j, const struct traj_step *s, struct arena *a)
{
    struct str params = s->params.n ? s->params : STR("{}");
    struct json *v = NULL;
    struct err e;

    if (!w->sessions || json_parse(a, params, &v, &e) < 0 || v->type != JSON_OBJ) {
        jw_raw(j, params);
        return;
    }
    jw_obj(j);
    for (const struct json *m = v->first; m; m = m->next) {
        bool names = str_is(m->name, "id") || str_is(m->name, "session_id") || str_is(m->name, "session");
        const struct counterpart *p = names && m->type == JSON_STR ? find(w->sessions, m->s) : NULL;
        jw_key_str(j, m->name);
        if (p)
            jw_str(j, p->made);
        else
            jw_raw(j, m->raw);
    }
    jw_obj_end(j);
}

static void know_session(struct world *w, const struct traj_step *s, const struct traj_step *got)
{
    struct str recorded = json_get_str(s->data, "session_id"), made = json_get_str(got->data, "session_id");

    if (!str_eq(recorded, made) && !find(w->sessions, recorded))
        know(w, &w->sessions, recorded, made);
}

/* --- states that no step tells of --- */

static bool is_told(const struct trajectory *t, struct str state)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct traj_step *s = &t->steps[i];
        bool went_there = json_get_str(s->data, "restored").n > 0;
        if ((!went_there && str_eq(s->state_id, state)) || str_eq(snapshot_of(s), state))
            return true;
    }
    return false;
}

static void expect(struct world *w, const struct trajectory *t, struct str state)
{
    const struct json *known = NULL;

    for (const struct expected *x = w->expected; x; x = x->next)
        if (str_eq(x->state, state))
            return;
    if (!state.n || is_told(t, state))
        return;
    arena_reset(&w->api->arena);
    const char *id = arena_z(&w->api->arena, state);
    if (api_try(w->api, api_path(w->api, "/sg/v1/states/", id, ""), &known) != 0 || !known ||
        !str_eq(json_get_str(known, "trajectory"), t->id))
        return; /* of another run: that one is meant */
    struct expected *x = arena_alloc(&w->arena, sizeof *x);
    *x = (struct expected){ .next = w->expected,
                            .state = state,
                            .box = arena_copy(&w->arena, json_get_str(known, "box")),
                            .step = json_get_int(known, "step", 0) };
    w->expected = x;
}

void world_expect(struct world *w, const struct trajectory *t)
{
    AUTO(arena_done) struct arena a = { 0 };
    struct json *params = NULL;
    struct err e;

    w->trajectory = t;
    for (size_t i = 0; i < t->n; i++) {
        const struct traj_step *s = &t->steps[i];
        if (!is_box_tool(s) || s->ours || !s->params.n || json_parse(&a, s->params, &params, &e) < 0)
            continue;
        for (const struct json *m = params->first; m; m = m->next)
            expect(w, t, state_named(s, m));
    }
}

static int take_expected(struct world *w, const struct traj_step *before)
{
    for (struct expected *x = w->expected; x; x = x->next) {
        struct traj_step there = { .box = x->box };
        const struct json *answer = NULL;
        const char *box;
        if (x->taken || x->step >= before->step)
            continue;
        x->taken = true;
        int r = box_for(w, &there, &box);
        arena_reset(&w->api->arena);
        if (r == 0)
            r = api_call(w->api, "POST", api_path(w->api, "/sg/v1/boxes/", box, "/snapshot"), STR("{}"), &answer);
        if (r != 0)
            return r;
        know(w, &w->states, x->state, json_get_str(answer, "state"));
    }
    return 0;
}

static int make_body(struct world *w, const struct traj_step *s, struct arena *a, struct buf *body)
{
    struct jw j = { .out = body };
    int r = 0;

    jw_obj(&j);
    jw_kstr(&j, "tool", s->tool);
    jw_key(&j, "params");
    if (is_box_tool(s))
        r = print_params(w, &j, s, a);
    else
        print_session_params(w, &j, s, a);
    /* The call's own timeout is not among the parameters; how long it ran before it was ended tells it. */
    if (str_is(s->outcome, "timeout") && s->run_us > 0)
        jw_knum(&j, "timeout", fmax(0.1, round((double)s->run_us / 1e5) / 10));
    jw_obj_end(&j);
    return r;
}

/* As api_call, but an answer that says how the call ended is an answer, whatever its status. */
static int execute(struct world *w, const char *box, struct str body, struct arena *a, const struct json **ret)
{
    struct client_request request = { .url = w->api->url, .method = "POST", .body = body };
    struct client *c = NULL;
    struct buf text;
    struct json *answer = NULL;
    struct err e = { 0 };

    arena_reset(&w->api->arena);
    request.path = api_path(w->api, "/sg/v1/boxes/", box, "/execute");
    buf_init(&text, LIMIT_HTTP_REPLY);
    int r = client_open(&request, &c, &e);
    if (r >= 0)
        r = client_body(c, &text, &e);
    int status = c ? client_status(c) : 0;
    client_close(c);
    if (r >= 0)
        (void)json_parse(a, arena_copy(a, buf_view(&text)), &answer, &e);
    buf_done(&text);
    if (r < 0) {
        complain("%s", e.msg);
        return r == -ETIMEDOUT ? EXIT_TIMEOUT : EXIT_UNREACHABLE;
    }
    if (!json_get_str(answer, "outcome").n) {
        struct str why = json_get_str(json_get(answer, "error"), "message");
        complain("box %s: %.*s (status %d)", box, STR_ARG(why), status);
        return status == 404 ? EXIT_NOT_FOUND : EXIT_REFUSED;
    }
    *ret = answer;
    return 0;
}

/* It is computed behind the answer. */
static void wait_root(struct world *w, struct arena *a, struct traj_step *got)
{
    for (int i = 0; i < ROOT_TRIES && !got->state_root.n; i++) {
        const struct json *state = NULL;
        arena_reset(&w->api->arena);
        if (i)
            usleep(i < 20 ? 5000 : 50000);
        if (api_try(w->api, api_path(w->api, "/sg/v1/states/", arena_z(&w->api->arena, got->state_id), ""), &state) !=
            0)
            return;
        got->state_root = arena_copy(a, json_get_str(state, "root"));
    }
}

/* What is done here is no episode: whoever collects those can tell. */
static void mark_replay(struct world *w, struct str trajectory)
{
    const struct json *ignored = NULL;
    struct buf body;
    struct jw j = { .out = &body };

    if (w->on || !trajectory.n || str_eq(w->marked, trajectory))
        return;
    w->marked = arena_copy(&w->arena, trajectory);
    buf_init(&body, 4096);
    jw_obj(&j);
    jw_key(&j, "metadata");
    jw_obj(&j);
    jw_kstr(&j, "replay_of", w->trajectory ? w->trajectory->id : STR(""));
    jw_obj_end(&j);
    jw_obj_end(&j);
    arena_reset(&w->api->arena);
    (void)api_call(w->api, "PATCH", api_path(w->api, "/sg/v1/trajectories/", arena_z(&w->api->arena, trajectory), ""),
                   buf_view(&body), &ignored);
    buf_done(&body);
}

int world_call(struct world *w, const struct traj_step *s, struct arena *a, struct traj_step *got)
{
    const struct json *answer = NULL;
    const char *box;
    struct buf body;
    int r = take_expected(w, s);

    if (r == 0)
        r = box_for(w, s, &box);
    if (r != 0)
        return r;
    buf_init(&body, LIMIT_HTTP_BODY + MiB);
    r = make_body(w, s, a, &body);
    for (int i = 0; r == 0 && i < TRIES; i++) {
        r = execute(w, box, buf_view(&body), a, &answer);
        bool again = r == 0 && str_is(json_get_str(answer, "outcome"), "infra_error") &&
                     json_get_bool(answer, "retry_safe", false) &&
                     !str_is(json_get_str(json_get(answer, "error"), "code"), "denied"); /* quarantined: it stays so */
        if (!again)
            break;
        usleep(100000u << i); /* the server is full or being restarted */
    }
    buf_done(&body);
    if (r != 0)
        return r;
    traj_result(got, answer);
    got->box = json_get_str(answer, "box_id");
    mark_replay(w, json_get_str(answer, "trajectory_id"));
    if (str_is(s->tool, "box:fork"))
        know_copies(w, s, got);
    know_session(w, s, got);
    know(w, &w->states, s->state_id, got->state_id);
    know(w, &w->states, snapshot_of(s), snapshot_of(got));
    if (s->state_root.n && got->state_id.n)
        wait_root(w, a, got);
    drop_temporary(w, s);
    return 0;
}
