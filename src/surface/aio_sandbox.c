/* sandbox: what the box is, what is installed, and hooks. */
#include "base/limits.h"
#include "surface/aio.h"

/* --- context --- */

static const struct field spec_fields[] = {
    SAYS(STR, "ver", "version", .nullable = true),
    SAYS(STR, "bin", "path", .nullable = true),
    SAYS(STRS, "alias", "names"),
    { 0 },
};
static const struct field system_fields[] = {
    SAYS(STR, "os", "name", .required = true),
    SAYS(STR, "os_version", "version", .required = true),
    SAYS(STR, "arch", "processor", .required = true),
    SAYS(STR, "user", "who runs the tools", .required = true),
    SAYS(STR, "home_dir", "that user's directory", .required = true),
    SAYS(STR, "workspace", "where shells begin", .nullable = true),
    SAYS(STR, "timezone", "of the clock", .required = true),
    SAYS(STRS, "occupied_ports", "on which somebody listens", .required = true),
    { 0 },
};
static const struct field runtime_fields[] = {
    SAYS(ROWS, "python", "interpreters", .required = true, .rows = spec_fields),
    SAYS(ROWS, "nodejs", "interpreters", .required = true, .rows = spec_fields),
    { 0 },
};
static const struct field tool_fields[] = {
    SAYS(STR, "name", "of the tool", .required = true),
    SAYS(STR, "description", "what it does", .nullable = true),
    { 0 },
};
static const struct field category_fields[] = {
    SAYS(STR, "category", "kind of tools", .required = true),
    SAYS(ROWS, "tools", "its tools", .required = true, .rows = tool_fields),
    { 0 },
};
static const struct field detail_fields[] = {
    SAYS(JSON, "system", "the machine", .required = true, .rows = system_fields),
    SAYS(JSON, "runtime", "interpreters", .required = true, .rows = runtime_fields),
    SAYS(ROWS, "utils", "tools by category", .required = true, .rows = category_fields),
    { 0 },
};
static const struct field context_out[] = {
    SAYS(BOOL, "success", "always true here"),
    SAYS(STR, "message", "for people", .nullable = true),
    SAYS(STR, "data", "the same as a text, for a model", .nullable = true),
    SAYS(STR, "hint", "a remark", .nullable = true),
    SAYS(STR, "home_dir", "of the user", .required = true),
    SAYS(STR, "workspace", "where shells begin", .nullable = true),
    SAYS(STR, "version", "of the API", .required = true),
    SAYS(JSON, "detail", "all parts", .required = true, .rows = detail_fields),
    { 0 },
};

static struct str get(const struct json *o, const char *name)
{
    struct str s = json_get_str(o, name);
    return s.p ? s : STR("");
}

static const struct json *runtime_of(const struct json *data, const char *name)
{
    const struct json *rows = json_get(data, "runtimes");

    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next)
        if (str_is(get(r, "name"), name))
            return r;
    return NULL;
}

static const struct {
    const char *program, *title;
} programs[] = { { "python3", "Python" }, { "node", "Node.js" }, { "git", "Git" },
                 { "gh", "GitHub CLI" },  { "uv", "uv" },        { "pip3", "pip" } };

static const char *tools_of(const struct backend *b, size_t i)
{
    return b->tools[i].name;
}

static bool is_shown(const struct backend *b)
{
    return !b->hidden;
}

static void print_text(struct web *w, const struct json *data, struct buf *b)
{
    const struct json *ports = json_get(data, "ports");

    buf_printf(b, "System Environment (v%s):\n", AIO_VERSION);
    buf_printf(b, "- OS: %.*s %.*s (%.*s)%s\n", STR_ARG(get(data, "os")), STR_ARG(get(data, "os_version")),
               STR_ARG(get(data, "arch")),
               aio_box(w)->spec.network == BOX_NETWORK_NONE ? ", without internet access" : ", with internet access");
    buf_printf(b, "- User: %.*s%s\n", STR_ARG(get(data, "user")),
               json_get_bool(data, "sudo", false) ? " with sudo privileges" : "");
    buf_printf(b, "- Home Directory: %.*s\n- Timezone: %.*s\n- Occupied Ports: ", STR_ARG(get(data, "home")),
               STR_ARG(get(data, "timezone")));
    for (const struct json *p = ports ? ports->first : NULL; p; p = p->next)
        buf_printf(b, "%.*s%s", STR_ARG(p->s), p->next ? ", " : "");
    buf_z(b, "\n\nDevelopment Environment:\n");
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const struct json *r = runtime_of(data, programs[i].program);
        if (r)
            buf_printf(b, "- %s: %.*s (command: %s)\n", programs[i].title, STR_ARG(get(r, "version")),
                       programs[i].program);
    }
    buf_z(b, "\nAvailable Tools:\n");
    for (size_t i = 0; backends[i]; i++) {
        if (!is_shown(backends[i]))
            continue;
        buf_printf(b, "- %s: ", backends[i]->name);
        for (size_t t = 0; t < backends[i]->tool_count; t++)
            buf_printf(b, "%s%s", t ? ", " : "", tools_of(backends[i], t));
        buf_char(b, '\n');
    }
}

static void print_spec(const struct json *data, const char *program, const char *alias, struct jw *j)
{
    const struct json *r = runtime_of(data, program);

    jw_arr(j);
    if (r) {
        jw_obj(j);
        jw_kstr(j, "ver", get(r, "version"));
        jw_kstr(j, "bin", get(r, "path"));
        jw_key(j, "alias");
        jw_arr(j);
        jw_z(j, program);
        if (alias)
            jw_z(j, alias);
        jw_arr_end(j);
        jw_obj_end(j);
    }
    jw_arr_end(j);
}

static void print_detail(struct web *w, const struct json *data, struct jw *j)
{
    const struct json *ports = json_get(data, "ports");

    (void)w;
    jw_obj(j);
    jw_key(j, "system");
    jw_obj(j);
    jw_kstr(j, "os", get(data, "os"));
    jw_kstr(j, "os_version", get(data, "os_version"));
    jw_kstr(j, "arch", get(data, "arch"));
    jw_kstr(j, "user", get(data, "user"));
    jw_kstr(j, "home_dir", get(data, "home"));
    jw_kstr(j, "workspace", get(data, "workspace"));
    jw_kstr(j, "timezone", get(data, "timezone"));
    jw_kraw(j, "occupied_ports", ports ? ports->raw : STR("[]"));
    jw_obj_end(j);
    jw_key(j, "runtime");
    jw_obj(j);
    jw_key(j, "python");
    print_spec(data, "python3", NULL, j);
    jw_key(j, "nodejs");
    print_spec(data, "node", "nodejs", j);
    jw_obj_end(j);
    jw_key(j, "utils");
    jw_arr(j);
    for (size_t i = 0; backends[i]; i++) {
        if (!is_shown(backends[i]))
            continue;
        jw_obj(j);
        jw_kz(j, "category", backends[i]->name);
        jw_key(j, "tools");
        jw_arr(j);
        for (size_t t = 0; t < backends[i]->tool_count; t++) {
            jw_obj(j);
            jw_kz(j, "name", backends[i]->tools[t].name);
            jw_kz(j, "description", backends[i]->tools[t].help);
            jw_obj_end(j);
        }
        jw_arr_end(j);
        jw_obj_end(j);
    }
    jw_arr_end(j);
    jw_obj_end(j);
}

static void on_context(void *arg, const struct call *c)
{
    struct web *w = arg;
    const struct json *data = aio_data(w, c);
    struct buf b, text;
    struct jw j;

    if (!data) {
        aio_call_failed(w, c);
        return;
    }
    buf_init(&text, 1 * MiB);
    print_text(w, data, &text);
    aio_begin(w, &b, &j);
    jw_str(&j, buf_view(&text));
    buf_done(&text);
    jw_kstr(&j, "home_dir", get(data, "home"));
    jw_kstr(&j, "workspace", get(data, "workspace"));
    jw_kz(&j, "version", AIO_VERSION);
    jw_key(&j, "detail");
    print_detail(w, data, &j);
    aio_end(w, &b, &j, NULL);
}

static void context(struct web *w)
{
    aio_call(w, "system:context", STR(""), on_context);
}

static void on_llms(void *arg, const struct call *c)
{
    struct web *w = arg;
    const struct json *data = aio_data(w, c);
    struct buf text;

    if (!data) {
        aio_call_failed(w, c);
        return;
    }
    buf_init(&text, 1 * MiB);
    print_text(w, data, &text);
    buf_z(&text, "\nDocumentation: /v1/docs, machine readable: /v1/openapi.json\n");
    http_reply(w->http, 200, "text/plain; charset=utf-8", buf_view(&text));
    buf_done(&text);
}

static void llms(struct web *w)
{
    aio_call(w, "system:context", STR(""), on_llms);
}

/* --- packages --- */

static void ask_python(struct web *w, const void *in, struct jw *j)
{
    (void)w, (void)in;
    jw_kz(j, "language", "python");
}

static void ask_nodejs(struct web *w, const void *in, struct jw *j)
{
    (void)w, (void)in;
    jw_kz(j, "language", "nodejs");
}

/* The documentation shows a list of objects, others expect lines of text: who accepts text/plain gets these. */
static bool print_packages(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *list = json_get(data, "packages");
    struct str accept = http_header(w->http, "accept");
    struct buf text;

    (void)c;
    if (!accept.n || !memmem(accept.p, accept.n, "text/plain", 10)) {
        jw_raw(j, list ? list->raw : STR("[]"));
        return true;
    }
    buf_init(&text, 4 * MiB);
    for (const struct json *p = list ? list->first : NULL; p; p = p->next)
        buf_printf(&text, "  - %.*s==%.*s\n", STR_ARG(get(p, "name")), STR_ARG(get(p, "version")));
    jw_str(j, text.n ? buf_view(&text) : STR(""));
    buf_done(&text);
    return true;
}

/* --- hooks --- */

static const struct field event_fields[] = {
    SAYS(STR, "event", "only shutdown", .def_str = "shutdown", .max = 64),
    { 0 },
};
static const struct field hook_out[] = {
    SAYS(STR, "name", "its name", .required = true),
    SAYS(STR, "event", "when"),
    SAYS(STR, "command", "what bash executes", .required = true),
    SAYS(NUM, "timeout", "seconds"),
    SAYS(INT, "priority", "lower ones first"),
    SAYS(STR, "source", "who registered it"),
    { 0 },
};

static void ask_hooks(struct web *w, const void *in, struct jw *j)
{
    (void)w, (void)in, (void)j;
}

static bool print_hooks(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    struct str event = json_get_str(aio_given(w), "event");
    const struct json *rows = json_get(data, "hooks");

    (void)c;
    jw_raw(j, rows && (!event.n || str_is(event, "shutdown")) ? rows->raw : STR("[]"));
    return true;
}

static const struct aio_op ops[] = {
    { "GET", "/v1/sandbox", "sandbox", "get_context", "What this sandbox is", .handler = context, .out = context_out,
      .out_name = "SandboxResponse", .flags = AIO_BARE | AIO_BOX },
    { "GET", "/llms.txt", "sandbox", "llms", "The same as a text", .handler = llms, .flags = AIO_BOX | AIO_QUIET },
    { "GET", "/v1/sandbox/packages/python", "sandbox", "get_python_packages", "Python packages",
      .tool = "system:packages", .ask = ask_python, .print = print_packages },
    { "GET", "/v1/sandbox/packages/nodejs", "sandbox", "get_nodejs_packages", "Node.js packages",
      .tool = "system:packages", .ask = ask_nodejs, .print = print_packages },
    { "POST", "/v1/sandbox/hooks", "sandbox", "register_hook", "Run something before the sandbox ends",
      .tool = "system:hook", .in_name = "RegisterHookRequest", .out_name = "SandboxHook" },
    { "GET", "/v1/sandbox/hooks", "sandbox", "list_hooks", "All hooks", .tool = "system:hooks", .ask = ask_hooks,
      .print = print_hooks, .in = event_fields, .out = hook_out, .out_name = "SandboxHook", .flags = AIO_LIST },
    { "DELETE", "/v1/sandbox/hooks/{name}", "sandbox", "remove_hook", "Remove a hook", .tool = "system:unhook" },
    { 0 },
};
const struct aio_group aio_sandbox = { "sandbox", ops };
