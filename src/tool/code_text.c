/* Files as AgentFlow's code tools show them: lines with numbers, paths and matches as one text. */
#include "tool/code_internal.h"

#ifdef IN_BOX

#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/hand.h"
#include "tool/file_internal.h"

/* Their errors are answers to the agent, never a complaint about the request. */
static int say(int r, struct err *e)
{
    if (r >= 0)
        return r;
    if (e->code == ERR_INVALID || e->code == ERR_MISSING || e->code == ERR_TYPE)
        e->code = ERR_DENIED;
    return err_wrap(e, r, "Error");
}

static int read_text(struct hand *h, const struct read_params *p, struct text_result *r, struct err *e)
{
    struct stat st;
    struct str text;
    char *path = NULL;

    int n = file_path(h, p->file_path, &path, e);
    if (n >= 0)
        n = file_read_all(h, path, &text, &st, e);
    if (n < 0)
        return n;
    int64_t lines = file_count_lines(text);
    if (p->offset > 1 && p->offset > lines)
        return err_set(e, ERR_NOT_FOUND, "offset %lld is beyond the end of %s (%lld lines)", (long long)p->offset, path,
                       (long long)lines);
    int64_t last = p->limit > INT64_MAX - p->offset ? INT64_MAX : p->offset + p->limit - 1;
    r->result = file_numbered(h->arena, file_cut_lines(text, p->offset, last), p->offset, "%4lld\u2192");
    return 0;
}

int read_run(struct hand *h, const void *params, void *result, struct err *e)
{
    return say(read_text(h, params, result, e), e);
}

int glob_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct glob_params *p = params;
    struct text_result *r = result;
    struct file_matches m = { 0 };
    AUTO(buf_done) struct buf b = { .cap = LIMIT_FILE_IO };
    struct file_glob_params g = {
        .pattern = p->pattern, .path = p->path, .sort = STR("name"), .max = LIMIT_LIST_ENTRIES
    };

    int n = file_glob(h, &g, &m, e);
    if (n < 0)
        return say(n, e);
    const struct file_row *row = m.matches.v;
    for (size_t i = 0; i < m.matches.n; i++) {
        struct str path = row[i].path;
        bool inside = path.n > h->cwd.n && !memcmp(path.p, h->cwd.p, h->cwd.n) && path.p[h->cwd.n] == '/';
        if (inside)
            path = (struct str){ path.p + h->cwd.n + 1, path.n - h->cwd.n - 1 };
        buf_printf(&b, "%s%.*s", i ? "\n" : "", STR_ARG(path));
    }
    r->result = b.n ? arena_copy(h->arena, buf_view(&b)) : STR("No files found");
    return 0;
}

static int grep_text(struct hand *h, const struct grep_params *p, struct text_result *r, struct err *e)
{
    const char *argv[12] = { "grep", "-rn", "--devices=skip", "--color=never" };
    struct program_end end;
    struct stat st;
    char *path = NULL;
    size_t n = 4;

    int res = file_path(h, p->path, &path, e);
    if (res < 0)
        return res;
    if (stat(path, &st) < 0)
        return file_fail(e, "search", path);
    if (p->glob.n)
        argv[n++] = arena_printf(h->arena, "--include=%.*s", STR_ARG(p->glob));
    argv[n++] = "-e";
    argv[n++] = arena_z(h->arena, p->pattern);
    argv[n++] = "--";
    argv[n++] = p->path.p[0] == '~' ? path : arena_z(h->arena, p->path); /* paths in the answer begin as asked */
    res = program_run(h,
                      &(struct program_opts){ .argv = argv,
                                              .cwd = arena_z(h->arena, h->cwd),
                                              .head_max = (size_t)h->head_bytes,
                                              .tail_max = (size_t)h->tail_bytes },
                      &end, e);
    if (res < 0)
        return res;
    h->dropped_bytes = end.dropped_bytes;
    if (end.exit_code > 1 && !end.out.n)
        return err_set(e, ERR_DENIED, "%.*s", STR_ARG(end.err));
    r->result = end.out.n ? end.out : STR("No matches found");
    return 0;
}

int grep_run(struct hand *h, const void *params, void *result, struct err *e)
{
    return say(grep_text(h, params, result, e), e);
}

static int edit_text(struct hand *h, const struct edit_params *p, struct text_result *r, struct err *e)
{
    struct stat st;
    struct str text;
    char *path = NULL;

    if (!p->old_string.n)
        return err_set(e, ERR_INVALID, "old_string is empty");
    int n = file_path(h, p->file_path, &path, e);
    if (n >= 0)
        n = file_read_all(h, path, &text, &st, e);
    if (n < 0)
        return n;
    size_t found = file_count(text, p->old_string);
    if (!found)
        return err_set(e, ERR_NOT_FOUND, "old_string not found in %s", path);
    if (found > 1 && !p->replace_all)
        return err_set(e, ERR_DENIED, "old_string found %zu times in %s; make it unique or set replace_all", found,
                       path);
    if (text.n + found * p->new_string.n > 2 * (size_t)LIMIT_FILE_IO)
        return err_set(e, ERR_LIMIT, "%s would exceed LIMIT_FILE_IO (%ld bytes)", path, LIMIT_FILE_IO);
    n = file_change(h, path, text, file_replaced(h->arena, text, p->old_string, p->new_string, found), NULL, e);
    if (n < 0)
        return n;
    r->result = str_of(arena_printf(h->arena, "Edited %s: %zu replacement%s", path, found, found > 1 ? "s" : ""));
    return 0;
}

int edit_run(struct hand *h, const void *params, void *result, struct err *e)
{
    return say(edit_text(h, params, result, e), e);
}

int write_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct write_params *p = params;
    struct text_result *r = result;
    struct stat st;
    char *path = NULL;

    int n = file_path(h, p->file_path, &path, e);
    if (n < 0)
        return say(n, e);
    auto_close int fd = file_create(path, 0, true, &st, e);
    n = fd < 0 ? fd : file_store(fd, path, p->content, e);
    if (n < 0)
        return say(n, e);
    r->result = str_of(arena_printf(h->arena, "Wrote %zu bytes to %s", p->content.n, path));
    return 0;
}

#endif
