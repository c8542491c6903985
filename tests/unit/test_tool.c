#include "test.h"

#include "base/buf.h"
#include "tool/tool.h"

TEST(tool_rows_are_consistent)
{
    for (const struct backend *const *b = backends; *b; b++) {
        EXPECT_TRUE(backend_find(str_of((*b)->name)) == *b);
        EXPECT_TRUE((*b)->help && (*b)->tools && (*b)->tool_count);
        for (size_t i = 0; i < (*b)->tool_count; i++) {
            const struct tool *t = &(*b)->tools[i];
            const struct backend *owner = NULL;
            size_t n = strlen((*b)->name);

            EXPECT_TRUE(strncmp(t->name, (*b)->name, n) == 0 && t->name[n] == ':');
            EXPECT_TRUE(tool_find(str_of(t->name), &owner) == t && owner == *b);
            EXPECT_TRUE(t->title && t->help && t->params && t->result && t->params_size && t->result_size);
            EXPECT_TRUE(!(t->flags & (TOOL_NEEDS_BOX | TOOL_ON_BOX | TOOL_ON_LOG)) ==
                        (t->run != NULL)); /* box tools have no code here */
            EXPECT_TRUE(!t->run_hand && !t->begin);
            EXPECT_TRUE(!(t->flags & TOOL_QUICK) || (t->flags & TOOL_READ_ONLY)); /* init itself only looks */
            if (t->flags & TOOL_NEEDS_BOX)
                EXPECT_TRUE((*b)->kind == KIND_SESSION || (*b)->kind == KIND_HYBRID);
            EXPECT_TRUE(!(*b)->hidden || (t->flags & TOOL_HIDDEN));
            for (const struct field *f = t->params; f->name; f++)
                EXPECT_TRUE(f->help && f->offset < t->params_size);
            for (const struct field *f = t->result; f->name; f++)
                EXPECT_TRUE(f->help && f->offset < t->result_size);
        }
    }
}

TEST(tool_resolve_as_agentflow_does)
{
    static const struct {
        const char *action, *tool; /* NULL: an error */
        enum err_code code;
        const char *candidates;
    } cases[] = {
        { "bash:run", "bash:run" },
        { "bash.run", "bash:run" },
        { "bash_run", "bash:run" },
        { "bash-run", "bash:run" },
        { "run", "bash:run" },
        { "stat", "file:stat" },
        { "code_execute", "code:execute" },
        { "echo", "probe:echo" },
        { "probe_shared:count", "probe_shared:count" },
        { "read", NULL, ERR_INVALID, "\"file:read\",\"code:read\"" },
        { "list", NULL, ERR_INVALID, "\"bash:list\",\"file:list\"" },
        { "execute", "code:execute" },
        { "interrupt", "bash:interrupt" },
        { "input", "bash:input" },
        { "delete", "file:delete" },
        { "goto", "browser:goto" },
        { "jupyter_execute", "jupyter:execute" },
        { "watchers", NULL, ERR_NOT_FOUND, "" }, /* only by its full name */
        { "count", NULL, ERR_INVALID, "\"probe_shared:count\",\"probe_session:count\"" },
        { "bash:nope", NULL, ERR_NOT_FOUND, "" },
        { "nope:run", NULL, ERR_NOT_FOUND, "" },
        { "nope.run", NULL, ERR_NOT_FOUND, "" },
        { "bash:", NULL, ERR_NOT_FOUND, "" },
        { ":run", NULL, ERR_NOT_FOUND, "" },
        { "bash", "code:bash" },
        { "file", NULL, ERR_NOT_FOUND, "" },
        { "", NULL, ERR_NOT_FOUND, "" },
        { "BASH:RUN", NULL, ERR_NOT_FOUND, "" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tool_choice found = { 0 };
        struct buf candidates;
        struct err e = { 0 };

        buf_init(&candidates, 1024);
        int r = tool_resolve(str_of(cases[i].action), true, &found, &candidates, &e);
        const struct tool *t = found.tool;
        const struct backend *b = found.backend;
        EXPECT_INT(r >= 0, cases[i].tool != NULL);
        if (cases[i].tool) {
            EXPECT_STR(str_of(t ? t->name : NULL), cases[i].tool);
            EXPECT_TRUE(b && strncmp(b->name, cases[i].tool, strlen(b->name)) == 0);
            EXPECT_INT(candidates.n, 0);
        } else {
            EXPECT_INT(e.code, cases[i].code);
            EXPECT_STR(buf_view(&candidates), cases[i].candidates);
        }
        buf_done(&candidates);
    }
}

TEST(tool_resolve_does_not_count_hidden_backends)
{
    static const char *const names[] = { "echo", "count", "probe:echo", "probe_shared:count", "probe.echo" };
    struct tool_choice found = { 0 };
    struct buf candidates;
    struct err e = { 0 };

    buf_init(&candidates, 1024);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        EXPECT_TRUE(tool_resolve(str_of(names[i]), false, &found, &candidates, &e) < 0);
        EXPECT_INT(e.code, ERR_NOT_FOUND);
        EXPECT_INT(candidates.n, 0);
        EXPECT_TRUE(!found.tool && !found.backend);
    }
    EXPECT_INT(tool_resolve(STR("run"), false, &found, &candidates, &e), 0);
    EXPECT_STR(str_of(found.tool->name), "bash:run");
    buf_done(&candidates);
}

TEST(probe_backends_show_their_kinds)
{
    const struct backend *b = NULL;
    struct err e = { 0 };
    int64_t result[2] = { 0 }; /* count, own */

    const struct tool *shared = tool_find(STR("probe_shared:count"), &b);
    struct tool_env env = { 0 };
    EXPECT_INT(b->warm(&e), 0);
    EXPECT_INT(shared->run(&env, NULL, result, &e), 0);
    EXPECT_INT(shared->run(&env, NULL, result, &e), 0);
    EXPECT_INT(result[0], 2);

    struct arena a = { 0 };
    void *one = NULL, *two = NULL;
    const struct tool *hybrid = tool_find(STR("probe_hybrid:tick"), &b);
    EXPECT_INT(b->warm(&e), 0);
    EXPECT_INT(b->open(&a, NULL, &one, &e), 0);
    EXPECT_INT(b->open(&a, NULL, &two, &e), 0);
    env.session_state = one;
    hybrid->run(&env, NULL, result, &e);
    hybrid->run(&env, NULL, result, &e);
    env.session_state = two;
    hybrid->run(&env, NULL, result, &e);
    EXPECT_INT(result[0], 3);
    EXPECT_INT(result[1], 1);
    arena_done(&a);
}
