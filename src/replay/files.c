#include "replay/files.h"

#include "base/auto.h"

enum { SHOWN = 20, NAMES = 1024 }; /* paths in a report; made-up names that are looked at */

struct path {
    struct path *next;
    struct str path;
};
struct files {
    struct arena *a;
    struct path *known, *last; /* all; those of the last step */
};

struct files *files_new(struct arena *a)
{
    struct files *f = arena_alloc(a, sizeof *f);

    *f = (struct files){ .a = a };
    return f;
}

static bool has(const struct path *list, struct str path)
{
    for (; list; list = list->next)
        if (str_eq(list->path, path))
            return true;
    return false;
}

static void add(struct files *f, struct path **list, struct str path)
{
    struct path *p = arena_alloc(f->a, sizeof *p);

    *p = (struct path){ .next = *list, .path = arena_copy(f->a, path) };
    *list = p;
}

/* What programs write times, inode numbers or process ids into, and nobody means as a result. */
static bool keeps_times(struct str path)
{
    static const char *const parts[] = { "/.git/", "/__pycache__/", "/.cache/", "/.pytest_cache/", "/.mypy_cache/" };
    static const char *const ends[] = { ".pyc", "/.bash_history", "/.python_history", "/.viminfo", "/.wget-hsts" };

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (memmem(path.p, path.n, parts[i], strlen(parts[i])) ||
            (path.n > strlen(parts[i]) - 1 && memcmp(path.p, parts[i] + 1, strlen(parts[i]) - 1) == 0))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (path.n >= strlen(ends[i]) && memcmp(path.p + path.n - strlen(ends[i]), ends[i], strlen(ends[i])) == 0)
            return true;
    return false;
}

/* The lines of one side of a unified difference. */
static struct str side_of(struct arena *a, struct str diff, char sign)
{
    char *out = arena_alloc(a, diff.n + 1);
    size_t n = 0;

    for (size_t at = 0; at < diff.n;) {
        const char *end = memchr(diff.p + at, '\n', diff.n - at);
        size_t size = end ? (size_t)(end - diff.p) - at : diff.n - at;
        bool head = size >= 3 && (memcmp(diff.p + at, "---", 3) == 0 || memcmp(diff.p + at, "+++", 3) == 0) && n == 0;
        if (size && diff.p[at] == sign && !head) {
            memcpy(out + n, diff.p + at + 1, size - 1);
            n += size - 1;
            out[n++] = '\n';
        }
        at += size + 1;
    }
    return (struct str){ out, n };
}

static struct str describe(struct arena *a, const struct json *row, bool is)
{
    struct str path = json_get_str(row, "path"), hash = json_get_str(row, is ? "new_hash" : "old_hash"),
               mode = json_get_str(row, is ? "new_mode" : "old_mode"), type = json_get_str(row, "type");
    int64_t size = json_get_int(row, is ? "new_size" : "old_size", -1);

    if (!mode.n) /* it is not there */
        return STR("");
    if (size < 0)
        return str_of(arena_printf(a, "/%.*s: %.*s, mode %.*s\n", STR_ARG(path), STR_ARG(type), STR_ARG(mode)));
    return str_of(arena_printf(a, "/%.*s: %lld bytes %.12s, mode %.*s\n", STR_ARG(path), (long long)size,
                               hash.n >= 12 ? arena_z(a, hash) : "", STR_ARG(mode)));
}

/* One row: CLASS_BENIGN or CLASS_DIVERGED. */
static enum replay_class judge(struct files *f, const struct canon *c, const struct json *row, unsigned *rules)
{
    struct str path = json_get_str(row, "path"), text = json_get_str(row, "text");
    unsigned used = 0;

    if (canon_is_on(c, "files") && keeps_times(path)) {
        *rules |= canon_bit("files");
        return CLASS_BENIGN;
    }
    bool both = str_is(json_get_str(row, "change"), "changed") &&
                str_eq(json_get_str(row, "old_mode"), json_get_str(row, "new_mode"));
    if (!both || !text.n ||
        compare_texts(c, f->a, side_of(f->a, text, '-'), side_of(f->a, text, '+'), &used) == CLASS_DIVERGED)
        return CLASS_DIVERGED;
    *rules |= used;
    return CLASS_BENIGN;
}

/* The report shows the lines of a text that differ; of several files, what each of them is. */
static void show(struct files *f, const struct json *const *rows, size_t n, struct verdict *v)
{
    struct str text = json_get_str(rows[0], "text");
    struct str was[SHOWN], is[SHOWN];

    v->field = str_of(arena_printf(f->a, "file /%.*s%s", STR_ARG(json_get_str(rows[0], "path")),
                                   n > 1 ? arena_printf(f->a, " and %zu more", n - 1) : ""));
    if (n == 1 && text.n) {
        v->want = side_of(f->a, text, '-');
        v->got = side_of(f->a, text, '+');
        return;
    }
    for (size_t i = 0; i < n; i++) {
        was[i] = describe(f->a, rows[i], false);
        is[i] = describe(f->a, rows[i], true);
    }
    v->want = str_join(f->a, was, n);
    v->got = str_join(f->a, is, n);
}

/* --- the same file under another name that a program made up --- */

struct name {
    const struct json *row;
    struct str canon; /* the path as the rules leave it */
    unsigned rules;   /* that changed it */
    bool is, paired;  /* it is there now, and was not recorded */
};
struct names {
    struct name v[NAMES];
    size_t n;
};

static void note_name(struct files *f, const struct canon *c, const struct json *row, struct names *names)
{
    struct str change = json_get_str(row, "change");
    struct name n = { .row = row, .is = str_is(change, "added") };
    bool gone = false;

    if (names->n == NAMES || (!n.is && !str_is(change, "removed")))
        return;
    struct str path = str_of(arena_printf(f->a, "/%.*s", STR_ARG(json_get_str(row, "path"))));
    n.canon = canon_line(c, f->a, path, &n.rules, &gone);
    if (n.rules)
        names->v[names->n++] = n;
}

static bool same_but_for_name(const struct name *was, const struct name *is)
{
    return str_eq(was->canon, is->canon) && str_eq(json_get_str(was->row, "type"), json_get_str(is->row, "type")) &&
           str_eq(json_get_str(was->row, "old_mode"), json_get_str(is->row, "new_mode")) &&
           str_eq(json_get_str(was->row, "old_hash"), json_get_str(is->row, "new_hash"));
}

static void pair_names(struct names *names, unsigned *rules)
{
    for (size_t i = 0; i < names->n; i++)
        for (size_t k = 0; k < names->n && !names->v[i].is && !names->v[i].paired; k++) {
            struct name *was = &names->v[i], *is = &names->v[k];
            if (!is->is || is->paired || !same_but_for_name(was, is))
                continue;
            was->paired = is->paired = true;
            *rules |= was->rules | is->rules;
        }
}

static bool is_paired(const struct names *names, const struct json *row)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->v[i].row == row)
            return names->v[i].paired;
    return false;
}

void files_compare(struct files *f, const struct canon *c, const struct json *rows, struct verdict *v)
{
    struct names *names = arena_alloc(f->a, sizeof *names);
    const struct json *bad[SHOWN];
    size_t n = 0;
    unsigned rules = 0;

    names->n = 0;
    f->last = NULL;
    for (const struct json *row = rows ? rows->first : NULL; row; row = row->next)
        if (!has(f->known, json_get_str(row, "path")))
            note_name(f, c, row, names);
    pair_names(names, &rules);
    for (const struct json *row = rows ? rows->first : NULL; row; row = row->next) {
        struct str path = json_get_str(row, "path");
        if (has(f->known, path))
            continue;
        add(f, &f->known, path);
        if (is_paired(names, row) || judge(f, c, row, &rules) != CLASS_DIVERGED)
            continue;
        add(f, &f->last, path);
        if (n < SHOWN)
            bad[n++] = row;
    }
    if (n) {
        v->class = CLASS_DIVERGED;
        show(f, bad, n, v);
    } else if (rules) {
        v->rules |= rules;
        v->class = v->class == CLASS_IDENTICAL ? CLASS_BENIGN : v->class;
    }
}

bool files_again(const struct files *f, const struct json *rows)
{
    for (const struct json *row = rows ? rows->first : NULL; row; row = row->next)
        if (has(f->last, json_get_str(row, "path")))
            return true;
    return false;
}
