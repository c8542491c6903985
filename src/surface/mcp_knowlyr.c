/* The MCP tools of knowlyr's sandbox: their names, schemas and texts, over our boxes. Unlike theirs, a failure is
 * marked as one (isError), a snapshot can be restored, and a sandbox is found by its id whoever made it. */
#include "surface/mcp_alias.h"

#include "base/limits.h"

#define TOOLS "file_read|file_write|shell|search|git"

struct create_in {
    struct str repo_url, base_commit, language, image;
    int64_t timeout;
};
static const struct field create_fields[] = {
    FIELD(STR, struct create_in, repo_url, "URL of the Git repository", .required = true, .max = LIMIT_PATH),
    FIELD(STR, struct create_in, base_commit, "commit at which the work begins", .required = true, .max = 256),
    FIELD(STR, struct create_in, language, "language of the task", .def_str = "python", .max = 64),
    FIELD(STR, struct create_in, image, "image of the box", .def_str = "host", .max = LIMIT_PATH),
    FIELD(INT, struct create_in, timeout, "seconds that a command may take", .def = 300, .min = 1,
          .max = LIMIT_TIMEOUT_MS / 1000),
    { 0 },
};

static void refuse(struct exchange *x, const char *what, const char *why)
{
    mcp_text_result(x, str_of(arena_printf(&x->arena, "%s%s", what, why)), true);
}

static void on_created(void *arg, struct box *b, const struct err *e)
{
    struct exchange *x = arg;
    const struct create_in *in = x->own;
    struct buf o;
    struct jw j = { .out = &o };

    if (e) {
        refuse(x, "创建沙箱失败: ", e->msg);
        return;
    }
    if (x->cancelled) /* nobody hears of it */
        box_close(b, "its MCP request was cancelled", NULL, NULL);
    buf_init(&o, 64 * KiB);
    jw_obj(&j);
    jw_kz(&j, "sandbox_id", b->id);
    jw_kstr(&j, "image", in->image);
    jw_kstr(&j, "repo_url", in->repo_url);
    jw_kstr(&j, "base_commit", in->base_commit);
    jw_obj_end(&j);
    mcp_text_result(x, arena_copy(&x->arena, buf_view(&o)), false);
    buf_done(&o);
}

static struct json *config_of(struct exchange *x, const struct create_in *in, struct err *e)
{
    struct json *config = NULL;
    struct buf o;
    struct jw j = { .out = &o };

    buf_init(&o, 64 * KiB);
    jw_obj(&j);
    jw_kstr(&j, "image", in->image);
    jw_key(&j, "repo");
    jw_obj(&j);
    jw_kstr(&j, "url", in->repo_url);
    jw_kstr(&j, "commit", in->base_commit);
    jw_obj_end(&j);
    jw_key(&j, "task");
    jw_obj(&j);
    jw_kstr(&j, "language", in->language);
    jw_kint(&j, "timeout", in->timeout);
    jw_obj_end(&j);
    jw_obj_end(&j);
    int r = json_parse(&x->arena, arena_copy(&x->arena, buf_view(&o)), &config, e);
    buf_done(&o);
    return r < 0 ? NULL : config;
}

static void run_create(struct exchange *x, const void *p)
{
    struct box_ask ask;
    struct err e;
    struct json *config = config_of(x, p, &e);

    x->own = (void *)p;
    if (web_may_make_boxes(&x->as, &e) < 0) {
        on_created(x, NULL, &e);
        return;
    }
    if (!config || box_ask_bind(x->hub->node, config, &ask, &e) < 0) {
        refuse(x, "配置错误:\n", e.msg);
        return;
    }
    ask.standing = true;
    ask.tenant = x->as.tenant;
    struct box *b = box_new(x->hub->node, &ask, &e);
    if (b)
        box_when_up(b, on_created, x);
    else
        on_created(x, NULL, &e);
}

/* --- what is done with one --- */

struct in_box {
    struct str sandbox_id, tool_name, params, label, trajectory;
};
#define SANDBOX FIELD(STR, struct in_box, sandbox_id, "the sandbox", .required = true, .max = 128)
static const struct field execute_fields[] = {
    SANDBOX,
    FIELD(STR, struct in_box, tool_name, "which tool", .required = true, .choices = TOOLS),
    FIELD(JSON, struct in_box, params, "its parameters", .required = true, .max = LIMIT_FILE_IO),
    { 0 },
};
static const struct field reset_fields[] = { SANDBOX, { 0 } };
static const struct field snapshot_fields[] = {
    SANDBOX,
    FIELD(STR, struct in_box, label, "a name for it", .max = 64),
    { 0 },
};

/* The exchange goes on in that sandbox. False: it was answered that there is none. */
static bool enter(struct exchange *x, const struct in_box *in)
{
    if (!web_find_box(&x->as, in->sandbox_id)) {
        refuse(x, "沙箱不存在: ", arena_z(&x->arena, in->sandbox_id));
        return false;
    }
    x->as.box_name = in->sandbox_id;
    x->own = (void *)in;
    return true;
}

static void call(struct exchange *x, const char *tool, struct str params,
                 void (*on_call)(struct exchange *x, const struct call *c))
{
    struct json *j = NULL;
    struct err e;

    if (json_parse(&x->arena, params, &j, &e) < 0 || j->type != JSON_OBJ) {
        refuse(x, "params: ", "not an object");
        return;
    }
    x->on_call = on_call;
    mcp_call_tool(x, tool_find(str_of(tool), NULL), j);
}

static void on_executed(struct exchange *x, const struct call *c)
{
    struct json *data = NULL;
    struct buf o;
    struct jw j = { .out = &o };
    struct err e;

    if (!c->data.p || json_parse(&x->arena, c->data, &data, &e) < 0)
        data = NULL;
    const struct json *error = json_get(data, "error");
    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kstr(&j, "output", data ? json_get_str(data, "output") : STR(""));
    jw_kint(&j, "exit_code", data ? json_get_int(data, "exit_code", 0) : 1);
    if (data)
        jw_kraw(&j, "error", error ? error->raw : STR("null"));
    else
        jw_kstr(&j, "error", c->message);
    jw_obj_end(&j);
    mcp_text_result(x, arena_copy(&x->arena, buf_view(&o)), c->outcome != OUTCOME_OK);
    buf_done(&o);
}

static void run_execute(struct exchange *x, const void *p)
{
    const struct in_box *in = p;

    if (enter(x, in))
        call(x, arena_printf(&x->arena, "knowlyr:%.*s", STR_ARG(in->tool_name)), in->params, on_executed);
}

static void on_reset(struct exchange *x, const struct call *c)
{
    const struct in_box *in = x->own;

    if (c->outcome == OUTCOME_OK)
        mcp_text_result(x, str_of(arena_printf(&x->arena, "沙箱已重置: %.*s", STR_ARG(in->sandbox_id))), false);
    else
        refuse(x, "重置失败: ", arena_z(&x->arena, c->message));
}

static void run_reset(struct exchange *x, const void *p)
{
    if (enter(x, p))
        call(x, "box:reset", STR("{}"), on_reset);
}

/* --- snapshot: what it says of the work, then the state itself --- */

struct picture {
    const struct in_box *in;
    struct str changes, programs;
};

static void on_snapshot(struct exchange *x, const struct call *c)
{
    const struct picture *p = x->own;
    struct json *data = NULL;
    struct err e;

    if (c->outcome != OUTCOME_OK || json_parse(&x->arena, c->data, &data, &e) < 0) {
        refuse(x, "快照失败: ", arena_z(&x->arena, c->message));
        return;
    }
    struct str state = json_get_str(data, "state"), root = json_get_str(data, "root");
    mcp_text_result(x,
                    str_of(arena_printf(&x->arena,
                                        "## 沙箱快照\n\n- sandbox: %.*s\n- label: %.*s\n- state: %.*s\n- root: %.*s\n\n"
                                        "### git diff --stat\n```\n%.*s```\n\n### python\n```\n%.*s```\n",
                                        STR_ARG(p->in->sandbox_id), STR_ARG(p->in->label), STR_ARG(state),
                                        STR_ARG(root), STR_ARG(p->changes), STR_ARG(p->programs))),
                    false);
}

static struct str output_of(struct exchange *x, const struct call *c)
{
    struct json *data = NULL;
    struct err e;

    if (!c->data.p || json_parse(&x->arena, arena_copy(&x->arena, c->data), &data, &e) < 0)
        return STR("");
    return json_get_str(data, "output");
}

static void on_programs(struct exchange *x, const struct call *c)
{
    struct picture *p = x->own;
    struct buf o;
    struct jw j = { .out = &o };

    p->programs = output_of(x, c);
    buf_init(&o, 4096);
    jw_obj(&j);
    if (p->in->label.n)
        jw_kstr(&j, "name", p->in->label);
    jw_obj_end(&j);
    call(x, "box:snapshot", arena_copy(&x->arena, buf_view(&o)), on_snapshot);
    buf_done(&o);
}

static void on_changes(struct exchange *x, const struct call *c)
{
    struct picture *p = x->own;

    p->changes = output_of(x, c);
    call(x, "knowlyr:shell", STR("{\"command\":\"python3 --version; pip --version\"}"), on_programs);
}

static void run_snapshot(struct exchange *x, const void *in)
{
    struct picture *p = arena_alloc(&x->arena, sizeof *p);

    if (!enter(x, in))
        return;
    p->in = in;
    x->own = p;
    call(x, "knowlyr:shell", STR("{\"command\":\"git diff --stat HEAD 2>/dev/null\"}"), on_changes);
}

/* --- replay: each step again, in the sandbox as it is; what it prints is compared with what is expected --- */

static const struct field replay_fields[] = {
    SANDBOX,
    FIELD(JSON, struct in_box, trajectory, "steps of tool_name, params, expected_output", .required = true,
          .max = LIMIT_FILE_IO),
    { 0 },
};

struct rerun {
    const struct in_box *in;
    const struct json *step; /* the one under way */
    int64_t at, total, first_difference;
    bool success;
    struct buf details;
    struct jw w;
};

static struct str strip(struct str s)
{
    while (s.n && strchr(" \t\r\n\v\f", s.p[s.n - 1]))
        s.n--;
    while (s.n && strchr(" \t\r\n\v\f", s.p[0]))
        s.p++, s.n--;
    return s;
}

static void rerun_next(struct exchange *x);

static void on_rerun(struct exchange *x, const struct call *c)
{
    struct rerun *r = x->own;
    const struct json *expected = json_get(r->step, "expected_output");
    struct json *data = NULL;
    struct err e;

    if (!c->data.p || json_parse(&x->arena, arena_copy(&x->arena, c->data), &data, &e) < 0)
        data = NULL;
    struct str output = data ? json_get_str(data, "output") : c->message;
    int64_t exit_code = data ? json_get_int(data, "exit_code", 0) : 1;
    bool diverged = expected && expected->type == JSON_STR && !str_eq(strip(output), strip(expected->s));
    if (diverged && r->first_difference < 0)
        r->first_difference = r->at;
    r->success = r->success && !diverged && exit_code == 0;
    jw_obj(&r->w);
    jw_kint(&r->w, "step", r->at);
    jw_kstr(&r->w, "tool_name", json_get_str(r->step, "tool_name"));
    jw_kint(&r->w, "exit_code", exit_code);
    jw_kbool(&r->w, "diverged", diverged);
    jw_kstr(&r->w, "output", (struct str){ output.p, output.n < 200 ? output.n : 200 });
    jw_obj_end(&r->w);
    r->at++;
    r->step = r->step->next;
    rerun_next(x);
}

static void rerun_end(struct exchange *x)
{
    struct rerun *r = x->own;
    struct buf o;
    struct jw j = { .out = &o };

    jw_arr_end(&r->w);
    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kbool(&j, "success", r->success);
    jw_kint(&j, "total_steps", r->total);
    jw_kint(&j, "completed_steps", r->at);
    jw_kint(&j, "divergence_step", r->first_difference);
    jw_kraw(&j, "details", buf_view(&r->details));
    jw_obj_end(&j);
    buf_done(&r->details);
    mcp_text_result(x, arena_copy(&x->arena, buf_view(&o)), false);
    buf_done(&o);
}

static void rerun_next(struct exchange *x)
{
    struct rerun *r = x->own;

    if (!r->step || x->cancelled) {
        rerun_end(x);
        return;
    }
    char *tool = arena_printf(&x->arena, "knowlyr:%.*s", STR_ARG(json_get_str(r->step, "tool_name")));
    const struct json *params = json_get(r->step, "params");
    if (!tool_find(str_of(tool), NULL)) {
        buf_done(&r->details);
        refuse(x, "未知工具: ", strchr(tool, ':') + 1);
        return;
    }
    call(x, tool, params ? params->raw : STR("{}"), on_rerun);
}

static void run_replay(struct exchange *x, const void *p)
{
    const struct in_box *in = p;
    struct rerun *r = arena_alloc(&x->arena, sizeof *r);
    struct json *t = NULL;
    struct err e;

    if (!enter(x, in))
        return;
    if (json_parse(&x->arena, in->trajectory, &t, &e) < 0 || !json_get(t, "steps") ||
        json_get(t, "steps")->type != JSON_ARR) {
        refuse(x, "trajectory: ", "an object with an array of steps is expected");
        return;
    }
    *r = (struct rerun){ .in = in,
                         .step = json_get(t, "steps")->first,
                         .total = (int64_t)json_get(t, "steps")->count,
                         .first_difference = -1,
                         .success = true };
    buf_init(&r->details, LIMIT_HTTP_REPLY / 2);
    r->w.out = &r->details;
    jw_arr(&r->w);
    x->own = r;
    rerun_next(x);
}

#define IN(fields, type) .in = (fields), .in_size = sizeof(struct type)

const struct mcp_alias mcp_knowlyr[] = {
    { "knowlyr", "create_sandbox", "Create a sandbox", "Makes a sandbox with a repository at a commit.",
      IN(create_fields, create_in), .run = run_create },
    { "knowlyr", "execute_tool", "Run a tool", "Runs one of the five tools in a sandbox.", IN(execute_fields, in_box),
      .run = run_execute },
    { "knowlyr", "reset_sandbox", "Reset a sandbox", "Goes back to the commit at which the sandbox began.",
      IN(reset_fields, in_box), .run = run_reset },
    { "knowlyr", "replay_trajectory", "Replay a trajectory",
      "Runs its steps again in a sandbox and says where they went differently.", IN(replay_fields, in_box),
      .run = run_replay },
    { "knowlyr", "sandbox_snapshot", "Take a snapshot", "Keeps the sandbox as it is, and says what has changed.",
      IN(snapshot_fields, in_box), .run = run_snapshot },
    { 0 },
};
