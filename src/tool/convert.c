/* util:convert: documents as Markdown. A script in the box does it (convert.py): whatever a document does to its
 * reader, it does to the box. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

struct convert_params {
    struct str uri, page_range, sheet_name, row_range, slide_range;
};
static const struct field convert_fields[] = {
    FIELD(STR, struct convert_params, uri, "http, https, file or data URI, or a path", .required = true,
          .max = LIMIT_FILE_IO),
    FIELD(JSON, struct convert_params, page_range, "of a PDF: [first, last]", .max = 64),
    FIELD(STR, struct convert_params, sheet_name, "of a workbook", .max = 256),
    FIELD(JSON, struct convert_params, row_range, "of a sheet: [first, last]", .max = 64),
    FIELD(JSON, struct convert_params, slide_range, "of slides: [first, last]", .max = 64),
    { 0 },
};
struct convert_result {
    struct str markdown, kind;
};
static const struct field convert_result_fields[] = {
    FIELD(STR, struct convert_result, markdown, "the text", .always = true),
    FIELD(STR, struct convert_result, kind, "html, pdf, docx, xlsx, pptx, csv, notebook, image or text"),
    { 0 },
};

#ifdef IN_BOX

#include "tool/python_ask.h"

__asm__(".section .rodata\n.global convert_script\nconvert_script:\n.incbin \"src/tool/convert.py\"\n.byte 0\n.text\n");
extern const char convert_script[];

static int convert_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct python_ask q = { "converting", convert_script, convert_fields, params };
    struct convert_result *r = result;
    const struct json *said;
    int n = python_ask(h, &q, &said, e);

    if (n < 0)
        return n;
    r->markdown = json_get_str(said, "markdown");
    r->kind = json_get_str(said, "kind");
    return 0;
}

#endif

static const struct tool util_tools[] = {
    { .name = "util:convert",
      .title = "A document as Markdown",
      .help = "Turns HTML, PDF, DOCX, XLSX, PPTX, CSV, notebooks, images and text into Markdown.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL | TOOL_READ_ONLY | TOOL_PROGRAM,
      .params = convert_fields,
      .params_size = sizeof(struct convert_params),
      .result = convert_result_fields,
      .result_size = sizeof(struct convert_result),
      .run_hand = BOX_CODE(convert_run) },
};

const struct backend backend_util = {
    .name = "util",
    .help = "Small services.",
    .kind = KIND_SESSION,
    .tools = util_tools,
    .tool_count = ARRAY_LEN(util_tools),
};
