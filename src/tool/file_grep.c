/* file:grep: ripgrep does the work; its lines become rows. */
#include "tool/file_internal.h"

#ifdef IN_BOX

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/field.h"
#include "base/limits.h"
#include "init/hand.h"
#include "init/program.h"

enum { ARGS_MAX = 192, STDERR_MAX = 4096 };

/* rg --null writes   path NUL line ":" column ":" text   for a match,
 *                    path NUL line "-" text              for a line near one, and "--" between groups. */
struct grepping {
    struct hand *h;
    struct file_grep_row *v;
    size_t n, size;
    int64_t max, skip, count, files, bytes, searched;
    struct str last_path;
    bool last_matched; /* last_path has a match already */
    bool truncated;
    struct buf line; /* the beginning of a line whose end has not come yet; of an endless one only its beginning */
};

static struct file_grep_row *new_row(struct grepping *g)
{
    if (g->n == g->size) {
        size_t size = g->size ? g->size * 2 : 64;
        struct file_grep_row *v = arena_alloc(g->h->arena, size * sizeof *v);
        if (g->n)
            memcpy(v, g->v, g->n * sizeof *v);
        g->v = v;
        g->size = size;
    }
    return &g->v[g->n++];
}

static bool take_number(struct str *s, int64_t *ret)
{
    size_t n = 0;

    for (*ret = 0; n < s->n && n < 18 && s->p[n] >= '0' && s->p[n] <= '9'; n++)
        *ret = *ret * 10 + (s->p[n] - '0');
    s->p += n;
    s->n -= n;
    return n > 0 && s->n > 0;
}

/* Never in the middle of a character. */
static struct str shorten(struct str s)
{
    if (s.n <= LIMIT_GREP_LINE)
        return s;
    s.n = LIMIT_GREP_LINE;
    for (int i = 0; i < 3 && s.n && ((unsigned char)s.p[s.n] & 0xC0) == 0x80; i++)
        s.n--;
    return s;
}

static struct str path_of_row(struct grepping *g, struct str path)
{
    if (!str_eq(path, g->last_path)) {
        g->last_path = arena_copy(g->h->arena, path);
        g->last_matched = false;
    }
    return g->last_path;
}

/* "12 files searched", at the end. */
static void take_statistics(struct grepping *g, struct str line)
{
    int64_t n;

    if (take_number(&line, &n) && (str_is(line, " files searched") || str_is(line, " file searched")))
        g->searched = n;
}

/* False: that was enough. */
static bool take_line(struct grepping *g, struct str line)
{
    const char *nul = line.n ? memchr(line.p, 0, line.n) : NULL;
    struct str rest = nul ? (struct str){ nul + 1, line.n - (size_t)(nul + 1 - line.p) } : (struct str){ 0 };
    int64_t number, column = FIELD_ABSENT;

    if (!nul)
        take_statistics(g, line);
    if (!nul || !take_number(&rest, &number))
        return true; /* "--", or a remark about a binary file */
    bool context = rest.p[0] == '-';
    rest.p++;
    rest.n--;
    if (!context && (!take_number(&rest, &column) || rest.p[0] != ':'))
        return true;
    if (!context) {
        rest.p++;
        rest.n--;
    }
    if (!context && g->count == g->max) {
        g->truncated = true;
        return false;
    }
    if (rest.n && rest.p[rest.n - 1] == '\r')
        rest.n--;
    if (!context && g->skip) {
        g->skip--;
        return true;
    }
    struct file_grep_row *row = new_row(g);
    row->path = path_of_row(g, (struct str){ line.p, (size_t)(nul - line.p) });
    row->line = number;
    row->column = column;
    row->context = context;
    row->text = arena_copy(g->h->arena, shorten(rest));
    g->bytes += (int64_t)(row->text.n + sizeof *row);
    if (!context) {
        g->count++;
        g->files += !g->last_matched;
        g->last_matched = true;
    }
    g->truncated = g->bytes > LIMIT_GREP_OUTPUT;
    return !g->truncated;
}

static bool on_grep_output(void *arg, const char *p, size_t n)
{
    struct grepping *g = arg;

    while (n) {
        const char *nl = memchr(p, '\n', n);
        size_t part = nl ? (size_t)(nl - p) : n;
        size_t room = g->line.cap - g->line.n;
        buf_add(&g->line, p, part < room ? part : room);
        if (!nl)
            break;
        if (!take_line(g, buf_view(&g->line)))
            return false;
        buf_reset(&g->line);
        p = nl + 1;
        n -= part + 1;
    }
    return true;
}

static void build_argv(struct hand *h, const struct file_grep_params *p, const char *path, const char **argv)
{
    int64_t before = p->before == FIELD_ABSENT ? p->context : p->before;
    int64_t after = p->after == FIELD_ABSENT ? p->context : p->after;
    size_t n = 0;

    if (p->sudo)
        argv[n++] = "sudo";
    argv[n++] = "rg";
    argv[n++] = "--stats";
    argv[n++] = "--no-mmap"; /* a file that shrinks, or is larger than the disk, would end it by SIGBUS */
    argv[n++] = "--no-config";
    argv[n++] = "--line-number";
    argv[n++] = "--column";
    argv[n++] = "--no-heading";
    argv[n++] = "--with-filename";
    argv[n++] = "--null";
    argv[n++] = "--color=never";
    argv[n++] = "--crlf";      /* "$" also matches before a carriage return */
    argv[n++] = "--sort=path"; /* the same call has the same answer */
    if (p->case_insensitive)
        argv[n++] = "--ignore-case";
    if (p->fixed_strings)
        argv[n++] = "--fixed-strings";
    if (p->multiline) {
        argv[n++] = "--multiline";
        argv[n++] = "--multiline-dotall";
    }
    if (p->include_hidden)
        argv[n++] = "--hidden";
    if (p->no_ignore)
        argv[n++] = "--no-ignore";
    if (before)
        argv[n++] = arena_printf(h->arena, "--before-context=%lld", (long long)before);
    if (after)
        argv[n++] = arena_printf(h->arena, "--after-context=%lld", (long long)after);
    if (p->glob.n)
        argv[n++] = arena_printf(h->arena, "--glob=%.*s", STR_ARG(p->glob));
    for (size_t i = 0; i < p->include.n; i++)
        argv[n++] = arena_printf(h->arena, "--glob=%.*s", STR_ARG(p->include.v[i]));
    for (size_t i = 0; i < p->exclude.n; i++)
        argv[n++] = arena_printf(h->arena, "--glob=!%.*s", STR_ARG(p->exclude.v[i]));
    if (p->type.n)
        argv[n++] = arena_printf(h->arena, "--type=%.*s", STR_ARG(p->type));
    if (p->max_file_size.n)
        argv[n++] = arena_printf(h->arena, "--max-filesize=%.*s", STR_ARG(p->max_file_size));
    if (p->flat)
        argv[n++] = "--max-depth=1";
    argv[n++] = arena_printf(h->arena, "--regexp=%.*s", STR_ARG(p->pattern));
    argv[n++] = "--";
    argv[n++] = path;
    argv[n] = NULL;
}

static int check(struct hand *h, const struct file_grep_params *p, char **ret_path, struct err *e)
{
    struct stat st;

    if (p->pattern.n && memchr(p->pattern.p, 0, p->pattern.n))
        return err_set(e, ERR_INVALID, "pattern contains a NUL byte");
    if (p->glob.n && memchr(p->glob.p, 0, p->glob.n))
        return err_set(e, ERR_INVALID, "glob contains a NUL byte");
    int r = file_path(h, p->path, ret_path, e);
    if (r < 0)
        return r;
    file_trim(*ret_path);
    if (p->sudo)
        return 0;
    if (stat(*ret_path, &st) < 0)
        return file_fail(e, "search", *ret_path);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) /* rg would open a fifo, and wait */
        return err_set(e, ERR_INVALID, "search %s: neither a regular file nor a directory", *ret_path);
    return 0;
}

static int run_rg(struct grepping *g, const struct file_grep_params *p, const char *path, struct file_grep_result *r,
                  struct err *e)
{
    const char *argv[ARGS_MAX];
    struct program_end end;

    struct stat st;

    /* Patterns of files with a slash are relative to where it runs. */
    const char *slash = strrchr(path, '/');
    bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    const char *cwd = is_dir || slash == path ? path : arena_printf(g->h->arena, "%.*s", (int)(slash - path), path);
    build_argv(g->h, p, path, argv);
    int n = program_run(g->h,
                        &(struct program_opts){
                            .argv = argv, .cwd = cwd, .head_max = STDERR_MAX, .on_stdout = on_grep_output, .arg = g },
                        &end, e);
    if (n == -ENOENT)
        return err_set(e, ERR_NOT_FOUND, "ripgrep (rg) is not installed in this image; file:grep needs it");
    if (n < 0)
        return n;
    if (g->line.n && !end.stopped) /* a last line without a newline */
        (void)take_line(g, buf_view(&g->line));
    while (end.err.n && end.err.p[end.err.n - 1] == '\n')
        end.err.n--;
    if (end.sig && !end.stopped)
        return err_set(e, ERR_SYSTEM, "rg was ended by signal %d", end.sig);
    if (end.exit_code > 1 && !end.stopped && g->searched <= 0) /* not only a file somewhere that cannot be read */
        return err_set(e, ERR_DENIED, "rg: %.*s", STR_ARG(end.err));
    if (end.err.n)
        r->warnings = end.err;
    return 0;
}

int file_grep_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_grep_params *p = params;
    struct file_grep_result *r = result;
    struct grepping g = { .h = h, .max = p->max_matches, .skip = p->offset, .searched = FIELD_ABSENT };
    char *path = NULL;

    int n = check(h, p, &path, e);
    if (n < 0)
        return n;
    buf_init(&g.line, LIMIT_PATH + LIMIT_GREP_LINE + 64);
    n = run_rg(&g, p, path, r, e);
    buf_done(&g.line);
    if (n < 0)
        return n;
    r->matches = (struct rows){ g.v, g.n };
    r->count = g.count;
    r->files = g.files;
    r->searched = g.truncated ? FIELD_ABSENT : g.searched;
    r->truncated = g.truncated;
    return 0;
}

#endif
