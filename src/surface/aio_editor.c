/* file/str_replace_editor: the editor that many agents know, with its own words. */
#include <strings.h>

#include "base/limits.h"
#include "surface/aio.h"

struct editor_in {
    struct str command, path, file_text, old_str, new_str, view_range, replace_mode, page_range, sheet_name, row_range,
        slide_range;
    int64_t insert_line;
    bool enable_metadata;
};
static const struct field editor_in[] = {
    FIELD(STR, struct editor_in, command, "what to do", .required = true,
          .choices = "view|create|str_replace|insert|undo_edit"),
    FIELD(STR, struct editor_in, path, "file; view also takes a directory", .required = true, .max = LIMIT_PATH),
    FIELD(STR, struct editor_in, file_text, "create: the whole content", .max = LIMIT_FILE_IO),
    FIELD(STR, struct editor_in, old_str, "str_replace: text to find", .max = LIMIT_FILE_IO),
    FIELD(STR, struct editor_in, new_str, "str_replace: its replacement; insert: what to insert", .max = LIMIT_FILE_IO),
    FIELD(INT, struct editor_in, insert_line, "insert: after this line; 0: at the beginning", .def = FIELD_ABSENT,
          .min = 0, .max = 1e14),
    FIELD(JSON, struct editor_in, view_range, "view: [first, last]; last -1: to the end", .max = 64,
          .def_str = "[integer]"),
    FIELD(STR, struct editor_in, replace_mode, "str_replace: of several occurrences", .choices = "ALL|FIRST|LAST"),
    FIELD(JSON, struct editor_in, page_range, "view of a PDF: [first page, last page]", .max = 64,
          .def_str = "[integer]"),
    FIELD(STR, struct editor_in, sheet_name, "view of a workbook: this sheet", .max = 256),
    FIELD(JSON, struct editor_in, row_range, "view of a sheet: [first row, last row]", .max = 64,
          .def_str = "[integer]"),
    FIELD(JSON, struct editor_in, slide_range, "view of slides: [first, last]", .max = 64, .def_str = "[integer]"),
    FIELD(BOOL, struct editor_in, enable_metadata, "say more about the file"),
    { 0 },
};
static const struct field editor_out[] = {
    SAYS(STR, "output", "what the editor says", .required = true),
    SAYS(STR, "error", "always null: failures are FileOperationError", .nullable = true),
    SAYS(STR, "path", "as asked for", .required = true),
    SAYS(BOOL, "prev_exist", "it was there before", .required = true),
    SAYS(STR, "old_content", "the text before a change", .nullable = true),
    SAYS(STR, "new_content", "the text after it", .nullable = true),
    SAYS(JSON, "metadata", "more about the file", .nullable = true, .def_str = "object"),
    SAYS(STR, "content", "output again, as the documentation calls it"),
    { 0 },
};

static void put(struct jw *j, const char *key, struct str value)
{
    if (value.p)
        jw_kstr(j, key, value);
}

static void ask_editor(struct web *w, const void *in, struct jw *j)
{
    const struct editor_in *p = in;

    (void)w;
    jw_kstr(j, "command", p->command);
    jw_kstr(j, "path", p->path);
    put(j, "file_text", p->file_text);
    put(j, "old_str", p->old_str);
    put(j, "new_str", p->new_str);
    put(j, "replace_mode", p->replace_mode);
    if (p->insert_line != FIELD_ABSENT)
        jw_kint(j, "insert_line", p->insert_line);
    if (p->view_range.n && !str_is(p->view_range, "[]"))
        jw_kraw(j, "view_range", p->view_range);
    jw_kbool(j, "exclusive", true);
    jw_kbool(j, "contents", true);
}

static struct str say(struct web *w, const struct editor_in *p, const struct json *data)
{
    struct arena *a = w->http->arena;
    struct str text = json_get_str(data, "content");
    const char *z = text.n ? arena_z(a, text) : "";

    if (str_is(p->command, "view") && json_get_bool(data, "directory", false))
        return str_of(arena_printf(a,
                                   "Here's the files and directories up to 2 levels deep in %.*s, excluding hidden "
                                   "items:\n%s",
                                   STR_ARG(p->path), z));
    if (str_is(p->command, "view"))
        return str_of(arena_printf(a, "Here's the result of running `cat -n` on %.*s:\n%s", STR_ARG(p->path), z));
    if (str_is(p->command, "create"))
        return str_of(arena_printf(a, "File created successfully at: %.*s", STR_ARG(p->path)));
    if (str_is(p->command, "undo_edit"))
        return str_of(arena_printf(a, "Last edit to %.*s undone successfully. %s%s", STR_ARG(p->path),
                                   json_get_bool(data, "deleted", false) ? "The file is gone, as before it was created."
                                                                         : "Here's the beginning of it:\n",
                                   z));
    return str_of(arena_printf(a,
                               "The file %.*s has been edited. Here's the result of running `cat -n` on a snippet of "
                               "it:\n%s\nReview the changes and make sure they are as expected.",
                               STR_ARG(p->path), z));
}

static bool print_editor(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct editor_in *p = aio_bound(w);
    struct str output = say(w, p, data);

    (void)c;
    jw_obj(j);
    jw_kstr(j, "output", output);
    jw_kz(j, "error", NULL);
    jw_kstr(j, "path", p->path);
    jw_kbool(j, "prev_exist", json_get_bool(data, "existed", false));
    jw_kstr(j, "old_content", json_get_str(data, "old_content"));
    jw_kstr(j, "new_content", json_get_str(data, "new_content"));
    if (p->enable_metadata) {
        jw_key(j, "metadata");
        jw_obj(j);
        jw_kint(j, "lines", json_get_int(data, "lines", 0));
        jw_kint(j, "start_line", json_get_int(data, "start_line", 0));
        jw_kint(j, "end_line", json_get_int(data, "end_line", 0));
        jw_kint(j, "undo_left", json_get_int(data, "undo_left", 0));
        jw_obj_end(j);
    } else {
        jw_kz(j, "metadata", NULL);
    }
    jw_kstr(j, "content", output);
    jw_obj_end(j);
    return true;
}

/* --- view of documents --- */

static void ask_document(struct web *w, const void *in, struct jw *j)
{
    const struct editor_in *p = in;

    (void)w;
    jw_kstr(j, "uri", p->path);
    put(j, "sheet_name", p->sheet_name);
    if (p->page_range.n)
        jw_kraw(j, "page_range", p->page_range);
    if (p->row_range.n)
        jw_kraw(j, "row_range", p->row_range);
    if (p->slide_range.n)
        jw_kraw(j, "slide_range", p->slide_range);
}

static bool print_document(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct editor_in *p = aio_bound(w);
    struct str text = json_get_str(data, "markdown");
    const char *output =
        arena_printf(w->http->arena, "Here's %.*s as Markdown:\n%.*s", STR_ARG(p->path), STR_ARG(text));

    (void)c;
    jw_obj(j);
    jw_kz(j, "output", output);
    jw_kz(j, "error", NULL);
    jw_kstr(j, "path", p->path);
    jw_kbool(j, "prev_exist", true);
    jw_kz(j, "old_content", NULL);
    jw_kz(j, "new_content", NULL);
    jw_key(j, "metadata");
    if (p->enable_metadata) {
        jw_obj(j);
        jw_kstr(j, "kind", json_get_str(data, "kind"));
        jw_obj_end(j);
    } else {
        jw_null(j);
    }
    jw_kz(j, "content", output);
    jw_obj_end(j);
    return true;
}

static const struct aio_op document = {
    "POST",
    "/v1/file/str_replace_editor",
    "file",
    "str_replace_editor",
    "View a document",
    .tool = "util:convert",
    .ask = ask_document,
    .print = print_document,
    .hint = aio_document_hint,
    .in = editor_in,
    .flags = AIO_FILE,
};

static const struct aio_op *is_document(struct web *w)
{
    static const char *const ends[] = { ".pdf", ".docx", ".xlsx", ".pptx" };
    const struct editor_in *p = aio_bound(w);

    for (size_t i = 0; i < sizeof ends / sizeof *ends && str_is(p->command, "view"); i++) {
        size_t n = strlen(ends[i]);
        if (p->path.n > n && strncasecmp(p->path.p + p->path.n - n, ends[i], n) == 0)
            return &document;
    }
    return NULL;
}

static const struct aio_op ops[] = {
    { "POST", "/v1/file/str_replace_editor", "file", "str_replace_editor", "View and edit files, with undo",
      .tool = "file:edit", .ask = ask_editor, .print = print_editor, .in = editor_in,
      .in_name = "StrReplaceEditorRequest", .out = editor_out, .out_name = "StrReplaceEditorResult", .flags = AIO_FILE,
      .other = is_document },
    { 0 },
};
const struct aio_group aio_editor = { "file", ops };
