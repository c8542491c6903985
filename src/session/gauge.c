/* What the kernel counts of a box: files of its cgroups, which supervise opened. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/node.h"

int64_t gauge_read(int fd, const char *key)
{
    char text[512];

    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return -1;
    text[n] = 0;
    const char *at = text;
    if (*key) {
        at = strstr(text, key);
        if (!at)
            return -1;
        at += strlen(key);
    }
    return strtoll(at, NULL, 10);
}

/* cgroup v1 has nanoseconds, v2 names microseconds */
int64_t gauge_cpu_us(const struct box *b)
{
    int64_t us = gauge_read(b->gauges[GAUGE_CPU], "usage_usec ");
    if (us >= 0)
        return us;
    int64_t ns = gauge_read(b->gauges[GAUGE_CPU], "");
    return ns < 0 ? -1 : ns / 1000;
}

int64_t gauge_peak(const struct box *b)
{
    int64_t now = gauge_read(b->gauges[GAUGE_MEMORY_PEAK], "");

    return now > b->peak_max_bytes ? now : b->peak_max_bytes;
}

/* The kernel never counts this one anew; a restored box has another seat, whose count begins with it. */
int64_t gauge_pids_peak(struct box *b)
{
    int64_t now = gauge_read(b->gauges[GAUGE_PIDS_PEAK], "");

    if (now > b->pids_peak)
        b->pids_peak = now;
    return b->pids_peak;
}

void jw_kgauge(struct jw *w, const char *name, int64_t value)
{
    if (value < 0)
        jw_kraw(w, name, STR("null"));
    else
        jw_kint(w, name, value);
}
