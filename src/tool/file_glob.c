/* Finding files: by a pattern with ** and {a,b}, or by properties. A pattern is walked part by part, so that only
 * directories which can contain a match are read. */
#include "tool/file_internal.h"

#ifdef IN_BOX

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/field.h"
#include "base/limits.h"
#include "base/map.h"
#include "init/hand.h"

struct globbing {
    struct hand *h;
    struct file_rows rows;
    struct map seen; /* paths: two alternatives, or two **, may lead to the same one */
    bool hidden, truncated;
    int64_t looked; /* entries of directories, against patterns that would never end */
};

/* --- {a,b} --- */

/* The brace that ends the group which begins at open, and the commas of that group; NULL: none. */
static const char *group_end(const char *open, const char **commas, size_t *ret_commas)
{
    int depth = 0;

    *ret_commas = 0;
    for (const char *p = open; *p; p++) {
        if (*p == '\\' && p[1])
            p++;
        else if (*p == '{')
            depth++;
        else if (*p == '}' && --depth == 0)
            return p;
        else if (*p == ',' && depth == 1 && *ret_commas < LIMIT_GLOB_BRACES)
            commas[(*ret_commas)++] = p;
    }
    return NULL;
}

/* Appends every alternative of pattern to list; a group without a comma is plain text. */
static int expand(struct arena *a, const char *pattern, const char *from, const char **list, size_t *n, struct err *e)
{
    const char *commas[LIMIT_GLOB_BRACES];
    const char *close = NULL;
    const char *open = from;
    size_t count = 0;

    for (; (open = strpbrk(open, "\\{")); open++) {
        if (*open == '\\' && open[1]) {
            open++;
            continue;
        }
        close = *open == '{' ? group_end(open, commas, &count) : NULL;
        if (close && count)
            break;
    }
    if (!open) {
        if (*n == LIMIT_GLOB_BRACES)
            return err_set(e, ERR_LIMIT, "pattern: more than LIMIT_GLOB_BRACES (%d) alternatives", LIMIT_GLOB_BRACES);
        list[(*n)++] = pattern;
        return 0;
    }
    for (size_t i = 0; i <= count; i++) {
        const char *first = i ? commas[i - 1] + 1 : open + 1;
        const char *last = i < count ? commas[i] : close;
        char *one =
            arena_printf(a, "%.*s%.*s%s", (int)(open - pattern), pattern, (int)(last - first), first, close + 1);
        int r = expand(a, one, one + (open - pattern), list, n, e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* --- walking --- */

static void walk(struct globbing *g, int take_fd, const char *dir, const char *pattern, int depth);

static void found(struct globbing *g, int fd, const char *dir, const char *name, const struct stat *st)
{
    const char *path = arena_printf(g->h->arena, "%s/%s", strcmp(dir, "/") ? dir : "", name);

    if (map_get(&g->seen, str_of(path)))
        return;
    if (g->rows.n >= LIMIT_LIST_ENTRIES) {
        g->truncated = true;
        return;
    }
    map_put(&g->seen, str_of(path), g);
    file_rows_add(&g->rows, fd, dir, name, st);
}

static void descend(struct globbing *g, int fd, const char *dir, const char *name, const char *pattern, int depth)
{
    if (depth >= LIMIT_TREE_DEPTH) {
        g->truncated = true;
        return;
    }
    int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (below < 0)
        return;
    const char *path = *name ? arena_printf(g->h->arena, "%s/%s", strcmp(dir, "/") ? dir : "", name) : dir;
    walk(g, below, path, pattern, depth + 1);
}

/* One name that matches the first part of the pattern; rest is what follows, NULL if nothing does. */
static void step(struct globbing *g, int fd, const char *dir, const char *name, const char *rest, int depth)
{
    struct stat st;

    if (!rest) {
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            found(g, fd, dir, name, &st);
    } else if (*rest == 0) { /* "x/": directories only */
        if (fstatat(fd, name, &st, 0) == 0 && S_ISDIR(st.st_mode))
            found(g, fd, dir, name, &st);
    } else {
        descend(g, fd, dir, name, rest, depth);
    }
}

static bool has_wildcard(const char *p)
{
    return strpbrk(p, "*?[\\") != NULL;
}

/* **: no directory, or any, and those below it; never through a symlink, which could lead in circles. */
static void step_deep(struct globbing *g, int fd, const char *dir, const struct dirent *ent, const char *pattern,
                      const char *rest, int depth)
{
    struct stat st;

    if (fstatat(fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (!rest)
        found(g, fd, dir, ent->d_name, &st);
    if (S_ISDIR(st.st_mode))
        descend(g, fd, dir, ent->d_name, pattern, depth);
}

static void walk_entries(struct globbing *g, DIR *d, const char *dir, const char *part, const char *pattern,
                         const char *rest, int depth)
{
    bool deep = !strcmp(part, "**");

    for (struct dirent *ent; !(g->looked > LIMIT_GLOB_ENTRIES) && (ent = readdir(d));) {
        if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
            continue;
        g->looked++;
        if (deep && (ent->d_name[0] != '.' || g->hidden))
            step_deep(g, dirfd(d), dir, ent, pattern, rest, depth);
        else if (!deep && fnmatch(part, ent->d_name, g->hidden ? 0 : FNM_PERIOD) == 0)
            step(g, dirfd(d), dir, ent->d_name, rest, depth);
    }
    g->truncated = g->truncated || g->looked > LIMIT_GLOB_ENTRIES;
}

static void walk(struct globbing *g, int take_fd, const char *dir, const char *pattern, int depth)
{
    while (*pattern == '/' || !strncmp(pattern, "./", 2))
        pattern++;
    const char *slash = strchr(pattern, '/');
    const char *part = arena_z(g->h->arena, (struct str){ pattern, strcspn(pattern, "/") });
    const char *rest = slash ? slash + 1 : NULL;

    if (!has_wildcard(part)) {
        step(g, take_fd, dir, part, rest, depth);
        close(take_fd);
        return;
    }
    while (!strcmp(part, "**") && rest && !strncmp(rest, "**/", 3)) /* as good as one of them */
        rest += 3;
    if (!strcmp(part, "**") && rest && *rest) { /* it may stand for no directory at all */
        int again = openat(take_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (again >= 0)
            walk(g, again, dir, rest, depth);
    }
    DIR *d = fdopendir(take_fd);
    if (!d) {
        close(take_fd);
        return;
    }
    walk_entries(g, d, dir, part, pattern, rest, depth);
    closedir(d);
}

static int glob_all(struct globbing *g, const char *base, const char *pattern, struct err *e)
{
    const char *list[LIMIT_GLOB_BRACES];
    size_t n = 0;

    int r = expand(g->h->arena, pattern, pattern, list, &n, e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return file_fail(e, "search", base);
        walk(g, fd, base, list[i], 1);
    }
    return 0;
}

static bool is_excluded(struct arena *a, const struct file_glob_params *p, const struct file_row *row, const char *base)
{
    const char *below = row->path.p + (strcmp(base, "/") ? strlen(base) + 1 : 1);

    for (size_t i = 0; i < p->exclude.n; i++) {
        const char *pattern = arena_z(a, p->exclude.v[i]);
        char *parts = arena_z(a, str_of(below)), *save = NULL;
        if (fnmatch(pattern, below, 0) == 0)
            return true;
        for (char *part = strtok_r(parts, "/", &save); part; part = strtok_r(NULL, "/", &save))
            if (fnmatch(pattern, part, 0) == 0)
                return true;
    }
    return false;
}

static void leave_out(struct file_rows *rows, const struct file_glob_params *p, const char *base)
{
    size_t kept = 0;

    for (size_t i = 0; i < rows->n; i++)
        if (!(p->files_only && str_is(rows->v[i].type, "directory")) && !is_excluded(rows->a, p, &rows->v[i], base))
            rows->v[kept++] = rows->v[i];
    rows->n = kept;
}

int file_glob(struct hand *h, const struct file_glob_params *p, struct file_matches *ret, struct err *e)
{
    struct globbing g = { .h = h, .rows = { .a = h->arena, .follow = p->follow }, .hidden = p->hidden };
    const char *pattern = arena_z(h->arena, p->pattern);
    char *base = NULL;

    if (p->pattern.n == 0 || memchr(p->pattern.p, 0, p->pattern.n))
        return err_set(e, ERR_INVALID, "pattern is empty or contains a NUL byte");
    bool home = !strncmp(pattern, "~/", 2);
    int r = file_path(h, *pattern == '/' ? STR("/") : home ? STR("~") : p->path, &base, e);
    if (r < 0)
        return r;
    file_trim(base);
    r = glob_all(&g, base, pattern + (home ? 2 : 0), e);
    map_done(&g.seen);
    if (r < 0)
        return r;
    leave_out(&g.rows, p, base);
    file_rows_sort_by(&g.rows, p->sort, p->reverse);
    ret->path = str_of(base);
    ret->total = (int64_t)g.rows.n;
    ret->truncated = g.truncated || ret->total > p->max;
    ret->matches = (struct rows){ g.rows.v, ret->total > p->max ? (size_t)p->max : g.rows.n };
    return 0;
}

int file_glob_run(struct hand *h, const void *params, void *result, struct err *e)
{
    return file_glob(h, params, result, e);
}

/* --- find --- */

struct finding {
    const char *name; /* NULL: any */
    mode_t type;      /* 0: any */
    int64_t min_size, max_size;
    time_t changed_after;
};

static bool is_wanted(const void *arg, const char *name, const struct stat *st)
{
    const struct finding *f = arg;

    return (!f->name || fnmatch(f->name, name, 0) == 0) && (!f->type || (st->st_mode & S_IFMT) == f->type) &&
           (f->min_size == FIELD_ABSENT || st->st_size >= f->min_size) &&
           (f->max_size == FIELD_ABSENT || st->st_size <= f->max_size) && st->st_mtim.tv_sec >= f->changed_after;
}

int file_find_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_find_params *p = params;
    struct file_matches *r = result;
    struct finding f = {
        .name = p->name.n ? arena_z(h->arena, p->name) : NULL,
        .type = str_is(p->type, "file")        ? S_IFREG
                : str_is(p->type, "directory") ? S_IFDIR
                : str_is(p->type, "symlink")   ? S_IFLNK
                                               : 0,
        .min_size = p->min_size,
        .max_size = p->max_size,
        .changed_after = p->changed_within > 0 ? time(NULL) - (time_t)p->changed_within : INT64_MIN,
    };
    struct file_walk w = {
        .hidden = p->hidden, .depth = (int)p->max_depth, .max = p->max, .wanted = is_wanted, .arg = &f
    };
    struct file_rows rows = { .a = h->arena };
    char *path = NULL;

    int n = file_path(h, p->path, &path, e);
    if (n < 0)
        return n;
    file_trim(path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return file_fail(e, "search", path);
    file_walk(&w, &rows, fd, path);
    file_rows_sort(&rows, false);
    r->path = str_of(path);
    r->matches = (struct rows){ rows.v, rows.n };
    r->total = (int64_t)rows.n;
    r->truncated = w.truncated;
    return 0;
}

#endif
