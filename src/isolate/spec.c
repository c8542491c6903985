#include "isolate/spec.h"

#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "wire/seat.h"

static int check_range(const char *name, int64_t v, int64_t min, int64_t max, struct err *e)
{
    if (v >= min && v <= max)
        return 0;
    return err_set(e, ERR_INVALID, "%s is %lld, must be %lld to %lld", name, (long long)v, (long long)min,
                   (long long)max);
}

static int check_mount(const struct box_mount *m, unsigned i, struct err *e)
{
    if (!memchr(m->from, 0, sizeof m->from) || !memchr(m->to, 0, sizeof m->to))
        return err_set(e, ERR_INVALID, "mounts[%u]: a path is longer than 255 bytes", i);
    if (m->from[0] != '/' || m->to[0] != '/' || m->to[strspn(m->to, "/")] == 0)
        return err_set(e, ERR_INVALID, "mounts[%u]: from and to must be absolute, and to not the root", i);
    /* they hold what the isolation itself is made of */
    static const char *const ours[] = { "/proc", "/sys", "/dev", "/run/sandglass" };
    for (size_t k = 0; k < ARRAY_LEN(ours); k++) {
        size_t n = strlen(ours[k]);
        if (strncmp(m->to, ours[k], n) == 0 && (m->to[n] == 0 || m->to[n] == '/'))
            return err_set(e, ERR_INVALID, "mounts[%u].to '%s' lies in %s", i, m->to, ours[k]);
    }
    return 0;
}

/* It becomes part of a path: letters, digits and '-' only. */
static bool is_layer(const char id[LAYER_ID_MAX])
{
    size_t n = strnlen(id, LAYER_ID_MAX);

    return n > 0 && n < LAYER_ID_MAX && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

int spec_check(const struct box_spec *s, struct err *e)
{
    const struct {
        const char *name;
        int64_t v, min, max;
    } ranges[] = {
        { "memory_bytes", s->memory_bytes, 8 * MiB, 1L << 44 },
        { "disk_bytes", s->disk_bytes, 1 * MiB, 1L << 44 },
        { "shm_bytes", s->shm_bytes, 64 * KiB, 1L << 44 },
        { "cpu_milli", s->cpu_milli, 10, 1024 * 1000 },
        { "pids", s->pids, 8, 4 * MiB },
        { "open_files", s->open_files, 64, 1 * MiB },
        { "network", s->network, BOX_NETWORK_NONE, BOX_NETWORK_FULL },
        { "mount_count", s->mount_count, 0, LIMIT_MOUNTS },
        { "layer_count", s->layer_count, 0, LIMIT_LAYERS },
    };

    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        int r = check_range(ranges[i].name, ranges[i].v, ranges[i].min, ranges[i].max, e);
        if (r < 0)
            return r;
    }
    if (!memchr(s->image, 0, sizeof s->image))
        return err_set(e, ERR_INVALID, "image is longer than 255 bytes");
    if (strcmp(s->image, "host") != 0 && s->image[0] != '/')
        return err_set(e, ERR_INVALID, "image is '%s', must be 'host' or an absolute directory", s->image);
    const struct box_profile *p = &s->profile;
    if (!memchr(p->hostname, 0, sizeof p->hostname) || !memchr(p->locale, 0, sizeof p->locale) ||
        !memchr(p->timezone, 0, sizeof p->timezone) || !memchr(p->hash_seed, 0, sizeof p->hash_seed))
        return err_set(e, ERR_INVALID, "determinism: a text is too long");
    for (unsigned i = 0; i < s->layer_count; i++)
        if (!is_layer(s->layers[i]))
            return err_set(e, ERR_INVALID, "layers[%u] is no layer's id", i);
    for (unsigned i = 0; i < s->mount_count; i++) {
        int r = check_mount(&s->mounts[i], i, e);
        if (r < 0)
            return r;
        for (unsigned k = 0; k < i; k++)
            if (strcmp(s->mounts[k].to, s->mounts[i].to) == 0)
                return err_set(e, ERR_INVALID, "mounts[%u].to '%s' is that of mounts[%u], too", i, s->mounts[i].to, k);
    }
    return 0;
}

bool spec_fits(const struct box_spec *have, const struct box_spec *want)
{
    return !want->cold && !want->profile.on && have->mount_count == 0 && want->mount_count == 0 &&
           have->layer_count == 0 && want->layer_count == 0 && strcmp(have->image, want->image) == 0 &&
           have->disk_bytes == want->disk_bytes && have->shm_bytes == want->shm_bytes &&
           have->open_files == want->open_files && have->network == want->network && have->sudo == want->sudo &&
           have->user_namespaces == want->user_namespaces;
}

bool spec_same_limits(const struct box_spec *a, const struct box_spec *b)
{
    return a->memory_bytes == b->memory_bytes && a->cpu_milli == b->cpu_milli && a->pids == b->pids;
}
