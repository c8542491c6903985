#include "cli/picture.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "cli/client.h"

struct str picture_url(struct api *api, struct arena *a, const char *trajectory, const struct json *blobs, int64_t step,
                       const char *name)
{
    struct str type = json_get_str(json_get(blobs, name), "type");
    struct client *c = NULL;
    struct buf bytes, url;
    struct err e;

    if (type.n < 6 || memcmp(type.p, "image/", 6) != 0)
        return (struct str){ 0 };
    char *tail = arena_printf(a, "/steps/%lld/blobs/%s", (long long)step, name);
    struct client_request r = { .url = api->url,
                                .method = "GET",
                                .path = api_path(api, "/sg/v1/trajectories/", trajectory, tail),
                                .timeout_ms = api->timeout_ms };
    buf_init(&bytes, LIMIT_FRAME);
    buf_init(&url, 2 * LIMIT_FRAME);
    bool ok = client_open(&r, &c, &e) >= 0 && client_status(c) == 200 && client_body(c, &bytes, &e) >= 0 && bytes.n;
    client_close(c);
    struct str made = { 0 };
    if (ok) {
        struct jw w = { .out = &url };
        jw_base64(&w, buf_view(&bytes)); /* a JSON string: with quotes, and without anything to escape */
        made = str_of(arena_printf(a, "data:%.*s;base64,%.*s", STR_ARG(type), (int)url.n - 2, url.p + 1));
    }
    buf_done(&bytes);
    buf_done(&url);
    return made;
}
