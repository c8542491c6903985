/* One line per event on stderr: level, role, event, key=value. */
#pragma once

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

extern enum log_level log_max;
void log_role(const char *role);
void log_write(enum log_level level, const char *event, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define log_error(event, ...) log_write(LOG_ERROR, event, __VA_ARGS__)
#define log_warn(event, ...)  log_write(LOG_WARN, event, __VA_ARGS__)
#define log_info(event, ...)  log_write(LOG_INFO, event, __VA_ARGS__)
#define log_debug(event, ...)                                                                                          \
    do {                                                                                                               \
        if (log_max >= LOG_DEBUG)                                                                                      \
            log_write(LOG_DEBUG, event, __VA_ARGS__);                                                                  \
    } while (0)
