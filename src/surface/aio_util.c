/* util: documents as Markdown. */
#include "base/limits.h"
#include "surface/aio.h"

static const struct field uri_in[] = {
    SAYS(STR, "uri", "http, https, file or data URI, or a path", .required = true, .max = LIMIT_FILE_IO),
    { 0 },
};

static bool print_markdown(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    struct str text = json_get_str(data, "markdown");

    (void)w, (void)c;
    jw_str(j, text.p ? text : STR(""));
    return true;
}

static const struct aio_op ops[] = {
    { "POST", "/v1/util/convert_to_markdown", "util", "convert_to_markdown", "A document as Markdown",
      .tool = "util:convert", .print = print_markdown, .in = uri_in, .in_name = "UtilConvertToMarkdownRequest" },
    { 0 },
};
const struct aio_group aio_util = { "util", ops };
