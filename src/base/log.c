#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum log_level log_max = LOG_INFO;
static const char *role_name = "main";

void log_role(const char *role)
{
    role_name = role;
}

void log_write(enum log_level level, const char *event, const char *fmt, ...)
{
    static const char *const names[] = { "error", "warn", "info", "debug" };
    char line[1024];
    struct timespec now;
    struct tm tm;

    if (level > log_max)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "%FT%T", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03ldZ %-5s %-9s %s ", now.tv_nsec / 1000000, names[level],
                          role_name, event);
    if (n < sizeof line - 2) {
        va_list ap;
        va_start(ap, fmt);
        int m = vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
        va_end(ap);
        n += m > 0 ? (size_t)m : 0;
    }
    if (n > sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';
    (void)!write(STDERR_FILENO, line, n);
}
