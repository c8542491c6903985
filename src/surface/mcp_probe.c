/* What the conformance suite of MCP expects to find: tools, resources and prompts that show one feature of the protocol
 * each. They are there only with the test backends, do nothing in a box and are no steps. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "surface/mcp.h"

/* One red pixel, and a tenth of a millisecond of silence. */
#define PIXEL   "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
#define SOUND   "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="
#define TEXT(t) "{\"type\":\"text\",\"text\":\"" t "\"}"
#define IMAGE   "{\"type\":\"image\",\"data\":\"" PIXEL "\",\"mimeType\":\"image/png\"}"
#define AUDIO   "{\"type\":\"audio\",\"data\":\"" SOUND "\",\"mimeType\":\"audio/wav\"}"
#define EMBEDDED(uri, mime, t)                                                                                         \
    "{\"type\":\"resource\",\"resource\":{\"uri\":\"" uri "\",\"mimeType\":\"" mime "\",\"text\":\"" t "\"}}"
#define NOTHING "{\"type\":\"object\",\"properties\":{}}"
#define ONE(name)                                                                                                      \
    "{\"type\":\"object\",\"properties\":{\"" name "\":{\"type\":\"string\"}},\"required\":[\"" name "\"]}"

/* --- tools --- */

static void answer_with(struct exchange *x, const char *json)
{
    struct buf o;

    buf_init(&o, 64 * KiB);
    buf_z(&o, json);
    exchange_result(x, &o);
}

static void say(struct exchange *x, const char *text)
{
    mcp_text_result(x, str_of(text), false);
}

struct play { /* a tool that takes some time: its steps come one after the other */
    struct exchange *x;
    struct loop_timer *timer;
    int at;
    int64_t each_ms;
    bool (*step)(struct exchange *x, int at); /* false: it has answered */
};

static void play_on(void *arg)
{
    struct play *p = arg;

    if (p->step(p->x, p->at++)) {
        loop_timer_set(p->timer, p->each_ms);
        return;
    }
    loop_timer_free(p->timer);
    free(p);
}

static void play(struct exchange *x, int64_t each_ms, bool (*step)(struct exchange *x, int at))
{
    struct play *p = calloc(1, sizeof *p);

    if (!p)
        abort();
    *p = (struct play){ .x = x, .each_ms = each_ms, .step = step };
    p->timer = loop_timer_new(x->hub->loop, play_on, p);
    play_on(p);
}

static bool step_logging(struct exchange *x, int at)
{
    static const char *const texts[] = { "Tool execution started", "Tool processing data", "Tool execution completed" };

    exchange_log(x, "info", "%s", texts[at]);
    if (at < 2)
        return true;
    say(x, "three messages were logged");
    return false;
}

static bool step_progress(struct exchange *x, int at)
{
    char params[300];

    if (x->progress.p && x->progress.n < 200) {
        snprintf(params, sizeof params, "{\"progressToken\":%.*s,\"progress\":%d,\"total\":100}", STR_ARG(x->progress),
                 at * 50);
        exchange_notify(x, "notifications/progress", str_of(params));
    }
    if (at < 2)
        return true;
    say(x, "all of it is done");
    return false;
}

static bool step_reconnection(struct exchange *x, int at)
{
    if (at == 0) {
        exchange_leave(x);
        return true;
    }
    say(x, "the answer came after the connection was closed");
    return false;
}

static void logging(struct exchange *x)
{
    play(x, 50, step_logging);
}

static void progress(struct exchange *x)
{
    x->mute = true;
    play(x, 50, step_progress);
}

static void reconnection(struct exchange *x)
{
    play(x, 100, step_reconnection);
}

static void on_sampled(struct exchange *x, const struct json *result, const struct json *error)
{
    const struct json *content = json_get(result, "content");
    struct str text = json_get_str(content && content->type == JSON_ARR ? content->first : content, "text");

    if (error)
        mcp_text_result(x, str_of(arena_printf(&x->arena, "the client refused: %.*s", STR_ARG(error->raw))), true);
    else
        say(x, arena_printf(&x->arena, "LLM response: %.*s", STR_ARG(text)));
}

static void on_elicited(struct exchange *x, const struct json *result, const struct json *error)
{
    const struct json *content = json_get(result, "content");

    if (error) {
        mcp_text_result(x, str_of(arena_printf(&x->arena, "the client refused: %.*s", STR_ARG(error->raw))), true);
        return;
    }
    struct str action = json_get_str(result, "action"), raw = content ? content->raw : STR("{}");
    say(x, arena_printf(&x->arena, "Elicitation completed: action=%.*s, content=%.*s", STR_ARG(action), STR_ARG(raw)));
}

static void sampling(struct exchange *x)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 1 * MiB);
    jw_obj(&j);
    jw_key(&j, "messages");
    jw_arr(&j);
    jw_obj(&j);
    jw_kz(&j, "role", "user");
    jw_key(&j, "content");
    jw_obj(&j);
    jw_kz(&j, "type", "text");
    jw_kstr(&j, "text", json_get_str(json_get(x->params, "arguments"), "prompt"));
    jw_obj_end(&j);
    jw_obj_end(&j);
    jw_arr_end(&j);
    jw_kint(&j, "maxTokens", 100);
    jw_obj_end(&j);
    if (!x->session || !x->session->can_sample || !exchange_ask(x, "sampling/createMessage", buf_view(&b), on_sampled))
        mcp_text_result(x, STR("the client cannot sample"), true);
    buf_done(&b);
}

static void elicit(struct exchange *x, struct str message, const char *properties, const char *required)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 1 * MiB);
    jw_obj(&j);
    jw_kstr(&j, "message", message);
    jw_key(&j, "requestedSchema");
    jw_obj(&j);
    jw_kz(&j, "type", "object");
    jw_kraw(&j, "properties", str_of(properties));
    jw_kraw(&j, "required", str_of(required));
    jw_obj_end(&j);
    jw_obj_end(&j);
    if (!x->session || !x->session->can_elicit || !exchange_ask(x, "elicitation/create", buf_view(&b), on_elicited))
        mcp_text_result(x, STR("the client cannot ask its user"), true);
    buf_done(&b);
}

static void elicitation(struct exchange *x)
{
    elicit(x, json_get_str(json_get(x->params, "arguments"), "message"),
           "{\"username\":{\"type\":\"string\",\"description\":\"a name\"},"
           "\"email\":{\"type\":\"string\",\"description\":\"an address\"}}",
           "[\"username\",\"email\"]");
}

static void elicitation_defaults(struct exchange *x)
{
    elicit(x, STR("every kind of value, with its default"),
           "{\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},\"age\":{\"type\":\"integer\",\"default\":30},"
           "\"score\":{\"type\":\"number\",\"default\":95.5},"
           "\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],\"default\":\"active\"},"
           "\"verified\":{\"type\":\"boolean\",\"default\":true}}",
           "[]");
}

static void elicitation_enums(struct exchange *x)
{
    elicit(
        x, STR("every kind of choice"),
        "{\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\",\"option3\"]},"
        "\"titledSingle\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"value1\",\"title\":\"First Option\"},"
        "{\"const\":\"value2\",\"title\":\"Second Option\"},{\"const\":\"value3\",\"title\":\"Third Option\"}]},"
        "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
        "\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
        "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\","
        "\"enum\":[\"option1\",\"option2\",\"option3\"]}},"
        "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"value1\",\"title\":\"First Choice\"},"
        "{\"const\":\"value2\",\"title\":\"Second Choice\"},{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}}",
        "[]");
}

static const struct {
    const char *name;
    const char *schema;
    const char *answer; /* or */
    void (*run)(struct exchange *x);
} tools[] = {
    { "test_simple_text", NOTHING, "{\"content\":[" TEXT("This is a simple text response for testing.") "]}", NULL },
    { "test_image_content", NOTHING, "{\"content\":[" IMAGE "]}", NULL },
    { "test_audio_content", NOTHING, "{\"content\":[" AUDIO "]}", NULL },
    { "test_embedded_resource", NOTHING,
      "{\"content\":[" EMBEDDED("test://embedded-resource", "text/plain", "This is an embedded resource content.") "]}",
      NULL },
    { "test_multiple_content_types", NOTHING,
      "{\"content\":[" TEXT("Multiple content types test:") "," IMAGE "," EMBEDDED(
          "test://mixed-content-resource", "application/json", "{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}") "]}",
      NULL },
    { "test_error_handling", NOTHING,
      "{\"content\":[" TEXT("This tool intentionally returns an error for testing") "],\"isError\":true}", NULL },
    { "test_tool_with_logging", NOTHING, NULL, logging },
    { "test_tool_with_progress", NOTHING, NULL, progress },
    { "test_reconnection", NOTHING, NULL, reconnection },
    { "test_sampling", ONE("prompt"), NULL, sampling },
    { "test_elicitation", ONE("message"), NULL, elicitation },
    { "test_elicitation_sep1034_defaults", NOTHING, NULL, elicitation_defaults },
    { "test_elicitation_sep1330_enums", NOTHING, NULL, elicitation_enums },
    { "json_schema_2020_12_tool",
      "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\",\"$defs\":{\"address\":{"
      "\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},"
      "\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"}},"
      "\"additionalProperties\":false}",
      "{\"content\":[" TEXT("a schema of 2020-12") "]}", NULL },
};

void mcp_probe_tools(struct jw *w)
{
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        jw_obj(w);
        jw_kz(w, "name", tools[i].name);
        jw_kz(w, "description", "shows one feature of the protocol");
        jw_kraw(w, "inputSchema", str_of(tools[i].schema));
        jw_obj_end(w);
    }
}

bool mcp_probe_call(struct exchange *x, struct str name)
{
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        if (!str_is(name, tools[i].name))
            continue;
        if (tools[i].run)
            tools[i].run(x);
        else
            answer_with(x, tools[i].answer);
        return true;
    }
    return false;
}

/* --- resources --- */

static const struct {
    const char *uri, *mime, *key, *value;
} resources[] = {
    { "test://static-text", "text/plain", "text", "This is the content of the static text resource." },
    { "test://static-binary", "image/png", "blob", PIXEL },
    { "test://watched-resource", "text/plain", "text", "it can be watched" },
};

void mcp_probe_resources(struct jw *w)
{
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
        jw_obj(w);
        jw_kz(w, "uri", resources[i].uri);
        jw_kz(w, "name", resources[i].uri + strlen("test://"));
        jw_kz(w, "description", "for the conformance suite");
        jw_kz(w, "mimeType", resources[i].mime);
        jw_obj_end(w);
    }
}

void mcp_probe_templates(struct jw *w)
{
    jw_obj(w);
    jw_kz(w, "uriTemplate", "test://template/{id}/data");
    jw_kz(w, "name", "template");
    jw_kz(w, "mimeType", "application/json");
    jw_obj_end(w);
}

static void answer_contents(struct exchange *x, struct str uri, const char *mime, const char *key, const char *value)
{
    struct buf o;
    struct jw j = mcp_begin(&o);

    jw_key(&j, "contents");
    jw_arr(&j);
    jw_obj(&j);
    jw_kstr(&j, "uri", uri);
    jw_kz(&j, "mimeType", mime);
    jw_kz(&j, key, value);
    jw_obj_end(&j);
    jw_arr_end(&j);
    jw_obj_end(&j);
    exchange_result(x, &o);
}

bool mcp_probe_read(struct exchange *x, struct str uri)
{
    char id[32], rest[8];

    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++)
        if (str_is(uri, resources[i].uri)) {
            answer_contents(x, uri, resources[i].mime, resources[i].key, resources[i].value);
            return true;
        }
    if (sscanf(arena_z(&x->arena, uri), "test://template/%31[a-zA-Z0-9]/%7s", id, rest) != 2 ||
        strcmp(rest, "data") != 0)
        return false;
    answer_contents(
        x, uri, "application/json", "text",
        arena_printf(&x->arena, "{\"id\":\"%s\",\"templateTest\":true,\"data\":\"Data for ID: %s\"}", id, id));
    return true;
}

/* --- prompts --- */

#define USER(content) "{\"role\":\"user\",\"content\":" content "}"

static const struct {
    const char *name, *arguments;
    const char *messages; /* %s: an argument */
    const char *fill[2];
} prompts[] = {
    { "test_simple_prompt", "[]", "[" USER(TEXT("This is a simple prompt for testing.")) "]", { NULL } },
    { "test_prompt_with_arguments",
      "[{\"name\":\"arg1\",\"required\":true},{\"name\":\"arg2\",\"required\":true}]",
      "[" USER(TEXT("Prompt with arguments: arg1='%s', arg2='%s'")) "]",
      { "arg1", "arg2" } },
    { "test_prompt_with_embedded_resource",
      "[{\"name\":\"resourceUri\",\"required\":true}]",
      "[" USER(EMBEDDED("%s", "text/plain", "Embedded resource content for testing.")) "," USER(
          TEXT("Please process the embedded resource above.")) "]",
      { "resourceUri", NULL } },
    { "test_prompt_with_image", "[]", "[" USER(IMAGE) "," USER(TEXT("Please analyze the image above.")) "]", { NULL } },
};

void mcp_probe_prompts(struct jw *w)
{
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        jw_obj(w);
        jw_kz(w, "name", prompts[i].name);
        jw_kz(w, "description", "for the conformance suite");
        jw_kraw(w, "arguments", str_of(prompts[i].arguments));
        jw_obj_end(w);
    }
}

static const char *fill(struct exchange *x, const char *name)
{
    struct str v = name ? json_get_str(json_get(x->params, "arguments"), name) : STR("");
    char *z = arena_z(&x->arena, v.p && v.n < 200 ? v : STR(""));

    for (char *p = z; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < ' ')
            *p = '_';
    return z;
}

bool mcp_probe_prompt(struct exchange *x, struct str name)
{
    char text[2000];

    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        if (!str_is(name, prompts[i].name))
            continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, prompts[i].messages, fill(x, prompts[i].fill[0]), fill(x, prompts[i].fill[1]));
#pragma GCC diagnostic pop
        answer_with(x, arena_printf(&x->arena, "{\"messages\":%s}", text));
        return true;
    }
    return false;
}
