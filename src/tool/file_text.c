/* Changing text in files: file:replace and the editor, file:edit. */
#include "tool/file_internal.h"

#ifdef IN_BOX

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/field.h"
#include "base/limits.h"
#include "init/hand.h"

enum { SNIPPET_LINES = 4 }; /* shown before and after a change */

#define NUMBERED "%6lld\t"

/* --- text --- */

size_t file_count(struct str text, struct str part)
{
    const char *end = text.p + text.n;
    size_t n = 0;

    if (!part.n || !text.n)
        return 0;
    for (const char *p = text.p; (p = memmem(p, (size_t)(end - p), part.p, part.n)); p += part.n)
        n++;
    return n;
}

struct str file_replaced(struct arena *a, struct str text, struct str old, struct str new, size_t times)
{
    char *out = arena_alloc(a, text.n + times * new.n + 1);
    const char *from = text.p, *end = text.p + text.n;
    char *to = out;

    for (; times; times--) {
        const char *at = memmem(from, (size_t)(end - from), old.p, old.n);
        if (!at)
            break;
        to = mempcpy(to, from, (size_t)(at - from));
        if (new.n)
            to = mempcpy(to, new.p, new.n);
        from = at + old.n;
    }
    if (end > from)
        to = mempcpy(to, from, (size_t)(end - from));
    return (struct str){ out, (size_t)(to - out) };
}

static struct str with_crlf(struct arena *a, struct str text)
{
    char *out = arena_alloc(a, 2 * text.n + 1);
    char *to = out;

    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\n' && (i == 0 || text.p[i - 1] != '\r'))
            *to++ = '\r';
        *to++ = text.p[i];
    }
    return (struct str){ out, (size_t)(to - out) };
}

/* How often old occurs. Agents write LF, whatever line ends they were shown: what only occurs with CRLF becomes that,
 * and so does what replaces it, for the file to keep its line ends. */
static size_t match(struct arena *a, struct str text, struct str *old, struct str *new)
{
    size_t found = file_count(text, *old);

    if (found || !memchr(old->p, '\n', old->n) || !memmem(text.p, text.n, "\r\n", 2))
        return found;
    struct str other = with_crlf(a, *old);
    found = file_count(text, other);
    if (found) {
        *old = other;
        *new = with_crlf(a, *new);
    }
    return found;
}

struct str file_numbered(struct arena *a, struct str text, int64_t first, const char *format)
{
    AUTO(buf_done) struct buf b = { .cap = LIMIT_FRAME };
    const char *end = text.p + text.n;
    char number[32];

    for (const char *p = text.p; p < end; first++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *next = nl ? nl + 1 : end;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* one of two literals of ours */
        int n = snprintf(number, sizeof number, format, (long long)first);
#pragma GCC diagnostic pop
        buf_add(&b, number, (size_t)n);
        buf_add(&b, p, (size_t)(next - p));
        p = next;
    }
    return arena_copy(a, buf_view(&b));
}

int file_change(struct hand *h, char *path, struct str old, struct str new, int64_t *ret_undo_left, struct err *e)
{
    struct stat st;
    auto_close int fd = -1;

    if (new.n > LIMIT_FILE_IO)
        return err_set(e, ERR_LIMIT, "write %s: its %zu bytes would exceed LIMIT_FILE_IO (%ld)", path, new.n,
                       LIMIT_FILE_IO);
    fd = file_create(path, 0, true, &st, e);
    if (fd < 0)
        return fd;
    struct undo u = undo_push(h, path, old, new); /* only once the file can be written */
    int r = file_store(fd, path, new, e);
    if (r < 0) {
        undo_failed(h, path, &u);
        return r;
    }
    if (ret_undo_left)
        *ret_undo_left = u.name[0] ? u.left + 1 : 0;
    return 0;
}

/* --- replace --- */

static const char *find_last(struct str text, struct str part)
{
    const char *last = NULL, *end = text.p + text.n;

    for (const char *p = text.p; (p = memmem(p, (size_t)(end - p), part.p, part.n)); p++)
        last = p;
    return last;
}

static struct str replace_last(struct arena *a, struct str text, struct str old, struct str new)
{
    const char *at = find_last(text, old);
    struct str head = { text.p, (size_t)(at - text.p) }, tail = { at, text.n - head.n };
    struct str end = file_replaced(a, tail, old, new, 1);
    char *out = arena_alloc(a, head.n + end.n + 1);

    memcpy(mempcpy(out, head.p, head.n), end.p, end.n);
    return (struct str){ out, head.n + end.n };
}

int file_replace_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_replace_params *p = params;
    struct file_replace_result *r = result;
    struct str old = p->old, new = p->new;
    struct stat st;
    struct str text;
    char *path = NULL;

    if (!p->old.n)
        return err_set(e, ERR_INVALID, "the text to be replaced is empty");
    int n = file_path(h, p->path, &path, e);
    if (n >= 0)
        n = p->sudo ? file_sudo_read(h, path, &text, e) : file_read_all(h, path, &text, &st, e);
    if (n < 0)
        return n;
    size_t found = match(h->arena, text, &old, &new);
    r->path = str_of(path);
    r->size = (int64_t)text.n;
    if (!found && p->none_ok)
        return 0;
    if (!found)
        return err_set(e, ERR_NOT_FOUND, "replace: old does not occur in %s", path);
    size_t times = p->count != FIELD_ABSENT ? (size_t)p->count : p->all ? found : 1;
    times = times < found ? times : found;
    if (text.n + times * new.n > 2 * (size_t)LIMIT_FILE_IO) /* before memory is taken for it */
        return err_set(e, ERR_LIMIT, "write %s: it would exceed LIMIT_FILE_IO (%ld bytes)", path, LIMIT_FILE_IO);
    struct str changed =
        p->last ? replace_last(h->arena, text, old, new) : file_replaced(h->arena, text, old, new, times);
    times = p->last ? 1 : times;
    n = p->sudo ? file_sudo_write(h, path, changed, false, false, e)
                : file_change(h, path, text, changed, &r->undo_left, e);
    if (n < 0)
        return n;
    r->found = (int64_t)found;
    r->replacements = (int64_t)times;
    r->size = (int64_t)changed.n;
    return 0;
}

/* --- edit --- */

struct editing {
    struct hand *h;
    const struct file_edit_params *p;
    struct file_edit_result *r;
    char *path;
    struct err *e;
};

static int64_t line_at(struct str text, size_t offset)
{
    int64_t line = 1;

    for (const char *p = text.p, *end = text.p + offset; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
        line++;
    return line;
}

/* The lines first..last of the new text, with numbers, as the answer. */
static void show(struct editing *ed, struct str text, int64_t first, int64_t last)
{
    struct file_edit_result *r = ed->r;

    r->lines = file_count_lines(text);
    first = first < 1 ? 1 : first;
    last = last > r->lines ? r->lines : last;
    r->content = file_numbered(ed->h->arena, file_cut_lines(text, first, last), first, NUMBERED);
    if (last >= first) {
        r->start_line = first;
        r->end_line = last;
    }
}

static int change(struct editing *ed, struct str old, struct str new)
{
    int r = file_change(ed->h, ed->path, old, new, &ed->r->undo_left, ed->e);

    ed->r->existed = old.p != NULL;
    if (r >= 0 && ed->p->contents) {
        ed->r->old_content = old;
        ed->r->new_content = new;
    }
    return r;
}

static int read_view_range(struct editing *ed, int64_t *first, int64_t *last)
{
    struct json *range = NULL;

    if (!ed->p->view_range.n || str_is(ed->p->view_range, "null"))
        return 0;
    int r = json_parse(ed->h->arena, ed->p->view_range, &range, ed->e);
    if (r < 0)
        return err_wrap(ed->e, r, "view_range");
    const struct json *a = range->type == JSON_ARR ? range->first : NULL;
    const struct json *b = a ? a->next : NULL;
    if (!b || b->next || a->type != JSON_NUM || b->type != JSON_NUM || !a->is_int || !b->is_int)
        return err_set(ed->e, ERR_TYPE, "view_range: expected [first line, last line]");
    if (a->i < 1 || (b->i != -1 && b->i < a->i))
        return err_set(ed->e, ERR_INVALID, "view_range: [%lld, %lld] is no range of lines", (long long)a->i,
                       (long long)b->i);
    *first = a->i;
    *last = b->i == -1 ? INT64_MAX : b->i;
    return 0;
}

static int64_t count_hidden(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    int64_t n = 0;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    for (struct dirent *ent; (ent = readdir(d));)
        n += ent->d_name[0] == '.' && strcmp(ent->d_name, ".") != 0 && strcmp(ent->d_name, "..") != 0;
    closedir(d);
    return n;
}

static int view_dir(struct editing *ed, int take_fd)
{
    struct file_walk w = { .depth = 2, .max = LIMIT_LIST_ENTRIES };
    struct file_rows rows = { .a = ed->h->arena };
    AUTO(buf_done) struct buf b = { .cap = LIMIT_FILE_IO };
    int64_t hidden = count_hidden(take_fd);

    file_walk(&w, &rows, take_fd, ed->path);
    file_rows_sort(&rows, false);
    for (size_t i = 0; i < rows.n; i++)
        buf_printf(&b, "%.*s%s\n", STR_ARG(rows.v[i].path), str_is(rows.v[i].type, "directory") ? "/" : "");
    if (hidden > 0)
        buf_printf(&b, "\n%lld hidden files/directories in this directory are excluded. 'ls -la %s' shows them.\n",
                   (long long)hidden, ed->path);
    ed->r->content = arena_copy(ed->h->arena, buf_view(&b));
    return 0;
}

static int edit_view(struct editing *ed)
{
    int64_t first = 1, last = INT64_MAX;
    struct stat st;
    struct str text;

    file_trim(ed->path);
    ed->r->path = str_of(ed->path);
    ed->r->existed = true;
    int fd = open(ed->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ed->r->directory = fd >= 0;
    if (fd >= 0)
        return view_dir(ed, fd);
    int r = read_view_range(ed, &first, &last);
    if (r >= 0)
        r = file_read_all(ed->h, ed->path, &text, &st, ed->e);
    if (r < 0)
        return r;
    int64_t lines = file_count_lines(text);
    if (first > 1 && first > lines)
        return err_set(ed->e, ERR_NOT_FOUND, "view_range: line %lld is beyond the end of %s (%lld lines)",
                       (long long)first, ed->path, (long long)lines);
    show(ed, text, first, last);
    return 0;
}

/* p NULL in *ret: there is no such file. */
static int read_if_there(struct editing *ed, struct str *ret)
{
    struct stat st;
    int r = file_read_all(ed->h, ed->path, ret, &st, ed->e);

    if (r == -ENOENT) {
        *ret = (struct str){ 0 };
        return 0;
    }
    return r;
}

static int edit_create(struct editing *ed)
{
    struct str old;

    if (!ed->p->file_text.p)
        return err_set(ed->e, ERR_MISSING, "file_text is missing: create needs it");
    int r = read_if_there(ed, &old);
    if (r >= 0 && old.p && ed->p->exclusive)
        return err_set(ed->e, ERR_EXISTS,
                       "create: File already exists at: %s. Cannot overwrite files using command `create`", ed->path);
    if (r >= 0)
        r = change(ed, old, ed->p->file_text);
    if (r < 0)
        return r;
    ed->r->created = !old.p;
    ed->r->lines = file_count_lines(ed->p->file_text);
    ed->r->content = STR("");
    return 0;
}

static int edit_str_replace(struct editing *ed)
{
    struct str new = ed->p->new_str.p ? ed->p->new_str : STR("");
    struct str old = ed->p->old_str;
    struct str text;
    struct stat st;

    if (!old.n)
        return err_set(ed->e, ERR_MISSING, "old_str is missing or empty: str_replace needs it");
    int r = file_read_all(ed->h, ed->path, &text, &st, ed->e);
    if (r < 0)
        return r;
    size_t found = match(ed->h->arena, text, &old, &new);
    if (found == 0)
        return err_set(ed->e, ERR_NOT_FOUND,
                       "str_replace: old_str does not occur in %s (it did not appear verbatim). No replacement was "
                       "performed",
                       ed->path);
    const char *at = memmem(text.p, text.n, old.p, old.n);
    if (found > 1 && !ed->p->replace_mode.n)
        return err_set(
            ed->e, ERR_DENIED,
            "str_replace: multiple occurrences: old_str occurs %zu times in %s, first in line %lld; it must be "
            "unique and is not unique. No replacement was performed",
            found, ed->path, (long long)line_at(text, (size_t)(at - text.p)));
    if (str_eq(old, new))
        return err_set(ed->e, ERR_INVALID,
                       "str_replace: old_str and new_str are the same. No replacement was performed");
    size_t times = str_is(ed->p->replace_mode, "ALL") ? found : 1;
    if (text.n + times * new.n > 2 * (size_t)LIMIT_FILE_IO)
        return err_set(ed->e, ERR_LIMIT, "write %s: it would exceed LIMIT_FILE_IO (%ld bytes)", ed->path,
                       LIMIT_FILE_IO);
    bool last = str_is(ed->p->replace_mode, "LAST");
    at = last ? find_last(text, old) : at;
    struct str changed =
        last ? replace_last(ed->h->arena, text, old, new) : file_replaced(ed->h->arena, text, old, new, times);
    r = change(ed, text, changed);
    if (r < 0)
        return r;
    int64_t line = line_at(changed, (size_t)(at - text.p));
    show(ed, changed, line - SNIPPET_LINES, line + file_count_lines(new) + SNIPPET_LINES);
    return 0;
}

/* After whole lines: a text that does not end with a newline gets one, unless it becomes the end of a file that has none. */
static struct str with_lines(struct arena *a, struct str text, size_t at, struct str new)
{
    AUTO(buf_done) struct buf b = { .cap = LIMIT_FRAME };

    buf_add(&b, text.p, at);
    bool open = at ? text.p[at - 1] != '\n' : !text.n; /* the text ends there without a newline, or is empty */
    if (at && open)
        buf_char(&b, '\n');
    buf_str(&b, new);
    if (!open && new.n &&new.p[new.n - 1] != '\n')
        buf_char(&b, '\n');
    buf_add(&b, text.p + at, text.n - at);
    return arena_copy(a, buf_view(&b));
}

static int edit_insert(struct editing *ed)
{
    int64_t after = ed->p->insert_line;
    struct str new = ed->p->new_str;
    struct str text;
    struct stat st;

    if (after == FIELD_ABSENT)
        return err_set(ed->e, ERR_MISSING, "insert_line is missing: insert needs it");
    if (!new.p)
        return err_set(ed->e, ERR_MISSING, "new_str is missing: insert needs it");
    int r = file_read_all(ed->h, ed->path, &text, &st, ed->e);
    if (r < 0)
        return r;
    int64_t lines = file_count_lines(text);
    if (after > lines)
        return err_set(ed->e, ERR_NOT_FOUND, "insert_line: %lld is beyond the end of %s (%lld lines)", (long long)after,
                       ed->path, (long long)lines);
    size_t at = after ? file_cut_lines(text, 1, after).n : 0;
    struct str changed = with_lines(ed->h->arena, text, at, new);
    r = change(ed, text, changed);
    if (r < 0)
        return r;
    show(ed, changed, after + 1 - SNIPPET_LINES, after + file_count_lines(new) + SNIPPET_LINES);
    return 0;
}

static int edit_undo(struct editing *ed)
{
    struct undo u = { 0 };
    struct str now;
    struct stat st;

    int r = undo_last(ed->h, ed->path, &u, ed->e);
    if (r >= 0)
        r = read_if_there(ed, &now);
    if (r < 0)
        return r;
    if (!undo_fits(&u, now))
        return err_set(ed->e, ERR_DENIED,
                       "undo_edit: %s is no longer what its last edit left: something else has %s it since. Nothing "
                       "was undone",
                       ed->path, now.p ? "changed" : "removed");
    ed->r->existed = true;
    if (ed->p->contents) {
        ed->r->old_content = now;
        ed->r->new_content = u.content;
    }
    if (u.existed) {
        auto_close int fd = file_create(ed->path, 0, true, &st, ed->e);
        r = fd < 0 ? fd : file_store(fd, ed->path, u.content, ed->e);
        if (r < 0) {
            undo_failed(ed->h, ed->path, &u);
            return r;
        }
        show(ed, u.content, 1, SNIPPET_LINES * 2);
    } else {
        if (unlink(ed->path) < 0 && errno != ENOENT)
            return err_sys(ed->e, "delete %s", ed->path);
        ed->r->deleted = true;
        ed->r->content = STR("");
    }
    undo_drop(&u);
    ed->r->undo_left = u.left;
    return 0;
}

int file_edit_run(struct hand *h, const void *params, void *result, struct err *e)
{
    static const struct {
        const char *name;
        int (*run)(struct editing *ed);
    } commands[] = { { "view", edit_view },
                     { "create", edit_create },
                     { "str_replace", edit_str_replace },
                     { "insert", edit_insert },
                     { "undo_edit", edit_undo } };
    const struct file_edit_params *p = params;
    struct file_edit_result *r = result;
    struct editing ed = { .h = h, .p = p, .r = r, .e = e };

    int n = file_path(h, p->path, &ed.path, e);
    if (n < 0)
        return n;
    r->path = str_of(ed.path);
    r->command = p->command;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (str_is(p->command, commands[i].name))
            return commands[i].run(&ed);
    return err_set(e, ERR_INVALID, "command: no such command");
}

#endif
