#include "test.h"

#include "http/multipart.h"

/* Feeds text in pieces of `step` bytes and writes down what is found: "name[filename]=content;". */
static void parse(const char *text, size_t n, size_t step, char *out, size_t size)
{
    struct multipart m;
    struct multipart_part part;
    struct err e = { 0 };
    char held[4096];
    size_t have = 0, at = 0, o = 0;

    EXPECT_INT(multipart_init(&m, STR("multipart/form-data; charset=x; boundary=\"xYz\""), &e), 0);
    for (;;) {
        size_t used = 0;
        int r = multipart_next(&m, (struct str){ held, have }, &part, &used, &e);
        if (r < 0) {
            snprintf(out + o, size - o, "error");
            return;
        }
        if (r == MULTIPART_PART)
            o += (size_t)snprintf(out + o, size - o, "%.*s[%.*s]=", STR_ARG(part.name), STR_ARG(part.filename));
        if (r == MULTIPART_DATA)
            o += (size_t)snprintf(out + o, size - o, "%.*s", (int)used, held);
        if (r == MULTIPART_PART_END)
            o += (size_t)snprintf(out + o, size - o, ";");
        if (r == MULTIPART_END) {
            snprintf(out + o, size - o, "end");
            return;
        }
        memmove(held, held + used, have - used);
        have -= used;
        if (used)
            continue;
        size_t more = n - at < step ? n - at : step;
        if (!more)
            return; /* wants more than there is */
        memcpy(held + have, text + at, more);
        have += more;
        at += more;
    }
}

TEST(multipart_forms)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "--xYz\r\nContent-Disposition: form-data; name=\"path\"\r\n\r\n/tmp/a\r\n--xYz\r\nContent-Disposition: "
          "form-data; "
          "name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nhello\r\n--xYz--\r\n",
          "path[]=/tmp/a;file[a.txt]=hello;end" },
        { "preamble\r\n--xYz\r\nContent-Disposition: form-data; name=x\r\n\r\n\r\n--xYz--", "x[]=;end" },
        { "--xYz  \r\ncontent-disposition: form-data; filename=\"a;b\\\"c\"; name=\"f\"\r\n\r\n\r\n--xY\r\r\n--xYz--",
          "f[a;b\\\"c]=\r\n--xY\r;end" },
        { "--xYz\r\nContent-Disposition: form-data\r\n\r\nx\r\n--xYz--", "error" },
        { "--xYz\r\nno colon\r\n\r\nx\r\n--xYz--", "error" },
        { "--xYzabc\r\n\r\nx\r\n--xYz--", "error" },
        { "--xYz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nnever ends", NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 200; step += step < 10 ? 1 : 37) {
            char out[512] = "";
            parse(cases[i].text, strlen(cases[i].text), step, out, sizeof out);
            if (cases[i].want)
                EXPECT_STR(str_of(out), cases[i].want);
            else
                EXPECT_INT(strstr(out, "end") == NULL || strstr(out, "never ends") != NULL, 1);
        }
}

TEST(multipart_wants_a_form_with_a_boundary)
{
    struct multipart m;
    struct err e;
    char long_one[200] = "multipart/form-data; boundary=";

    memset(long_one + strlen(long_one), 'x', 100);
    EXPECT_INT(multipart_init(&m, STR("text/plain"), &e) < 0, 1);
    EXPECT_INT(multipart_init(&m, STR("multipart/form-data"), &e) < 0, 1);
    EXPECT_INT(multipart_init(&m, str_of(long_one), &e) < 0, 1);
    EXPECT_INT(multipart_init(&m, STR("Multipart/Form-Data;boundary=a"), &e), 0);
}
