/* The rules. Each removes one kind of thing that no replay can repeat, and as little else as possible: a rule that is
 * too wide hides the divergence that somebody looks for. Hashes of contents are not removed: they are evidence. */
#include "replay/canon.h"

#include <stdlib.h>

#define MONTH "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
#define CLOCK "[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"
#define ZONE  "( ?(Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2}))?"

/* Letters and digits, or both cases, near the end: what mktemp makes, and hardly any word is. */
static bool looks_random(struct str m)
{
    bool lower = false, upper = false, digit = false;

    for (size_t i = m.n > 6 ? m.n - 6 : 0; i < m.n; i++) {
        char c = m.p[i];
        lower |= c >= 'a' && c <= 'z';
        upper |= c >= 'A' && c <= 'Z';
        digit |= c >= '0' && c <= '9';
    }
    return (lower && upper) || (digit && (lower || upper));
}

/* 0a1b2c3 is a commit; "deadbeef" and 1234567 may be anything, if git was not called. */
static bool looks_hex(struct str m)
{
    bool letter = false, digit = false;

    for (size_t i = 0; i < m.n; i++) {
        letter |= m.p[i] >= 'a' && m.p[i] <= 'f';
        digit |= m.p[i] >= '0' && m.p[i] <= '9';
    }
    return letter && digit;
}

static int by_bytes(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    int c = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);

    return c ? c : (x->n > y->n) - (x->n < y->n);
}

enum { ITEMS_MAX = 256 };

/* The items of one {...} without braces in it, split at ", "; commas in quotes do not split. */
static size_t split_items(struct str inner, struct str *items)
{
    size_t n = 0, from = 0;
    char quote = 0;

    for (size_t i = 0; i <= inner.n && n < ITEMS_MAX; i++) {
        char c = i < inner.n ? inner.p[i] : ',';
        if (quote) {
            if (c == '\\')
                i++;
            else if (c == quote)
                quote = 0;
        } else if (c == '\'' || c == '"') {
            quote = c;
        }
        if (i >= inner.n || (!quote && c == ',')) {
            size_t end = i < inner.n ? i : inner.n;
            while (from < end && inner.p[from] == ' ')
                from++;
            items[n++] = (struct str){ inner.p + from, end - from };
            from = i + 1;
        }
    }
    return n;
}

/* {'b', 'a'} is {'a', 'b'}: sets and maps have no order, so their printed form has the order of a hash. */
static void sort_braces(struct arena *a, struct str *line)
{
    struct str items[ITEMS_MAX];
    struct str l = *line;
    char *out = NULL;

    for (size_t i = 0; i < l.n; i++) {
        const char *close = l.p[i] == '{' ? memchr(l.p + i, '}', l.n - i) : NULL;
        size_t end = close ? (size_t)(close - l.p) : 0;
        if (!close || memchr(l.p + i + 1, '{', end - i - 1))
            continue;
        struct str inner = { l.p + i + 1, end - i - 1 };
        size_t n = split_items(inner, items), at = i + 1;
        if (n < 2 || n == ITEMS_MAX)
            continue;
        qsort(items, n, sizeof *items, by_bytes);
        if (!out) {
            out = arena_alloc(a, l.n + 1);
            memcpy(out, l.p, l.n);
        }
        for (size_t k = 0; k < n; k++) {
            if (k)
                out[at++] = ',';
            memcpy(out + at, items[k].p, items[k].n);
            at += items[k].n;
        }
        memset(out + at, ' ', end - at); /* spaces behind commas were dropped: as many for every order */
        i = end;
    }
    if (out)
        line->p = out;
}

/* Of a line of `ls -l`: the links of /proc are the machine's processes, and columns are as wide as the longest number. */
static void narrow_listing(struct arena *a, struct str *line)
{
    struct str l = *line;
    bool is_proc = l.n > 5 && memcmp(l.p + l.n - 5, " proc", 5) == 0;
    size_t at = 10, columns = 0;

    if (l.n < 11 || !memchr("bcdlps-", l.p[0], 7))
        return;
    for (size_t i = 1; i < 10; i++)
        if (!memchr("rwxsStT-", l.p[i], 8))
            return;
    char *out = arena_alloc(a, l.n + 1);
    memcpy(out, l.p, at);
    for (size_t i = at; i < l.n; i++) {
        bool begins = l.p[i] != ' ' && l.p[i - 1] == ' ';
        columns += begins;
        if (columns < 5 && (l.p[i] == ' ' ? i + 1 < l.n && l.p[i + 1] == ' ' : is_proc && columns == 1))
            continue;
        out[at++] = l.p[i];
    }
    *line = (struct str){ out, at };
}

/* Their order matters: what a rule takes for its own, a later one does not see ("1396344 second fix" is a commit). */
const struct canon_rule canon_rules[] = {
    { .name = "terminal",
      .about = "colours and cursor movements",
      .on = true,
      .patterns = { "\033\\[[0-9;?]*[A-Za-z]", "\033[()][A-Z0-9]", "\r$" },
      .to = "" },
    { .name = "commit",
      .about = "ids of git commits, which depend on the time of the commit",
      .on = true,
      .patterns = { "^commit [0-9a-f]{40}", "^\\[[^] ]+ (\\(root-commit\\) )?[0-9a-f]{7,40}\\]",
                    "HEAD is now at [0-9a-f]{7,40}", "^ +[0-9a-f]{7,40}\\.\\.[0-9a-f]{7,40} ", "^From [0-9a-f]{40} " },
      .to = "<commit>" },
    { .name = "commit-short",
      .about = "short ids of git commits at the beginning of a line",
      .on = true,
      .patterns = { "^\\^?[0-9a-f]{7,12}( |$)" },
      .to = "<commit> ",
      .ok = looks_hex,
      .when = WHEN_GIT },
    { .name = "time",
      .about = "dates and times of day",
      .on = true,
      .patterns = { "[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]" CLOCK ")?" ZONE,
                    "((Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? +)?(" MONTH " +[0-9]{1,2}|\\b[0-9]{1,2} +" MONTH
                    " +[0-9]{4})(,? +[0-9]{4})?( +" CLOCK
                    ")?( +(AM|PM))?( +(UTC|GMT|[A-Z]{3,4}|[+-][0-9]{4}))?( +[0-9]{4})?",
                    "[0-9]{2}/[0-9]{2}/[0-9]{4}", "\\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?( (AM|PM))?\\b" },
      .to = "<time>" },
    { .name = "epoch",
      .about = "seconds, milli-, micro- and nanoseconds since 1970, from 2020 to 2039",
      .on = true,
      .patterns = { "\\b(1[6-9]|20|21)[0-9]{8}([0-9]{3}){0,3}(\\.[0-9]+)?\\b" },
      .to = "<epoch>" },
    { .name = "duration",
      .about = "how long something took, and rates",
      .on = true,
      .patterns = { "\\b[0-9]+m[0-9]+(\\.[0-9]+)?s\\b",
                    "\\b[0-9]+([.,][0-9]+)? ?(ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?|hours?)\\b",
                    "\\b[0-9]+(\\.[0-9]+)? ?[kKMGT]?i?B/s",
                    "\\b(took|elapsed|duration|time)[ =:]+[0-9]+(\\.[0-9]+)?\\b" },
      .to = "<duration>" },
    { .name = "pid",
      .about = "process ids where they are called so",
      .on = true,
      .patterns = { "\\b([Pp][Ii][Dd]|[Pp]rocess)[ =:#]*[0-9]+", "^\\[[0-9]+\\]([+-]? +)[0-9]+$", "/proc/[0-9]+",
                    "^==[0-9]+==", "\\b[A-Za-z_-]+\\[[0-9]+\\]:",
                    "line [0-9]+: +[0-9]+ (Killed|Terminated|Segmentation)" },
      .to = "<pid>" },
    { .name = "pid-asked",
      .about = "all numbers, if the command asks for process ids ($!, $$, getpid)",
      .on = true,
      .patterns = { "\\b[0-9]{1,7}\\b" },
      .to = "<pid>",
      .when = WHEN_PID },
    { .name = "temporary",
      .about = "names that mktemp, compilers and test runners make up",
      .on = true,
      .patterns = { "\\btmp\\.[A-Za-z0-9]{6,12}\\b", "/tmp/tmp[a-z0-9_]{8}\\b", "/tmp/cc[A-Za-z0-9]{6}\\b",
                    "/tmp/go-build[0-9]+", "pytest-of-[a-z]+/pytest-[0-9]+" },
      .to = "<tmp>" },
    { .name = "temporary-name",
      .about = "other names in /tmp that end in six or more random letters",
      .on = true,
      .patterns = { "/tmp/[A-Za-z0-9_]+[-._][A-Za-z0-9_]{6,12}\\b", "/tmp/[A-Za-z0-9]{6,12}\\b" },
      .to = "<tmp>",
      .ok = looks_random },
    { .name = "address",
      .about = "addresses of memory",
      .on = true,
      .patterns = { "\\b0x[0-9a-fA-F]{4,16}\\b" },
      .to = "<address>" },
    { .name = "network",
      .about = "IP and MAC addresses, ports",
      .on = true,
      .patterns = { "\\b[0-9]{1,3}(\\.[0-9]{1,3}){3}(:[0-9]{1,5})?\\b", "\\b([0-9a-f]{2}:){5}[0-9a-f]{2}\\b",
                    "\\b(localhost|\\[::1\\]):[0-9]{2,5}\\b", "\\bport[ =:]+[0-9]{2,5}\\b" },
      .to = "<net>" },
    { .name = "uuid",
      .about = "UUIDs",
      .on = true,
      .patterns = { "\\b[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\\b" },
      .to = "<uuid>" },
    { .name = "id",
      .about = "ids of our own boxes, trajectories, states and sessions",
      .on = true,
      .patterns = { "\\b[a-z]+_[A-Za-z0-9._-]+_[0-9]{3}_[0-9a-f]{8}\\b", "\\b[bts]-[a-z0-9]{16,24}\\b" },
      .to = "<id>" },
    { .name = "hash-order",
      .about = "the order of the members of a set or map, printed as {a, b}",
      .on = true,
      .line = sort_braces },
    { .name = "machine",
      .about = "what else the machine does: load, memory in use, the number of its processes",
      .on = true,
      .patterns = { "\\bup .*load averages?:[ 0-9.,]+", "load averages?:[ 0-9.,]+",
                    "^([0-9]+\\.[0-9]{2} ){3}[0-9]+/[0-9]+ [0-9]+$", "^(Mem|Swap|Total):[ 0-9.BKMGTi]+$",
                    "^(Mem|Swap|Vm|Rss|Anon|Active|Inactive|Buffers|Cached|Shmem|Slab|Dirty|Mapped|SReclaim|KReclaim)"
                    "[A-Za-z()]*:[ \t]+[0-9]+ kB$" },
      .to = "<machine>",
      .line = narrow_listing },
    { .name = "space", .about = "white space at the end of lines", .on = true, .patterns = { "[ \t]+$" }, .to = "" },
    { .name = "files",
      .about = "files in which programs keep times: .git, caches, histories",
      .on = true,
      .files = true },
    { .name = "line-order", .about = "the order of lines (off: it often matters)", .on = false, .sorts = true },
    { 0 },
};
