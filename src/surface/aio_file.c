/* file: reading, writing, searching, editing. AIO counts lines of read and search from 0 and calls some things by other
 * names than the tools do; where its documentation and its specification differ, both spellings are returned. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "surface/aio.h"

#define FILE_FIELD(type)                                                                                               \
    FIELD(STR, type, file, "path; absolute, or below /home/gem", .required = true, .max = LIMIT_PATH, .alias = "path")
#define PATH_FIELD(type, help_) FIELD(STR, type, path, help_, .required = true, .max = LIMIT_PATH)

/* A path with a NUL or none at all is refused by the tool, in the shape of a file error. */

static struct str get(const struct json *o, const char *name)
{
    struct str s = json_get_str(o, name);
    return s.p ? s : STR("");
}

/* --- read --- */

struct read_in {
    struct str file;
    int64_t start_line, end_line;
    bool sudo;
};
static const struct field read_in[] = {
    FILE_FIELD(struct read_in),
    FIELD(INT, struct read_in, start_line, "first line, from 0", .def = FIELD_ABSENT, .min = 0, .max = 1e14),
    FIELD(INT, struct read_in, end_line, "line before which to stop", .def = FIELD_ABSENT, .min = 0, .max = 1e14),
    FIELD(BOOL, struct read_in, sudo, "as root of the box"),
    { 0 },
};
static const struct field read_out[] = {
    SAYS(STR, "content", "the text", .required = true),
    SAYS(STR, "file", "as asked for", .required = true),
    SAYS(INT, "line_count", "lines of the whole file", .nullable = true),
    { 0 },
};

static void ask_read(struct web *w, const void *in, struct jw *j)
{
    const struct read_in *p = in;
    int64_t first = p->start_line == FIELD_ABSENT ? 0 : p->start_line;
    bool nothing = p->end_line != FIELD_ABSENT && p->end_line <= first;

    (void)w;
    jw_kstr(j, "path", p->file);
    jw_kz(j, "encoding", "utf-8");
    if (p->start_line != FIELD_ABSENT || nothing)
        jw_kint(j, "start_line", nothing ? 1000000000000000 : first + 1);
    if (p->end_line != FIELD_ABSENT && !nothing)
        jw_kint(j, "end_line", p->end_line);
    if (p->sudo)
        jw_kbool(j, "sudo", true);
}

static bool print_read(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    (void)c;
    jw_obj(j);
    jw_kstr(j, "content", get(data, "content"));
    jw_kstr(j, "file", ((const struct read_in *)aio_bound(w))->file);
    if (json_get(data, "lines"))
        jw_kint(j, "line_count", json_get_int(data, "lines", 0));
    else
        jw_kz(j, "line_count", NULL);
    jw_obj_end(j);
    return true;
}

/* --- write --- */

struct write_in {
    struct str file, content, encoding;
    bool append, leading_newline, trailing_newline, sudo;
};
static const struct field write_in[] = {
    FILE_FIELD(struct write_in),
    FIELD(STR, struct write_in, content, "text, or base64, or one character for each byte", .required = true,
          .max = LIMIT_FILE_IO),
    FIELD(STR, struct write_in, encoding, "what content is", .def_str = "utf-8", .choices = "utf-8|base64|raw"),
    FIELD(BOOL, struct write_in, append, "add to the end"),
    FIELD(BOOL, struct write_in, leading_newline, "a newline before it"),
    FIELD(BOOL, struct write_in, trailing_newline, "a newline behind it"),
    FIELD(BOOL, struct write_in, sudo, "as root of the box"),
    { 0 },
};
static const struct field write_out[] = {
    SAYS(STR, "file", "as asked for", .required = true),
    SAYS(INT, "bytes_written", "how many", .nullable = true),
    { 0 },
};

/* Latin-1: each character is the byte of its number. False: one has no byte. */
static bool to_bytes(struct arena *a, struct str text, struct str *ret)
{
    char *out = arena_alloc(a, text.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++) {
        unsigned char b = (unsigned char)text.p[i];
        if (b >= 0xC2 && b <= 0xC3 && i + 1 < text.n)
            b = (unsigned char)((b << 6) | ((unsigned char)text.p[++i] & 0x3F));
        else if (b >= 0x80)
            return false;
        out[n++] = (char)b;
    }
    *ret = (struct str){ out, n };
    return true;
}

static void ask_write(struct web *w, const void *in, struct jw *j)
{
    const struct write_in *p = in;
    struct str bytes;

    jw_kstr(j, "path", p->file);
    if (p->append)
        jw_kbool(j, "append", true);
    if (p->sudo)
        jw_kbool(j, "sudo", true);
    if (str_is(p->encoding, "base64")) {
        jw_kstr(j, "data", p->content);
    } else if (str_is(p->encoding, "raw") && to_bytes(w->http->arena, p->content, &bytes)) {
        jw_key(j, "data");
        jw_base64(j, bytes);
    } else {
        struct buf b;
        buf_init(&b, LIMIT_FILE_IO + 16);
        if (p->leading_newline)
            buf_char(&b, '\n');
        buf_str(&b, p->content);
        if (p->trailing_newline)
            buf_char(&b, '\n');
        jw_kstr(j, "content", b.n ? buf_view(&b) : STR(""));
        buf_done(&b);
    }
}

static void refuse_raw(struct web *w)
{
    aio_invalid(w, "body", "content", "value_error",
                "content: with encoding raw each character is one byte, so none may be above U+00FF");
}

static const struct aio_op no_bytes = {
    "POST",         "/v1/file/write", "file", "write_file", "Refuse what cannot be written", .handler = refuse_raw,
    .in = write_in,
};

static const struct aio_op *has_no_bytes(struct web *w)
{
    const struct write_in *p = aio_bound(w);
    struct str bytes;

    return str_is(p->encoding, "raw") && !to_bytes(w->http->arena, p->content, &bytes) ? &no_bytes : NULL;
}

static bool print_write(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    (void)c;
    jw_obj(j);
    jw_kstr(j, "file", ((const struct write_in *)aio_bound(w))->file);
    jw_kint(j, "bytes_written", json_get_int(data, "bytes", 0));
    jw_obj_end(j);
    return true;
}

/* --- replace --- */

struct replace_in {
    struct str file, old_str, new_str, replace_mode;
    bool sudo;
};
static const struct field replace_in[] = {
    FILE_FIELD(struct replace_in),
    FIELD(STR, struct replace_in, old_str, "text to find, exactly", .required = true, .max = LIMIT_FILE_IO),
    FIELD(STR, struct replace_in, new_str, "text to put in its place", .required = true, .max = LIMIT_FILE_IO),
    FIELD(BOOL, struct replace_in, sudo, "as root of the box"),
    FIELD(STR, struct replace_in, replace_mode, "which occurrences", .def_str = "ALL", .choices = "ALL|FIRST|LAST"),
    { 0 },
};
static const struct field replace_out[] = {
    SAYS(STR, "file", "as asked for", .required = true),
    SAYS(INT, "replaced_count", "how many occurrences"),
    { 0 },
};

static void ask_replace(struct web *w, const void *in, struct jw *j)
{
    const struct replace_in *p = in;

    (void)w;
    jw_kstr(j, "path", p->file);
    jw_kstr(j, "old", p->old_str);
    jw_kstr(j, "new", p->new_str);
    jw_kbool(j, "all", str_is(p->replace_mode, "ALL"));
    jw_kbool(j, "last", str_is(p->replace_mode, "LAST"));
    jw_kbool(j, "none_ok", true);
    if (p->sudo)
        jw_kbool(j, "sudo", true);
}

static bool print_replace(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    (void)c;
    jw_obj(j);
    jw_kstr(j, "file", ((const struct replace_in *)aio_bound(w))->file);
    jw_kint(j, "replaced_count", json_get_int(data, "replacements", 0));
    jw_obj_end(j);
    return true;
}

/* --- search --- */

struct search_in {
    struct str file, regex;
    bool sudo;
};
static const struct field search_in[] = {
    FILE_FIELD(struct search_in),
    FIELD(STR, struct search_in, regex, "regular expression", .required = true, .max = 64 * KiB),
    FIELD(BOOL, struct search_in, sudo, "as root of the box"),
    { 0 },
};
static const struct field search_out[] = {
    SAYS(STR, "file", "as asked for", .required = true),
    SAYS(STRS, "matches", "lines that match"),
    SAYS(JSON, "line_numbers", "their numbers, from 0", .def_str = "[integer]"),
    { 0 },
};

static void ask_search(struct web *w, const void *in, struct jw *j)
{
    const struct search_in *p = in;

    (void)w;
    jw_kstr(j, "path", p->file);
    jw_kstr(j, "pattern", p->regex);
    jw_kbool(j, "include_hidden", true);
    jw_kbool(j, "no_ignore", true);
    jw_kint(j, "max_matches", LIMIT_GREP_MATCHES);
    if (p->sudo)
        jw_kbool(j, "sudo", true);
}

static bool print_search(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *rows = json_get(data, "matches");

    (void)c;
    jw_obj(j);
    jw_kstr(j, "file", ((const struct search_in *)aio_bound(w))->file);
    jw_key(j, "matches");
    jw_arr(j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next)
        jw_str(j, get(r, "text"));
    jw_arr_end(j);
    jw_key(j, "line_numbers");
    jw_arr(j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next)
        jw_int(j, json_get_int(r, "line", 1) - 1);
    jw_arr_end(j);
    jw_obj_end(j);
    return true;
}

/* --- find and glob --- */

struct find_in {
    struct str path, glob;
};
static const struct field find_in[] = {
    PATH_FIELD(struct find_in, "directory"),
    FIELD(STR, struct find_in, glob, "pattern; ** goes into directories", .required = true, .max = LIMIT_PATH,
          .alias = "pattern"),
    { 0 },
};
static const struct field find_out[] = {
    SAYS(STR, "path", "as asked for", .required = true),
    SAYS(STRS, "files", "absolute paths"),
    { 0 },
};

static void ask_find(struct web *w, const void *in, struct jw *j)
{
    const struct find_in *p = in;

    (void)w;
    jw_kstr(j, "path", p->path);
    jw_kstr(j, "pattern", p->glob);
    jw_kint(j, "max", 50000);
}

static bool print_find(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *rows = json_get(data, "matches");

    (void)c;
    jw_obj(j);
    jw_kstr(j, "path", ((const struct find_in *)aio_bound(w))->path);
    jw_key(j, "files");
    jw_arr(j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next)
        jw_str(j, get(r, "path"));
    jw_arr_end(j);
    jw_obj_end(j);
    return true;
}

struct glob_in {
    struct str path, pattern, sort_by;
    struct strs exclude;
    bool include_hidden, files_only, include_metadata, sort_desc;
    int64_t max_results;
};
static const struct field glob_in[] = {
    PATH_FIELD(struct glob_in, "directory"),
    FIELD(STR, struct glob_in, pattern, "such as **/*.py", .required = true, .max = LIMIT_PATH),
    FIELD(STRS, struct glob_in, exclude, "patterns to leave out", .max = 100),
    FIELD(BOOL, struct glob_in, include_hidden, "also names that begin with a dot"),
    FIELD(BOOL, struct glob_in, files_only, "no directories", .def = true),
    FIELD(BOOL, struct glob_in, include_metadata, "size and time of each", .def = true),
    FIELD(INT, struct glob_in, max_results, "at most", .def = 5000, .min = 1, .max = 50000),
    FIELD(STR, struct glob_in, sort_by, "what comes first", .def_str = "path",
          .choices = "path|name|size|type|modified_time|modified|mtime|time"),
    FIELD(BOOL, struct glob_in, sort_desc, "the other way round"),
    { 0 },
};
static const struct field glob_row[] = {
    SAYS(STR, "path", "absolute", .required = true),
    SAYS(STR, "name", "last part", .required = true),
    SAYS(BOOL, "is_directory", "a directory"),
    SAYS(INT, "size", "bytes", .nullable = true),
    SAYS(STR, "modified_time", "ISO 8601", .nullable = true),
    { 0 },
};
static const struct field glob_out[] = {
    SAYS(STR, "path", "as asked for", .required = true),     SAYS(STR, "pattern", "as asked for", .required = true),
    SAYS(ROWS, "files", "what was found", .rows = glob_row), SAYS(INT, "total_count", "how many there are"),
    SAYS(BOOL, "truncated", "not all are in files"),         { 0 },
};

/* Names that clients use for the same thing; an unknown one sorts by path. Newest first is the tool's idea of mtime. */
static void put_sort(struct jw *j, struct str by, bool desc)
{
    bool time = str_is(by, "modified_time") || str_is(by, "modified") || str_is(by, "mtime") || str_is(by, "time");
    const char *key = time                 ? "mtime"
                      : str_is(by, "size") ? "size"
                      : str_is(by, "type") ? "type"
                      : str_is(by, "name") ? "filename"
                                           : "name";

    jw_kz(j, "sort", key);
    jw_kbool(j, "reverse", time ? !desc : desc);
}

static void ask_glob(struct web *w, const void *in, struct jw *j)
{
    const struct glob_in *p = in;

    (void)w;
    jw_kstr(j, "path", p->path);
    jw_kstr(j, "pattern", p->pattern);
    jw_kbool(j, "hidden", p->include_hidden);
    jw_kbool(j, "files_only", p->files_only);
    jw_kbool(j, "follow", true);
    jw_kint(j, "max", p->max_results);
    jw_key(j, "exclude");
    jw_arr(j);
    for (size_t i = 0; i < p->exclude.n; i++)
        jw_str(j, p->exclude.v[i]);
    jw_arr_end(j);
    put_sort(j, p->sort_by, p->sort_desc);
}

static bool print_glob(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct glob_in *p = aio_bound(w);
    const struct json *rows = json_get(data, "matches");

    (void)c;
    jw_obj(j);
    jw_kstr(j, "path", p->path);
    jw_kstr(j, "pattern", p->pattern);
    jw_key(j, "files");
    jw_arr(j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next) {
        jw_obj(j);
        jw_kstr(j, "path", get(r, "path"));
        jw_kstr(j, "name", get(r, "name"));
        jw_kbool(j, "is_directory", str_is(get(r, "type"), "directory"));
        if (p->include_metadata) {
            jw_kint(j, "size", json_get_int(r, "size", 0));
            aio_time(j, "modified_time", r, "mtime");
        } else {
            jw_kz(j, "size", NULL);
            jw_kz(j, "modified_time", NULL);
        }
        jw_obj_end(j);
    }
    jw_arr_end(j);
    jw_kint(j, "total_count", json_get_int(data, "total", 0));
    jw_kbool(j, "truncated", json_get_bool(data, "truncated", false));
    jw_obj_end(j);
    return true;
}

/* --- grep --- */

struct grep_in {
    struct str path, pattern, max_file_size, type;
    struct strs include, exclude;
    bool case_insensitive, fixed_strings, multiline, recursive;
    int64_t context_before, context_after, max_results, offset;
};
static const struct field grep_in[] = {
    PATH_FIELD(struct grep_in, "file or directory"),
    FIELD(STR, struct grep_in, pattern, "regular expression", .required = true, .max = 64 * KiB),
    FIELD(STRS, struct grep_in, include, "only files that match one of these", .max = 64),
    FIELD(STRS, struct grep_in, exclude, "no files or directories that match one of these", .max = 64),
    FIELD(BOOL, struct grep_in, case_insensitive, "A is a"),
    FIELD(BOOL, struct grep_in, fixed_strings, "pattern is plain text"),
    FIELD(INT, struct grep_in, context_before, "lines before each match", .min = 0, .max = 20),
    FIELD(INT, struct grep_in, context_after, "lines after each match", .min = 0, .max = 20),
    FIELD(INT, struct grep_in, max_results, "at most", .def = 500, .min = 1, .max = 10000),
    FIELD(STR, struct grep_in, max_file_size, "no larger files", .def_str = "1M", .max = 24),
    FIELD(BOOL, struct grep_in, multiline, "a match may span lines"),
    FIELD(INT, struct grep_in, offset, "leave out the first so many", .min = 0, .max = 1e9),
    FIELD(STR, struct grep_in, type, "a kind of file, such as py", .max = 64),
    FIELD(BOOL, struct grep_in, recursive, "go into directories", .def = true),
    { 0 },
};
static const struct field grep_row[] = {
    SAYS(STR, "file", "absolute path", .required = true),
    SAYS(INT, "line_number", "from 1", .required = true),
    SAYS(STR, "line_content", "the line", .required = true),
    SAYS(STRS, "context_before", "lines before it", .nullable = true),
    SAYS(STRS, "context_after", "lines after it", .nullable = true),
    SAYS(STR, "line", "the line again, as the documentation calls it"),
    { 0 },
};
static const struct field grep_out[] = {
    SAYS(STR, "path", "as asked for", .required = true),
    SAYS(STR, "pattern", "as asked for", .required = true),
    SAYS(ROWS, "matches", "by path and line", .rows = grep_row),
    SAYS(INT, "match_count", "how many"),
    SAYS(INT, "files_searched", "files that were looked at", .nullable = true),
    SAYS(INT, "files_matched", "files with a match", .nullable = true),
    SAYS(BOOL, "truncated", "there are more"),
    { 0 },
};

static void put_list(struct jw *j, const char *key, struct strs list)
{
    jw_key(j, key);
    jw_arr(j);
    for (size_t i = 0; i < list.n; i++)
        jw_str(j, list.v[i]);
    jw_arr_end(j);
}

static void ask_grep(struct web *w, const void *in, struct jw *j)
{
    const struct grep_in *p = in;

    (void)w;
    jw_kstr(j, "path", p->path);
    jw_kstr(j, "pattern", p->pattern);
    put_list(j, "include", p->include);
    put_list(j, "exclude", p->exclude);
    jw_kbool(j, "case_insensitive", p->case_insensitive);
    jw_kbool(j, "fixed_strings", p->fixed_strings);
    jw_kbool(j, "multiline", p->multiline);
    jw_kint(j, "before", p->context_before);
    jw_kint(j, "after", p->context_after);
    jw_kint(j, "max_matches", p->max_results);
    jw_kint(j, "offset", p->offset);
    jw_kbool(j, "flat", !p->recursive);
    if (p->type.n)
        jw_kstr(j, "type", p->type);
    if (p->max_file_size.n)
        jw_kstr(j, "max_file_size", p->max_file_size);
}

static void print_around(struct jw *j, const char *key, const struct json *const *rows, size_t n, size_t at,
                         int64_t from, int64_t to)
{
    struct str path = get(rows[at], "path");
    size_t i = at;

    jw_key(j, key);
    jw_arr(j);
    while (i > 0 && json_get_int(rows[i - 1], "line", 0) >= from && str_eq(get(rows[i - 1], "path"), path))
        i--;
    for (; i < n && str_eq(get(rows[i], "path"), path) && json_get_int(rows[i], "line", 0) <= to; i++)
        if (json_get_int(rows[i], "line", 0) >= from)
            jw_str(j, get(rows[i], "text"));
    jw_arr_end(j);
}

static void print_matches(struct web *w, const struct grep_in *p, const struct json *list, struct jw *j)
{
    size_t n = 0, count = list ? list->count : 0;
    const struct json **rows = arena_alloc(w->http->arena, (count + 1) * sizeof *rows);

    for (const struct json *r = list ? list->first : NULL; r; r = r->next)
        rows[n++] = r;
    for (size_t i = 0; i < n; i++) {
        if (json_get_bool(rows[i], "context", false))
            continue;
        int64_t line = json_get_int(rows[i], "line", 1);
        jw_obj(j);
        jw_kstr(j, "file", get(rows[i], "path"));
        jw_kint(j, "line_number", line);
        jw_kstr(j, "line_content", get(rows[i], "text"));
        jw_kstr(j, "line", get(rows[i], "text"));
        if (p->context_before)
            print_around(j, "context_before", rows, n, i, line - p->context_before, line - 1);
        else
            jw_kz(j, "context_before", NULL);
        if (p->context_after)
            print_around(j, "context_after", rows, n, i, line + 1, line + p->context_after);
        else
            jw_kz(j, "context_after", NULL);
        jw_obj_end(j);
    }
}

static bool print_grep(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct grep_in *p = aio_bound(w);

    (void)c;
    jw_obj(j);
    jw_kstr(j, "path", p->path);
    jw_kstr(j, "pattern", p->pattern);
    jw_key(j, "matches");
    jw_arr(j);
    print_matches(w, p, json_get(data, "matches"), j);
    jw_arr_end(j);
    jw_kint(j, "match_count", json_get_int(data, "count", 0));
    if (json_get(data, "searched"))
        jw_kint(j, "files_searched", json_get_int(data, "searched", 0));
    else
        jw_kz(j, "files_searched", NULL);
    jw_kint(j, "files_matched", json_get_int(data, "files", 0));
    jw_kbool(j, "truncated", json_get_bool(data, "truncated", false));
    jw_obj_end(j);
    return true;
}

/* --- list --- */

struct list_in {
    struct str path, sort_by;
    bool recursive, show_hidden, include_size, include_permissions, sort_desc;
    struct strs file_types;
    int64_t max_depth;
};
static const struct field list_in[] = {
    PATH_FIELD(struct list_in, "directory"),
    FIELD(BOOL, struct list_in, recursive, "go into directories"),
    FIELD(BOOL, struct list_in, show_hidden, "also names that begin with a dot", .def = true),
    FIELD(STRS, struct list_in, file_types, "only files with these extensions", .max = 100),
    FIELD(INT, struct list_in, max_depth, "recursive: how deep", .def = FIELD_ABSENT, .min = 0,
          .max = LIMIT_TREE_DEPTH),
    FIELD(BOOL, struct list_in, include_size, "bytes of each", .def = true),
    FIELD(BOOL, struct list_in, include_permissions, "permissions of each"),
    FIELD(STR, struct list_in, sort_by, "what comes first", .def_str = "name",
          .choices = "name|path|size|type|modified|modified_time|mtime|time"),
    FIELD(BOOL, struct list_in, sort_desc, "the other way round"),
    { 0 },
};
static const struct field list_row[] = {
    SAYS(STR, "name", "last part of the path", .required = true),
    SAYS(STR, "path", "absolute", .required = true),
    SAYS(BOOL, "is_directory", "a directory", .required = true),
    SAYS(INT, "size", "bytes", .nullable = true),
    SAYS(STR, "modified_time", "ISO 8601", .nullable = true),
    SAYS(STR, "permissions", "in octal", .nullable = true),
    SAYS(STR, "extension", "with its dot", .nullable = true),
    SAYS(STR, "link_target", "of a symbolic link, whose other fields are about what it leads to", .nullable = true),
    { 0 },
};
static const struct field list_out[] = {
    SAYS(STR, "path", "as asked for", .required = true),
    SAYS(ROWS, "files", "what is there", .rows = list_row),
    SAYS(INT, "total_count", "all"),
    SAYS(INT, "directory_count", "directories"),
    SAYS(INT, "file_count", "everything else"),
    SAYS(BOOL, "truncated", "there is more than this server lists at once"),
    { 0 },
};

static void ask_list(struct web *w, const void *in, struct jw *j)
{
    const struct list_in *p = in;

    (void)w;
    jw_kstr(j, "path", p->path);
    jw_kbool(j, "recursive", p->recursive);
    jw_kbool(j, "hidden", p->show_hidden);
    jw_kbool(j, "follow", true);
    jw_kint(j, "max_entries", 50000);
    if (p->max_depth > 0)
        jw_kint(j, "max_depth", p->max_depth);
    put_list(j, "extensions", p->file_types);
    put_sort(j, p->sort_by, p->sort_desc);
}

static void print_entry(const struct list_in *p, const struct json *r, struct jw *j)
{
    struct str name = get(r, "name");
    bool dir = str_is(get(r, "type"), "directory");
    const char *dot = name.n > 1 && !dir ? memrchr(name.p + 1, '.', name.n - 1) : NULL;

    jw_obj(j);
    jw_kstr(j, "name", name);
    jw_kstr(j, "path", get(r, "path"));
    jw_kbool(j, "is_directory", dir);
    if (p->include_size && !dir)
        jw_kint(j, "size", json_get_int(r, "size", 0));
    else
        jw_kz(j, "size", NULL);
    aio_time(j, "modified_time", r, "mtime");
    jw_kstr(j, "permissions", p->include_permissions ? get(r, "mode") : (struct str){ 0 });
    jw_kstr(j, "extension",
            dir   ? (struct str){ 0 }
            : dot ? (struct str){ dot, name.n - (size_t)(dot - name.p) }
                  : STR(""));
    jw_kstr(j, "link_target", json_get_str(r, "target"));
    jw_obj_end(j);
}

static bool print_list(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct list_in *p = aio_bound(w);
    const struct json *rows = json_get(data, "entries");
    int64_t dirs = 0, all = rows ? (int64_t)rows->count : 0;

    (void)c;
    jw_obj(j);
    jw_kstr(j, "path", p->path);
    jw_key(j, "files");
    jw_arr(j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next) {
        dirs += str_is(get(r, "type"), "directory");
        print_entry(p, r, j);
    }
    jw_arr_end(j);
    jw_kint(j, "total_count", all);
    jw_kint(j, "directory_count", dirs);
    jw_kint(j, "file_count", all - dirs);
    jw_kbool(j, "truncated", json_get_bool(data, "truncated", false));
    jw_obj_end(j);
    return true;
}

static const struct aio_op ops[] = {
    { "POST", "/v1/file/read", "file", "read_file", "Read a text file, or some of its lines", .tool = "file:read",
      .ask = ask_read, .print = print_read, .in = read_in, .in_name = "FileReadRequest", .out = read_out,
      .out_name = "FileReadResult", .flags = AIO_FILE },
    { "POST", "/v1/file/write", "file", "write_file", "Write a file", .tool = "file:write", .ask = ask_write,
      .print = print_write, .in = write_in, .in_name = "FileWriteRequest", .out = write_out,
      .out_name = "FileWriteResult", .flags = AIO_FILE, .other = has_no_bytes },
    { "POST", "/v1/file/replace", "file", "replace_in_file", "Replace text in a file", .tool = "file:replace",
      .ask = ask_replace, .print = print_replace, .in = replace_in, .in_name = "FileReplaceRequest", .out = replace_out,
      .out_name = "FileReplaceResult", .flags = AIO_FILE },
    { "POST", "/v1/file/search", "file", "search_in_file", "Lines of a file that match", .tool = "file:grep",
      .ask = ask_search, .print = print_search, .in = search_in, .in_name = "FileSearchRequest", .out = search_out,
      .out_name = "FileSearchResult", .flags = AIO_FILE },
    { "POST", "/v1/file/find", "file", "find_files", "Files by pattern", .tool = "file:glob", .ask = ask_find,
      .print = print_find, .in = find_in, .in_name = "FileFindRequest", .out = find_out, .out_name = "FileFindResult",
      .flags = AIO_FILE },
    { "POST", "/v1/file/grep", "file", "grep_files", "Lines of many files that match", .tool = "file:grep",
      .ask = ask_grep, .print = print_grep, .in = grep_in, .in_name = "FileGrepRequest", .out = grep_out,
      .out_name = "FileGrepResult", .flags = AIO_FILE },
    { "POST", "/v1/file/glob", "file", "glob_files", "Files by pattern, with size and time", .tool = "file:glob",
      .ask = ask_glob, .print = print_glob, .in = glob_in, .in_name = "FileGlobRequest", .out = glob_out,
      .out_name = "FileGlobResult", .flags = AIO_FILE },
    { "POST", "/v1/file/list", "file", "list_path", "What is in a directory", .tool = "file:list", .ask = ask_list,
      .print = print_list, .in = list_in, .in_name = "FileListRequest", .out = list_out, .out_name = "FileListResult",
      .flags = AIO_FILE },
    { 0 },
};
const struct aio_group aio_file = { "file", ops };
