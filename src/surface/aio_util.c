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

/* A scan has pictures of text, and nothing that could be read out of it. */
const char *aio_document_hint(const struct json *data)
{
    struct str text = json_get_str(data, "markdown");

    for (size_t i = 0; i < text.n; i++)
        if (!strchr(" \t\r\n\f", text.p[i]))
            return NULL;
    return str_is(json_get_str(data, "kind"), "pdf")
               ? "these pages of the PDF have no text, only pictures perhaps: nothing was recognized in those"
               : NULL;
}

static const struct aio_op ops[] = {
    { "POST", "/v1/util/convert_to_markdown", "util", "convert_to_markdown", "A document as Markdown",
      .tool = "util:convert", .print = print_markdown, .hint = aio_document_hint, .in = uri_in,
      .in_name = "UtilConvertToMarkdownRequest" },
    { 0 },
};
const struct aio_group aio_util = { "util", ops };
