/* The server's own API (/sg/v1) for the commands: JSON in and out, errors as messages and exit codes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/cli.h"
#include "cli/client.h"

enum { ANSWER_MS = 60000 };

void api_init(struct api *a, const struct words *w)
{
    const char *env = getenv("SANDGLASS_URL");

    *a = (struct api){ .json = w->json, .timeout_ms = ANSWER_MS };
    a->url = w->url ? w->url : env && *env ? env : "http://127.0.0.1:8080";
    arena_init(&a->arena);
    buf_init(&a->text, LIMIT_HTTP_REPLY);
}

void api_done(struct api *a)
{
    arena_done(&a->arena);
    buf_done(&a->text);
}

static bool is_plain(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && strchr("-_.~", c));
}

char *api_path(struct api *a, const char *before, const char *id, const char *after)
{
    size_t first = strlen(before), n = first;
    char *path = arena_alloc(&a->arena, first + 3 * strlen(id) + strlen(after) + 1);

    memcpy(path, before, first);
    for (const char *p = id; *p; p++) {
        if (is_plain((unsigned char)*p))
            path[n++] = *p;
        else
            n += (size_t)sprintf(path + n, "%%%02X", (unsigned char)*p);
    }
    strcpy(path + n, after);
    return path;
}

static int refused(const struct api *a, int status, const struct json *answer)
{
    const struct json *error = json_get(answer, "error");
    struct str message = json_get_str(error, "message");

    if (a->json)
        api_print(a);
    if (message.p && status == 401)
        complain("%.*s: $SANDGLASS_API_KEY is %s", STR_ARG(message),
                 getenv("SANDGLASS_API_KEY") ? "no key or token of this server" : "where a key or token is looked for");
    else if (message.p)
        complain("%.*s", STR_ARG(message));
    else
        complain("the server answered %d: %.*s", status, (int)(a->text.n > 200 ? 200 : a->text.n),
                 a->text.p ? a->text.p : "");
    if (status == 404)
        return EXIT_NOT_FOUND;
    return status == 408 || status == 504 ? EXIT_TIMEOUT : EXIT_REFUSED;
}

static int call(struct api *a, const char *method, const char *path, struct str body, bool quiet_404,
                const struct json **ret)
{
    struct client_request request = {
        .url = a->url,
        .method = method,
        .path = path,
        .body = body,
        .timeout_ms = a->timeout_ms,
    };
    struct client *c = NULL;
    struct json *answer = NULL;
    struct err e = { 0 };

    buf_reset(&a->text);
    int r = client_open(&request, &c, &e);
    if (r >= 0)
        r = client_body(c, &a->text, &e);
    int status = c ? client_status(c) : 0;
    client_close(c);
    if (r < 0) {
        complain("%s", e.msg);
        return r == -ETIMEDOUT ? EXIT_TIMEOUT : EXIT_UNREACHABLE;
    }

    r = json_parse(&a->arena, buf_view(&a->text), &answer, &e);
    if (status == 404 && quiet_404) {
        *ret = NULL;
        return 0;
    }
    if (status < 200 || status > 299)
        return refused(a, status, r < 0 ? NULL : answer);
    if (r < 0) {
        complain("%s: is this a Sandglass server? Its answer is no JSON: %s", a->url, e.msg);
        return EXIT_REFUSED;
    }
    if (ret)
        *ret = answer;
    return 0;
}

int api_call(struct api *a, const char *method, const char *path, struct str body, const struct json **ret)
{
    return call(a, method, path, body, false, ret);
}

int api_get(struct api *a, const char *path, const struct json **ret)
{
    return call(a, "GET", path, (struct str){ 0 }, false, ret);
}

int api_try(struct api *a, const char *path, const struct json **ret)
{
    return call(a, "GET", path, (struct str){ 0 }, true, ret);
}

int api_refused(struct api *a, struct client *c)
{
    struct json *answer = NULL;
    struct err e;

    buf_reset(&a->text);
    if (client_body(c, &a->text, &e) >= 0)
        (void)json_parse(&a->arena, buf_view(&a->text), &answer, &e);
    return refused(a, client_status(c), answer);
}

void print_line(struct str json)
{
    for (size_t i = 0; i < json.n; i++)
        putchar_unlocked(json.p[i] == '\n' || json.p[i] == '\r' ? ' ' : json.p[i]);
    putchar_unlocked('\n');
}

void api_print(const struct api *a)
{
    struct str text = buf_view(&a->text);

    while (text.n && text.p[text.n - 1] == '\n')
        text.n--;
    print_line(text);
}
