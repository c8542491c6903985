/* Samples, their quantiles, their files, and the rows of the summary. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void samples_add(struct samples *s, int64_t ns)
{
    if (s->n == s->size) {
        s->size = s->size ? 2 * s->size : 256;
        s->ns = realloc(s->ns, s->size * sizeof *s->ns);
        if (!s->ns)
            die("out of memory");
    }
    s->ns[s->n++] = ns;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int64_t samples_at(const struct samples *s, double quantile)
{
    if (s->n == 0)
        die("%s: no samples", s->name);
    int64_t *sorted = malloc(s->n * sizeof *sorted);
    if (!sorted)
        die("out of memory");
    memcpy(sorted, s->ns, s->n * sizeof *sorted);
    qsort(sorted, s->n, sizeof *sorted, by_value);
    size_t i = (size_t)(quantile * (double)s->n);
    int64_t v = sorted[i < s->n ? i : s->n - 1];
    free(sorted);
    return v;
}

void samples_save(const struct samples *s)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s.ns", opts.out, s->name);
    FILE *f = fopen(path, "w");
    if (!f)
        die("cannot write %s", path);
    for (size_t i = 0; i < s->n; i++)
        fprintf(f, "%lld\n", (long long)s->ns[i]);
    fclose(f);
}

void row(const char *what, const char *ours, const char *theirs, double ratio, enum better better, double target)
{
    static const char *const signs[] = {
        [AT_MOST] = "<=", [AT_LEAST] = ">=", [ONLY_SHOWN] = "-", [NOT_MEASURED] = "", [NO_TARGET] = "-"
    };
    char path[512];
    const char *verdict = "";

    if (better == AT_MOST)
        verdict = ratio <= target ? "PASS" : "MISS";
    if (better == AT_LEAST)
        verdict = ratio >= target ? "PASS" : "MISS";
    snprintf(path, sizeof path, "%s/rows.tsv", opts.out);
    FILE *f = fopen(path, "a");
    if (!f)
        die("cannot write %s", path);
    if (better == NOT_MEASURED)
        fprintf(f, "%s\t%s\t%s\t-\t-\t-\tNOT MEASURED\n", what, ours, theirs);
    else if (better == NO_TARGET)
        fprintf(f, "%s\t%s\t%s\t%.3f\t-\t-\t\n", what, ours, theirs, ratio);
    else if (better == ONLY_SHOWN)
        fprintf(f, "%s\t%s\t%s\t-\t-\t-\t\n", what, ours, theirs);
    else
        fprintf(f, "%s\t%s\t%s\t%.3f\t%s\t%.3g\t%s\n", what, ours, theirs, ratio, signs[better], target, verdict);
    fclose(f);
}

static void print_ms(char *out, size_t size, const char *what, const struct samples *s, double q)
{
    snprintf(out, size, "%s%sp%.0f %.3f ms", what, *what ? " " : "", 100 * q, (double)samples_at(s, q) / 1e6);
}

void row_times(const char *what, const struct samples *ours, double q, const struct samples *theirs, double their_q,
               double target)
{
    char a[64], b[96];

    print_ms(a, sizeof a, "", ours, q);
    print_ms(b, sizeof b, theirs->name, theirs, their_q);
    row(what, a, b, (double)samples_at(ours, q) / (double)samples_at(theirs, their_q), target > 0 ? AT_MOST : NO_TARGET,
        target);
}

void row_shown(const struct samples *s)
{
    char what[64], text[128];

    samples_save(s);
    snprintf(what, sizeof what, "  %s", s->name);
    snprintf(text, sizeof text, "p50 %.3f p99 %.3f min %.3f ms n=%zu", (double)samples_at(s, .5) / 1e6,
             (double)samples_at(s, .99) / 1e6, (double)samples_at(s, 0) / 1e6, s->n);
    row(what, text, "", 0, ONLY_SHOWN, 0);
}
