/* Any bytes as a trajectory file: a reader refuses them or makes steps; every writer can write these, and what our own
 * format writes reads back as the same steps. */
/* needs: src/replay/?*.c src/tool/?*.c */
/* libs: -lm */
#include <stdint.h>
#include <stdlib.h>

#include "base/auto.h"
#include "replay/cause.h"
#include "replay/diff.h"
#include "replay/format.h"
#include "replay/safe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void write_all(struct arena *a, const struct trajectory *t)
{
    for (const struct traj_format *const *f = traj_formats; *f; f++) {
        if (!(*f)->write) /* of whole sets */
            continue;
        const struct write_opts o = { .shown_max = t->n % 2 ? 64 : 0, .bare = t->n % 3 == 0 };
        AUTO(buf_done) struct buf out;
        struct json *v;
        buf_init(&out, 64 << 20);
        (*f)->write(a, t, &o, &out);
        check(out.full || json_parse(a, buf_view(&out), &v, NULL) >= 0 || t->n > 1000);
    }
}

static void read_back(struct arena *a, const struct trajectory *t)
{
    const struct write_opts o = { 0 };
    AUTO(buf_done) struct buf out;
    struct traj_set set;

    buf_init(&out, 64 << 20);
    format_find("sandglass")->write(a, t, &o, &out);
    if (out.full || !t->n || traj_read(a, buf_view(&out), format_find("sandglass"), &set, NULL) < 0)
        return;
    check(set.n == 1 && set.v[0].n == t->n);
    for (size_t i = 0; i < t->n; i++)
        check(str_eq(set.v[0].steps[i].tool, t->steps[i].tool));
}

/* Two steps of it against each other. */
static void compare_some(struct arena *a, const struct trajectory *t)
{
    struct canon *c = canon_new();
    AUTO(buf_done) struct buf out;

    buf_init(&out, 1 << 20);
    for (size_t i = 0; i + 1 < t->n && i < 4; i++) {
        struct verdict v;
        compare_step(c, a, &t->steps[i], &t->steps[i + 1], &v);
        check(v.class != CLASS_NONDETERMINISTIC);
        diff_unified(c, a, v.want, v.got, &out);
        if (v.class == CLASS_DIVERGED)
            (void)cause_of(c, a, &t->steps[i], &t->steps[i + 1], &v, i & 1);
        (void)step_only_reads(a, &t->steps[i]);
        compare_step(c, a, &t->steps[i], &t->steps[i], &v);
        check(v.class != CLASS_DIVERGED || t->steps[i].expect == EXPECT_TEXT);
    }
    canon_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    AUTO(arena_done) struct arena a = { 0 };
    struct traj_set set;
    struct err e = { 0 };
    struct str text = { n ? (const char *)data : "", n };

    if (traj_read(&a, text, NULL, &set, &e) < 0) {
        check(e.msg[0]);
        return 0;
    }
    for (size_t i = 0; i < set.n && i < 4; i++) {
        write_all(&a, &set.v[i]);
        read_back(&a, &set.v[i]);
        compare_some(&a, &set.v[i]);
    }
    return 0;
}
