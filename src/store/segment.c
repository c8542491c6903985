#include "store/segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "store/crc32c.h"

_Static_assert(sizeof(struct journal_head) == 24, "the record head is a file format");

struct segment_name segment_name(uint64_t start)
{
    struct segment_name name;
    snprintf(name.z, sizeof name.z, "%020llu.seg", (unsigned long long)start);
    return name;
}

/* Files of other shapes (the lock, an editor's leavings) are not ours to judge. */
static bool parse_name(const char *z, uint64_t *ret)
{
    uint64_t v = 0;

    for (int i = 0; i < 20; i++) {
        if (z[i] < '0' || z[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(z[i] - '0');
    }
    if (strcmp(z + 20, ".seg") != 0)
        return false;
    *ret = v;
    return true;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int segment_list(int dirfd, uint64_t **ret_starts, size_t *ret_n, struct err *e)
{
    auto_free uint64_t *starts = NULL;
    size_t n = 0, size = 0;

    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int r = err_sys(e, "list the log's segments");
        if (fd >= 0)
            close(fd);
        return r;
    }
    for (struct dirent *entry; (entry = readdir(d));) {
        uint64_t start;
        if (!parse_name(entry->d_name, &start))
            continue;
        if (n == size) {
            size = size ? size * 2 : 64;
            uint64_t *more = realloc(starts, size * sizeof *starts);
            if (!more)
                abort();
            starts = more;
        }
        starts[n++] = start;
    }
    closedir(d);
    if (n)
        qsort(starts, n, sizeof *starts, compare);
    *ret_starts = TAKE_PTR(starts);
    *ret_n = n;
    return 0;
}

uint64_t record_room(uint64_t body)
{
    return (sizeof(struct journal_head) + body + 7) & ~7ull;
}

uint32_t record_crc(const struct journal_head *h, const struct str *parts, size_t n)
{
    uint32_t crc = crc32c(0, &h->size, sizeof h->size);

    crc = crc32c(crc, (const char *)h + 8, sizeof *h - 8);
    for (size_t i = 0; i < n; i++)
        crc = crc32c(crc, parts[i].p, parts[i].n);
    return crc;
}

uint32_t record_erased_crc(const struct journal_head *h)
{
    struct journal_head erased = *h;

    erased.type = RECORD_ERASED;
    return record_crc(&erased, NULL, 0);
}

bool record_head_ok(const struct journal_head *h, uint64_t position)
{
    return h->position == position && h->zero == 0 && h->size <= LIMIT_RECORD && h->type != 0 && h->version != 0;
}
