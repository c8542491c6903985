/* The table of foreign names and what each becomes. Editing without an editor of ours is done by short shell scripts
 * whose inputs come as variables of the command's environment: nothing of a file is ever pasted into shell text. */
#include "replay/toolmap.h"

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

struct call {
    const struct toolmap *m;
    const struct json *args;
    struct traj_step *s;
    struct jw *w; /* inside the object that becomes params */
};

static struct str arg(const struct json *args, const char *names) /* "path|file_path": the first that is a string */
{
    while (*names) {
        size_t n = strcspn(names, "|");
        for (const struct json *v = args ? args->first : NULL; v; v = v->next)
            if (v->type == JSON_STR && str_eq(v->name, (struct str){ names, n }))
                return v->s;
        names += n + (names[n] == '|');
    }
    return (struct str){ 0 };
}

static void add_path(const struct call *c, const char *key, struct str path)
{
    struct arena *a = c->m->arena;

    if (path.n && path.p[0] != '/' && c->m->base)
        path = str_of(arena_printf(a, "%s/%.*s", c->m->base, STR_ARG(path)));
    jw_kstr(c->w, key, path);
}

static bool to_shell(const struct call *c)
{
    struct str command = arg(c->args, "command|cmd|code|input|script"), dir = arg(c->args, "work_dir|cwd|workdir");
    const struct json *timeout = json_get(c->args, "timeout");

    if (!command.p)
        return false;
    jw_kstr(c->w, "command", command);
    if (dir.n)
        add_path(c, "cwd", dir);
    else if (c->m->base)
        jw_kz(c->w, "cwd", c->m->base);
    if (timeout && timeout->type == JSON_NUM && timeout->num > 0 && timeout->num <= LIMIT_TIMEOUT_MS / 1000.0)
        jw_kraw(c->w, "timeout", timeout->raw);
    return true;
}

static bool to_read(const struct call *c)
{
    struct str path = arg(c->args, "path|file_path|filename");
    int64_t start = json_get_int(c->args, "start_line", 0), end = json_get_int(c->args, "end_line", 0);

    if (!path.p)
        return false;
    add_path(c, "path", path);
    if (start > 0)
        jw_kint(c->w, "start_line", start);
    if (start > 0 && end > 0) /* an end alone means the whole file there */
        jw_kint(c->w, "end_line", end);
    return true;
}

static bool to_write(const struct call *c)
{
    struct str path = arg(c->args, "path|file_path|filename"),
               content = arg(c->args, "content|file_text|text|contents");

    if (!path.p || !content.p)
        return false;
    add_path(c, "path", path);
    jw_kstr(c->w, "content", content);
    if (!json_get_bool(c->args, "create_dirs", true))
        jw_kbool(c->w, "mkdir", false);
    c->s->emulated = true; /* the words about what was written differ */
    return true;
}

struct var {
    const char *name;
    struct str value;
};

/* A script, and its variables for this command only. */
static void add_script(const struct call *c, const char *script, const struct var *vars, size_t n)
{
    jw_kz(c->w, "command", script);
    if (c->m->base)
        jw_kz(c->w, "cwd", c->m->base);
    jw_key(c->w, "env");
    jw_obj(c->w);
    for (size_t i = 0; i < n; i++)
        jw_kstr(c->w, vars[i].name, vars[i].value.p ? vars[i].value : STR(""));
    jw_obj_end(c->w);
}

static bool to_search(const struct call *c)
{
    struct str path = arg(c->args, "path"), only = arg(c->args, "file_pattern");
    const struct var vars[] = {
        { "SG_PATTERN", arg(c->args, "pattern") },
        { "SG_PATH", path.n ? path : STR(".") },
        { "SG_ONLY", only },
    };

    if (!vars[0].value.p)
        return false;
    /* nothing found is a result, not a failure */
    add_script(c, "grep -rn ${SG_ONLY:+\"--include=$SG_ONLY\"} -e \"$SG_PATTERN\" -- \"$SG_PATH\" || [ $? -eq 1 ]",
               vars, ARRAY_LEN(vars));
    return true;
}

static bool to_git(const struct call *c)
{
    struct str sub = arg(c->args, "subcommand|command"), more = arg(c->args, "args");
    struct arena *a = c->m->arena;

    if (!sub.p)
        return false;
    /* args is shell text there, quotes and all */
    jw_kz(c->w, "command", arena_printf(a, "git %.*s%s%.*s", STR_ARG(sub), more.n ? " " : "", STR_ARG(more)));
    if (c->m->base)
        jw_kz(c->w, "cwd", c->m->base);
    return true;
}

/* --- str_replace_editor --- */

static bool edit_view(const struct call *c)
{
    const struct json *range = json_get(c->args, "view_range");
    const struct json *from = range && range->type == JSON_ARR ? range->first : NULL, *to = from ? from->next : NULL;
    int64_t first = from && from->is_int ? from->i : 1, last = to && to->is_int ? to->i : -1;
    struct arena *a = c->m->arena;
    const struct var vars[] = {
        { "SG_PATH", arg(c->args, "path") },
        { "SG_FROM", str_of(arena_printf(a, "%lld", (long long)first)) },
        { "SG_TO", last < 0 ? STR("$") : str_of(arena_printf(a, "%lld", (long long)last)) },
    };

    add_script(c,
               "if [ -d \"$SG_PATH\" ]; then find \"$SG_PATH\" -maxdepth 2 -not -path '*/.*' | sort; "
               "else cat -n -- \"$SG_PATH\" | sed -n \"${SG_FROM},${SG_TO}p\"; fi",
               vars, ARRAY_LEN(vars));
    return true;
}

/* $(...; printf x) keeps the newlines at the end; pattern matching with "$SG_OLD" in quotes is literal. */
static bool edit_replace(const struct call *c)
{
    const struct var vars[] = {
        { "SG_PATH", arg(c->args, "path") },
        { "SG_OLD", arg(c->args, "old_str") },
        { "SG_NEW", arg(c->args, "new_str") },
    };

    if (!vars[1].value.n)
        return false;
    add_script(c,
               "( t=$(cat -- \"$SG_PATH\" && printf x) || exit 1; t=${t%x}; after=${t#*\"$SG_OLD\"}; "
               "[ \"$after\" != \"$t\" ] || { echo 'old_str was not found' >&2; exit 1; }; "
               "case $after in *\"$SG_OLD\"*) echo 'old_str is there more than once' >&2; exit 1;; esac; "
               "printf %s \"${t%%\"$SG_OLD\"*}$SG_NEW$after\" > \"$SG_PATH\" )",
               vars, ARRAY_LEN(vars));
    return true;
}

static bool edit_insert(const struct call *c)
{
    const struct var vars[] = {
        { "SG_PATH", arg(c->args, "path") },
        { "SG_NEW", arg(c->args, "new_str|insert_text") },
        { "SG_LINE", str_of(arena_printf(c->m->arena, "%lld", (long long)json_get_int(c->args, "insert_line", -1))) },
    };

    if (!vars[1].value.p || vars[2].value.p[0] == '-')
        return false;
    add_script(
        c,
        "( t=$(head -n \"$SG_LINE\" -- \"$SG_PATH\"; printf '%s\\n' \"$SG_NEW\"; "
        "tail -n \"+$((SG_LINE + 1))\" -- \"$SG_PATH\"; printf x) || exit 1; printf %s \"${t%x}\" > \"$SG_PATH\" )",
        vars, ARRAY_LEN(vars));
    return true;
}

static bool to_edit(const struct call *c)
{
    struct str what = arg(c->args, "command");

    c->s->emulated = true;
    if (!arg(c->args, "path").n)
        return false;
    if (str_is(what, "view"))
        return edit_view(c);
    if (str_is(what, "create")) {
        c->s->tool = STR("file:write");
        return to_write(c);
    }
    if (str_is(what, "str_replace"))
        return edit_replace(c);
    if (str_is(what, "insert"))
        return edit_insert(c);
    return false; /* undo_edit: only that editor knows what it did */
}

/* --- the table --- */

static bool nothing(const struct call *c)
{
    c->s->ends = true;
    return true;
}

static const struct {
    const char *name, *tool;
    bool (*make)(const struct call *c); /* false: these arguments cannot be translated */
} names[] = {
    { "shell", "bash:run", to_shell },
    { "bash", "bash:run", to_shell },
    { "execute_bash", "bash:run", to_shell },
    { "run_command", "bash:run", to_shell },
    { "execute_command", "bash:run", to_shell },
    { "run_shell_command", "bash:run", to_shell },
    { "bash_command", "bash:run", to_shell },
    { "terminal", "bash:run", to_shell },
    { "file_read", "file:read", to_read },
    { "read_file", "file:read", to_read },
    { "file_write", "file:write", to_write },
    { "write_file", "file:write", to_write },
    { "create_file", "file:write", to_write },
    { "search", "bash:run", to_search },
    { "git", "bash:run", to_git },
    { "str_replace_editor", "bash:run", to_edit },
    { "str_replace_based_edit_tool", "bash:run", to_edit },
    { "submit", "", nothing },
    { "finish", "", nothing },
    { "think", "", nothing },
    { "exit_forfeit", "", nothing },
};

/* One of ours, by any spelling, that takes these arguments as they are. */
static bool take_own(const struct toolmap *m, struct str name, const struct json *args, struct traj_step *s)
{
    struct tool_choice choice;
    struct err e;

    if (!name.n || !strpbrk(arena_z(m->arena, name), ":._-") || tool_resolve(name, true, &choice, NULL, &e) < 0)
        return false;
    const struct tool *tool = choice.tool;
    bool exact = str_is(name, tool->name);
    if (!exact && field_bind(tool->params, args, m->arena, arena_alloc(m->arena, tool->params_size), NULL, &e) < 0)
        return false;
    /* A relative path would mean another place here than there. */
    struct str path = json_get_str(args, "path");
    if (!exact && m->base && !(path.n && path.p[0] == '/'))
        return false;
    s->tool = str_of(tool->name);
    s->params = args ? args->raw : STR("{}");
    if (exact)
        s->as_tool = s->as_params = (struct str){ 0 };
    return true;
}

/* knowlyr's own tools are among ours. What its original read differently goes the other way: there, an end_line without
 * a start_line meant nothing. */
static bool take_knowlyr(const struct toolmap *m, struct str name, const struct json *args, struct traj_step *s)
{
    const struct tool *tool = tool_find(str_of(arena_printf(m->arena, "knowlyr:%.*s", STR_ARG(name))), NULL);
    struct err e;

    if (!tool || (json_get_int(args, "end_line", 0) > 0 && json_get_int(args, "start_line", 0) <= 0))
        return false;
    if (field_bind(tool->params, args, m->arena, arena_alloc(m->arena, tool->params_size), NULL, &e) < 0)
        return false;
    s->tool = str_of(tool->name);
    s->params = args ? args->raw : STR("{}");
    return true;
}

static bool translate(const struct toolmap *m, struct str name, const struct json *args, struct traj_step *s)
{
    struct buf out;
    bool ok = false;

    buf_init(&out, 2 * (size_t)LIMIT_FILE_IO);
    struct jw w = { .out = &out };
    struct call c = { .m = m, .args = args, .s = s, .w = &w };
    for (size_t i = 0; i < ARRAY_LEN(names) && !ok; i++) {
        if (!str_is(name, names[i].name))
            continue;
        jw_obj(&w);
        s->tool = str_of(names[i].tool);
        ok = names[i].make(&c);
        jw_obj_end(&w);
        break;
    }
    ok = ok && !out.full;
    if (ok && !s->ends)
        s->params = arena_copy(m->arena, buf_view(&out));
    buf_done(&out);
    return ok;
}

bool toolmap_knows(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_is(name, names[i].name))
            return true;
    return false;
}

void toolmap_call(const struct toolmap *m, struct str name, const struct json *args, struct traj_step *s)
{
    s->as_tool = name;
    s->as_params = args ? args->raw : STR("{}");
    if (args && args->type != JSON_OBJ) {
        s->tool = name;
        s->refused = "its arguments are not a JSON object";
        return;
    }
    if (m->knowlyr && take_knowlyr(m, name, args, s))
        return;
    if (take_own(m, name, args, s) || translate(m, name, args, s))
        return;
    s->tool = name;
    s->params = (struct str){ 0 };
    s->emulated = false;
    if (toolmap_knows(name))
        s->refused = arena_printf(m->arena, "these arguments of %.*s have no counterpart here", STR_ARG(name));
    else if (name.n && memchr(name.p, ':', name.n)) { /* a tool that this program does not know, but the server may */
        s->params = s->as_params;
        s->as_tool = s->as_params = (struct str){ 0 };
    } else
        s->refused =
            arena_printf(m->arena, "no such tool: %.*s", (int)(name.n < 100 ? name.n : 100), name.p ? name.p : "");
}

void toolmap_text(const struct toolmap *m, struct str name, struct str args, struct traj_step *s)
{
    struct json *v = NULL;
    struct err e;

    if (args.n && json_parse(m->arena, args, &v, &e) < 0) {
        s->tool = s->as_tool = name;
        s->as_params = args;
        s->refused = "its arguments are not JSON";
        return;
    }
    toolmap_call(m, name, v, s);
    if (s->as_params.p && args.n)
        s->as_params = args; /* with the white space around it */
}
