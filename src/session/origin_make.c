/* Making the state that a box of an origin begins with, in a helper that is gone afterwards:
 *
 *   helper up ── session ── (bundle in) ── clone and check out ── base state ── set-up commands ── state ── helper away
 *                                          └── not after a reset: it begins with the base state ──┘
 *
 * The helper has the network, because a clone and a set-up need it; the agent never runs in it. A repository of this
 * machine is mounted into it, read-only, and only from below mount.roots: supervise checks that. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "session/call.h"
#include "session/carry.h"
#include "session/origin_parts.h"

#define REPO_MOUNT  "/mnt"
#define REPO_BUNDLE "/tmp/.sandglass-bundle"

struct setup_end {
    int64_t exit_code;
    struct str error;
};

struct make {
    struct node *node;
    struct tenant *tenant;
    struct arena arena;
    struct box_spec spec; /* the agent's */
    struct origin_ask ask;
    struct str shown, head;
    bool plain_dir; /* the work directory is worth saying */
    char helper[BOX_ID_MAX];
    char base[40];
    struct setup_end *ends;
    size_t setup_done;
    /* who waits: a box that is being made, or one that is being reset */
    struct box *box;
    void (*ready)(struct box *b, const struct err *e);
    char reset[BOX_ID_MAX];
    on_state *cb;
    void *arg;
};

/* --- the end --- */

/* What a language's tests are usually run with. */
static struct str usual_tests(struct str language)
{
    static const struct {
        const char *language, *command;
    } usual[] = {
        { "python", "python3 -m pytest" },
        { "javascript", "npm test" },
        { "typescript", "npm test" },
        { "go", "go test ./..." },
        { "rust", "cargo test" },
        { "java", "mvn -q test" },
        { "c", "make test" },
        { "c++", "make test" },
        { "cpp", "make test" },
        { "ruby", "bundle exec rake test" },
    };

    for (size_t i = 0; language.n && i < ARRAY_LEN(usual); i++)
        if (str_is(language, usual[i].language))
            return str_of(usual[i].command);
    return (struct str){ 0 };
}

static void print_setup(const struct make *m, struct jw *w)
{
    jw_key(w, "setup_commands");
    jw_arr(w);
    for (size_t i = 0; i < m->ask.setup_commands.n; i++)
        jw_str(w, m->ask.setup_commands.v[i]);
    jw_arr_end(w);
    jw_key(w, "setup");
    jw_arr(w);
    for (size_t i = 0; i < m->setup_done; i++) {
        jw_obj(w);
        jw_kint(w, "exit_code", m->ends[i].exit_code);
        jw_kstr(w, "error", m->ends[i].error);
        jw_obj_end(w);
    }
    jw_arr_end(w);
}

static void print_env(const struct make *m, struct jw *w)
{
    jw_obj(w);
    for (size_t i = 0; i < m->ask.env.n; i++) {
        jw_key_str(w, m->ask.env.v[i].name);
        jw_str(w, m->ask.env.v[i].value.p ? m->ask.env.v[i].value : STR(""));
    }
    jw_obj_end(w);
}

/* The object that is recorded and printed: nothing secret is in it. */
static struct str print_origin(struct make *m)
{
    struct str tests = m->ask.test_command.n ? m->ask.test_command : usual_tests(m->ask.language);
    struct buf o;
    struct jw w = { .out = &o };

    buf_init(&o, LIMIT_RECORD);
    jw_obj(&w);
    if (m->ask.at.url.n) {
        jw_key(&w, "repo");
        jw_obj(&w);
        jw_kstr(&w, "url", m->shown);
        jw_kstr(&w, "commit", m->ask.at.commit);
        jw_kstr(&w, "head", m->head);
        jw_obj_end(&w);
    }
    if (m->base[0])
        jw_kz(&w, "state", m->base);
    if (!m->plain_dir)
        jw_kstr(&w, "work_dir", m->ask.work_dir);
    if (m->ask.setup_commands.n)
        print_setup(m, &w);
    if (tests.n)
        jw_kstr(&w, "test_command", tests);
    if (m->ask.language.n)
        jw_kstr(&w, "language", m->ask.language);
    if (m->ask.env.n) {
        jw_key(&w, "env");
        print_env(m, &w);
    }
    if (m->ask.timeout > 0)
        jw_knum(&w, "timeout", m->ask.timeout);
    jw_obj_end(&w);
    struct str text = arena_copy(&m->arena, buf_view(&o));
    buf_done(&o);
    return text;
}

static void begin_with(struct make *m, const struct state *s)
{
    struct box *b = m->box;

    if (s) {
        state_apply(s, &b->spec);
        snprintf(b->state_id, sizeof b->state_id, "%s", s->id);
        memcpy(b->root, s->root, sizeof b->root);
    }
    origin_take(b, print_origin(m));
    carry_expect(b, origin_shell(b), (struct str){ 0 });
}

static void finish(struct make *m, const struct state *s, const struct err *e)
{
    struct box *helper = m->helper[0] ? box_find(m->node, str_of(m->helper)) : NULL;
    struct box *b = m->reset[0] ? box_find(m->node, str_of(m->reset)) : NULL;

    if (helper)
        box_close(helper, "done", NULL, NULL);
    if (m->ready) {
        if (!e)
            begin_with(m, s);
        m->ready(m->box, e);
    } else {
        if (b && !e)
            origin_take(b, print_origin(m));
        m->cb(m->arg, s, e);
    }
    arena_done(&m->arena);
    free(m);
}

static void fail(struct make *m, enum err_code code, const char *what, struct str why)
{
    struct err e;

    while (why.n && (why.p[why.n - 1] == '\n' || why.p[why.n - 1] == ' '))
        why.n--;
    if (!str_eq(m->shown, m->ask.at.url) && why.n && memmem(why.p, why.n, m->ask.at.url.p, m->ask.at.url.n))
        why = STR("what git said names the secret of the URL, and is left out");
    if (why.n > 170) /* git says what is wrong at the end */
        why = (struct str){ why.p + why.n - 170, 170 };
    err_set(&e, code, "%s: %.*s", what, STR_ARG(why));
    finish(m, NULL, &e);
}

/* --- calls in the helper, which are no steps --- */

static struct session *session_of(const struct make *m)
{
    struct box *b = box_find(m->node, str_of(m->helper));

    return b ? b->sessions : NULL;
}

static void call_with(struct make *m, const char *tool, struct buf *take_params, on_call_done *cb)
{
    struct session *s = session_of(m);
    struct err e;

    err_set(&e, ERR_SYSTEM, "the helper box of the repository ended");
    bool begun = s && call_silent_json(s, tool_find(str_of(tool), NULL), buf_view(take_params),
                                       m->node->opts.repo_timeout_ms, cb, m);
    buf_done(take_params);
    if (!begun)
        finish(m, NULL, &e);
}

static void on_setup(void *arg, const struct call *c);

/* argv: a program and its arguments, which no shell reads. */
static void run(struct make *m, const struct str *argv, size_t n, struct str cwd, on_call_done *cb)
{
    struct buf o;
    struct jw w = { .out = &o };

    buf_init(&o, LIMIT_RECORD);
    jw_obj(&w);
    jw_key(&w, "argv");
    jw_arr(&w);
    for (size_t i = 0; i < n; i++)
        jw_str(&w, argv[i]);
    jw_arr_end(&w);
    if (cwd.n)
        jw_kstr(&w, "cwd", cwd);
    if (cb == on_setup && m->ask.env.n) {
        jw_key(&w, "env");
        print_env(m, &w);
    }
    jw_obj_end(&w);
    call_with(m, "code:program", &o, cb);
}

static struct json *data_of(struct make *m, const struct call *c)
{
    struct json *data = NULL;
    struct err e;

    if (c->data.p)
        (void)json_parse(&m->arena, arena_copy(&m->arena, c->data), &data, &e);
    return data;
}

/* --- set-up --- */

static void on_state_after(void *arg, const struct state *s, const struct err *e)
{
    finish(arg, s, e);
}

static void next_setup(struct make *m);

static void on_setup(void *arg, const struct call *c)
{
    struct make *m = arg;
    const struct json *data = data_of(m, c);
    struct str said = json_get_str(data, "stderr");

    if (!data) {
        fail(m, ERR_SYSTEM, "task.setup_commands", c->message);
        return;
    }
    if (c->outcome != OUTCOME_OK && c->outcome != OUTCOME_TASK_ERROR)
        said = c->message;
    if (said.n > 2000)
        said = (struct str){ said.p + said.n - 2000, 2000 };
    bool failed = json_get_int(data, "exit_code", -1) != 0;
    m->ends[m->setup_done++] =
        (struct setup_end){ json_get_int(data, "exit_code", -1), failed ? said : (struct str){ 0 } };
    next_setup(m);
}

/* A command that fails is reported, and does not stop the others: it may be meant to. */
static void next_setup(struct make *m)
{
    struct box *helper = box_find(m->node, str_of(m->helper));
    struct err e;

    if (m->setup_done < m->ask.setup_commands.n) {
        struct str argv[] = { STR("bash"), STR("-c"), m->ask.setup_commands.v[m->setup_done] };
        run(m, argv, ARRAY_LEN(argv), m->ask.work_dir, on_setup);
    } else if (helper) {
        state_take(helper, (struct str){ 0 }, &(struct moment){ 0 }, on_state_after, m);
    } else {
        err_set(&e, ERR_SYSTEM, "the helper box of the repository ended");
        finish(m, NULL, &e);
    }
}

/* --- clone --- */

/* $1 what to clone, $2 the commit, $3 where to, $4 the URL as the agent may see it. Without a URL: only the directory.
 * A commit that no branch has is asked for by its name. HEAD ends detached, at exactly that commit.
 * The bundle of a shallow repository does not say where the history ends, and git will not clone it: what is found to
 * be missing says it. */
static const char clone_script[] =
    "set -u\n"
    "from_shallow() {\n"
    "    [ -f \"$1\" ] && git init -q -- \"$2\" && cd -- \"$2\" || return 1\n"
    "    git fsck --connectivity-only $(git bundle unbundle \"$1\" | cut -d' ' -f1) |\n"
    "        sed -n 's/^broken link from *commit //p' > .git/shallow\n"
    "    [ -s .git/shallow ] && git remote add origin \"$1\" &&\n"
    "        git fetch -q origin '+refs/heads/*:refs/remotes/origin/*' --tags\n"
    "}\n"
    "[ -d \"$3\" ] && [ -w \"$3\" ] || mkdir -p -- \"$3\" 2>/dev/null ||\n"
    "    sudo sh -c 'mkdir -p -- \"$1\" && chown -- \"$2\" \"$1\"' make \"$3\" \"$(id -u):$(id -g)\" || exit 4\n"
    "[ -n \"$1\" ] || exit 0\n"
    "printf '[safe]\\n\\tdirectory = *\\n' > /dev/shm/.gitconfig\n"
    "export GIT_CONFIG_GLOBAL=/dev/shm/.gitconfig GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0\n"
    "export GIT_ALLOW_PROTOCOL=file:git:http:https:ssh\n"
    "export GIT_SSH_COMMAND='ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new'\n"
    "said=$(git clone -q --no-checkout -- \"$1\" \"$3\" 2>&1) || from_shallow \"$1\" \"$3\" 2>/dev/null ||\n"
    "    { printf '%s\\n' \"$said\" >&2; exit 2; }\n"
    "cd -- \"$3\" || exit 2\n"
    "git remote set-url origin \"$4\" || exit 2\n"
    "sha=$(git rev-parse -q --verify --end-of-options \"$2^{commit}\") ||\n"
    "    sha=$(git rev-parse -q --verify --end-of-options \"refs/remotes/origin/$2^{commit}\") ||\n"
    "    { git fetch -q -- \"$1\" \"$2\" && sha=$(git rev-parse -q --verify 'FETCH_HEAD^{commit}'); } || exit 3\n"
    "git -c advice.detachedHead=false checkout -q --detach \"$sha\" || exit 3\n"
    "rm -f .git/FETCH_HEAD " REPO_BUNDLE " /dev/shm/.gitconfig\n"
    "printf '%s\\n' \"$sha\"\n";

static void on_base(void *arg, const struct state *s, const struct err *e)
{
    struct make *m = arg;

    if (e) {
        finish(m, NULL, e);
        return;
    }
    memcpy(m->base, s->id, sizeof m->base);
    if (m->ask.setup_commands.n)
        next_setup(m);
    else
        finish(m, s, NULL);
}

static void on_cloned(void *arg, const struct call *c)
{
    struct make *m = arg;
    const struct json *data = data_of(m, c);
    int64_t code = json_get_int(data, "exit_code", -1);
    struct str said = json_get_str(data, "stderr"), out = json_get_str(data, "stdout");
    struct box *helper = box_find(m->node, str_of(m->helper));

    while (out.n && out.p[out.n - 1] == '\n')
        out.n--;
    m->head = out;
    if (c->outcome == OUTCOME_OK && helper)
        state_take(helper, (struct str){ 0 }, &(struct moment){ 0 }, on_base, m);
    else if (c->outcome == OUTCOME_TASK_ERROR && code == 2)
        fail(m, ERR_INVALID, "repo.url: git clone failed", said);
    else if (c->outcome == OUTCOME_TASK_ERROR && code == 3)
        fail(m, ERR_INVALID, "repo.commit: git checkout failed", said.n ? said : STR("there is no such commit"));
    else if (c->outcome == OUTCOME_TASK_ERROR && code == 4)
        fail(m, ERR_INVALID, "task.work_dir: it cannot be made", said);
    else
        fail(m, ERR_SYSTEM, "repo: git clone", c->outcome == OUTCOME_TASK_ERROR ? said : c->message);
}

static void clone(struct make *m)
{
    struct str local = origin_local(m->ask.at.url);
    struct str from = m->ask.at.bundle.n ? STR(REPO_BUNDLE) : local.n ? STR("file://" REPO_MOUNT) : m->ask.at.url;
    struct str argv[] = {
        STR("bash"),
        STR("-c"),
        str_of(clone_script),
        STR("clone"),
        m->ask.at.url.n ? from : STR(""),
        m->ask.at.commit,
        m->ask.work_dir,
        m->shown,
    };

    for (size_t i = 0; i < ARRAY_LEN(argv); i++)
        if (!argv[i].p)
            argv[i] = STR("");
    run(m, argv, ARRAY_LEN(argv), (struct str){ 0 }, on_cloned);
}

static void on_bundle(void *arg, const struct call *c)
{
    struct make *m = arg;

    if (c->outcome == OUTCOME_OK)
        clone(m);
    else
        fail(m, c->outcome == OUTCOME_TASK_ERROR ? ERR_INVALID : ERR_SYSTEM, "repo.bundle", c->message);
}

static void send_bundle(struct make *m)
{
    struct buf o;
    struct jw w = { .out = &o };

    buf_init(&o, LIMIT_RECORD);
    jw_obj(&w);
    jw_kz(&w, "path", REPO_BUNDLE);
    jw_kstr(&w, "data", m->ask.at.bundle);
    jw_obj_end(&w);
    m->ask.at.bundle.n = 1; /* it is in the box: its text is not needed again, only that there was one */
    call_with(m, "file:write", &o, on_bundle);
}

/* --- the helper --- */

static void on_session(void *arg, struct session *s, const struct err *e)
{
    struct make *m = arg;

    (void)s;
    if (e)
        finish(m, NULL, e);
    else if (m->base[0])
        next_setup(m); /* after a reset */
    else if (m->ask.at.bundle.n)
        send_bundle(m);
    else
        clone(m);
}

static void on_helper(void *arg, struct box *b, const struct err *e)
{
    struct make *m = arg;
    struct session *s;
    struct err why;

    if (e) {
        why = *e;
        if (origin_local(m->ask.at.url).n && !m->ask.at.bundle.n)
            (void)err_wrap(&why, 0, "repo.url"); /* it is mounted */
        finish(m, NULL, &why);
        return;
    }
    snprintf(m->helper, sizeof m->helper, "%s", b->id);
    struct worker *w = worker_get(m->node, m->tenant, str_of(b->id), &why);
    if (!w ||
        session_open(
            w, &(struct session_ask){ .backend = backend_find(STR("code")), .box = b, .on_open = on_session, .arg = m },
            &s, &why) < 0)
        finish(m, NULL, &why);
}

static int helper_spec(const struct make *m, struct box_spec *spec, struct err *e)
{
    struct str local = origin_local(m->ask.at.url);

    *spec = m->spec;
    spec->sudo = true; /* the work directory may have to be made */
    bool remote = m->ask.at.url.n && !local.n && !m->ask.at.bundle.n;
    spec->network = remote || m->ask.setup_commands.n ? BOX_NETWORK_FULL : BOX_NETWORK_NONE;
    if (!local.n || m->ask.at.bundle.n || m->base[0])
        return 0;
    if (spec->mount_count == LIMIT_MOUNTS || local.n >= sizeof spec->mounts[0].from)
        return err_set(e, ERR_LIMIT, "repo.url: LIMIT_MOUNTS (%d) mounts are taken, or its path exceeds %zu bytes",
                       LIMIT_MOUNTS, sizeof spec->mounts[0].from - 1);
    struct box_mount *at = &spec->mounts[spec->mount_count++];
    *at = (struct box_mount){ .to = REPO_MOUNT };
    snprintf(at->from, sizeof at->from, "%.*s", STR_ARG(local));
    return 0;
}

static int start(struct make *m, struct err *e)
{
    struct box_ask ask = { .tenant = m->tenant, .helper = true };

    m->ends = arena_alloc(&m->arena, (m->ask.setup_commands.n + 1) * sizeof *m->ends);
    int r = helper_spec(m, &ask.spec, e);
    if (r < 0)
        return r;
    struct box *helper = box_new(m->node, &ask, e);
    if (!helper)
        return -EAGAIN;
    box_when_up(helper, on_helper, m);
    return 0;
}

static struct make *make_new(const struct box *b)
{
    struct make *m = calloc(1, sizeof *m);

    if (!m)
        abort();
    m->node = b->node;
    m->tenant = b->tenant;
    m->spec = b->spec;
    return m;
}

/* Cloned before: only the set-up is run again. Else it is cloned, as if nobody had spoken of a state. */
static void on_clone_found(void *arg, const struct state *s, const struct err *e)
{
    struct make *m = arg;
    struct err why = { 0 };

    if (s && !e && !s->quarantined && !s->suspect && strcmp(s->image, m->spec.image) == 0 &&
        s->spec.sudo == m->spec.sudo) {
        snprintf(m->base, sizeof m->base, "%s", s->id);
        m->head = m->ask.at.commit;
        if (!m->ask.setup_commands.n) {
            finish(m, s, NULL);
            return;
        }
        state_apply(s, &m->spec);
    }
    if (start(m, &why) < 0)
        finish(m, NULL, &why);
}

int origin_begin(struct box *b, const struct json *config, void (*ready)(struct box *b, const struct err *e),
                 struct err *e)
{
    struct make *m = make_new(b);
    struct json *own = NULL;

    m->box = b;
    m->ready = ready;
    int r = json_parse(&m->arena, arena_copy(&m->arena, config->raw), &own, e);
    if (r >= 0)
        r = origin_read(&m->arena, own, &m->ask, e);
    if (r >= 0) {
        struct str dir = json_get_str(json_get(own, "task"), "work_dir");
        bool needs_helper = m->ask.at.url.n || m->ask.setup_commands.n || (dir.n && !str_is(dir, "/workspace"));
        m->shown = m->ask.at.url.n ? origin_shown(&m->arena, m->ask.at.url) : (struct str){ 0 };
        m->plain_dir = !needs_helper && !dir.n;
        if (m->ask.at.state.n)
            state_find(m->node, m->tenant, m->ask.at.state, on_clone_found, m);
        else if (needs_helper)
            r = start(m, e);
        else
            finish(m, NULL, NULL);
    }
    if (r < 0) {
        arena_done(&m->arena);
        free(m);
    }
    return r;
}

/* --- again --- */

static void read_back(struct make *m, const struct json *o)
{
    const struct json *repo = json_get(o, "repo"), *setup = json_get(o, "setup_commands");

    m->ask.at.url = m->shown = json_get_str(repo, "url");
    m->ask.at.commit = json_get_str(repo, "commit");
    m->head = json_get_str(repo, "head");
    m->ask.work_dir = json_get_str(o, "work_dir");
    m->ask.test_command = json_get_str(o, "test_command");
    m->ask.language = json_get_str(o, "language");
    const struct json *timeout = json_get(o, "timeout");
    m->ask.timeout = timeout && timeout->type == JSON_NUM ? timeout->num : 0;
    const struct json *env = json_get(o, "env");
    m->ask.env.v = arena_alloc(&m->arena, ((env ? env->count : 0) + 1) * sizeof(struct pair));
    for (const struct json *v = env ? env->first : NULL; v; v = v->next)
        m->ask.env.v[m->ask.env.n++] = (struct pair){ v->name, v->s };
    m->ask.setup_commands.v = arena_alloc(&m->arena, ((setup ? setup->count : 0) + 1) * sizeof(struct str));
    for (const struct json *c = setup ? setup->first : NULL; c; c = c->next)
        m->ask.setup_commands.v[m->ask.setup_commands.n++] = c->s;
}

static void on_base_found(void *arg, const struct state *s, const struct err *e)
{
    struct make *m = arg;
    struct err why;

    if (e || !m->ask.setup_commands.n) {
        finish(m, s, e);
        return;
    }
    state_apply(s, &m->spec);
    if (start(m, &why) < 0)
        finish(m, NULL, &why);
}

void origin_again(struct box *b, on_state *cb, void *arg)
{
    struct make *m = make_new(b);
    struct json *o = NULL;
    struct err e;

    m->cb = cb;
    m->arg = arg;
    snprintf(m->reset, sizeof m->reset, "%s", b->id);
    snprintf(m->base, sizeof m->base, "%s", b->base_state);
    if (json_parse(&m->arena, arena_copy(&m->arena, b->origin), &o, &e) < 0) {
        finish(m, NULL, &e);
        return;
    }
    read_back(m, o);
    state_find(m->node, m->tenant, str_of(m->base), on_base_found, m);
}
