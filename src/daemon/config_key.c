/* How a key is spelt in its three places, which key a misspelt word meant, and what text a value may have. */
#include "daemon/config_key.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/word.h"
#include "daemon/config.h"
#include "daemon/units.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define ZONES   "/usr/share/zoneinfo"

void config_key_spell(const struct config_key *k, enum key_spelling how, char text[KEY_TEXT])
{
    static const char *const prefix[] = {
        [KEY_SPELT_NAME] = "",
        [KEY_SPELT_ENV] = "SANDGLASS_",
        [KEY_SPELT_FLAG] = "--",
    };

    snprintf(text, KEY_TEXT, "%s%s", prefix[how], k->name);
    if (how == KEY_SPELT_NAME)
        return;
    for (char *p = text + strlen(prefix[how]); *p; p++) {
        if (how == KEY_SPELT_ENV)
            *p = *p == '.' ? '_' : (char)toupper((unsigned char)*p);
        else if (*p == '.' || *p == '_')
            *p = '-';
    }
}

/* Flags forgive '_' and '.' for '-': all three are in the table of settings. */
static bool same_word(const char *word, const char *spelt, enum key_spelling how)
{
    if (how != KEY_SPELT_FLAG)
        return strcmp(word, spelt) == 0;
    for (; *word && *spelt; word++, spelt++)
        if (*word != *spelt && !(*spelt == '-' && (*word == '_' || *word == '.')))
            return false;
    return *word == *spelt;
}

const struct config_key *config_key_find(const char *word, enum key_spelling how)
{
    char spelt[KEY_TEXT];

    for (const struct config_key *k = config_keys; k->name; k++) {
        config_key_spell(k, how, spelt);
        if (same_word(word, spelt, how))
            return k;
    }
    return NULL;
}

/* Levenshtein's distance, one row at a time. Longer words are not compared: they are no typing errors. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[KEY_TEXT + 1];
    size_t n = strlen(b);

    if (n > KEY_TEXT || strlen(a) > KEY_TEXT)
        return KEY_TEXT;
    for (size_t j = 0; j <= n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            unsigned change = diagonal + (a[i - 1] != b[j - 1]);
            unsigned insert = row[j - 1] + 1, remove = row[j] + 1;
            diagonal = row[j];
            row[j] = change < insert ? change : insert;
            if (remove < row[j])
                row[j] = remove;
        }
    }
    return row[n];
}

int config_key_unknown(const char *where, const char *what, const char *word, enum key_spelling how, struct err *e)
{
    char spelt[KEY_TEXT], nearest[KEY_TEXT] = "";
    unsigned best = 4; /* at most three wrong letters */

    for (const struct config_key *k = config_keys; k->name; k++) {
        config_key_spell(k, how, spelt);
        unsigned d = distance(word, spelt);
        if (d < best && d < strlen(k->name)) {
            best = d;
            memcpy(nearest, spelt, sizeof nearest);
        }
    }
    if (*nearest)
        return err_set(e, ERR_INVALID, "%.110s: unknown %s '%.50s'; did you mean '%s'?", where, what, word, nearest);
    return err_set(e, ERR_INVALID, "%.110s: unknown %s '%.50s'; 'sandglass serve --help' lists them", where, what,
                   word);
}

static void allowed_form(enum key_form form, int64_t max, char *text, size_t size)
{
    static const char *const words[] = {
        [FORM_ANY] = "text",
        [FORM_LISTEN] = "HOST:PORT or [IPV6]:PORT with a port from 0 to 65535, or unix:/PATH",
        [FORM_DIR] = "a directory",
        [FORM_DIRS] = "absolute paths; where there may be several, separated by colons",
        [FORM_FILE] = "a file's path",
        [FORM_NAME] = "letters, digits, '-', '_' and '.', not beginning with '.'",
        [FORM_IMAGE] = "host, or an absolute directory",
        [FORM_PATH] = "an absolute path without '..'",
        [FORM_WORD] = "a word without blanks",
        [FORM_PORTS] = "ports from 1 to 65535 separated by commas",
        [FORM_WORKSPACE] = "an absolute path without '..' where a directory can be",
        [FORM_ZONE] = "a name below " ZONES " (Asia/Tokyo) or of POSIX's form (JST-9)",
        [FORM_PROXY] = "[http://][user:pass@]host:port",
        [FORM_FLAGS] = "words that begin with '-'; one with blanks in quotes",
        [FORM_TEMPLATES] = "URLs with https://, separated by blanks",
    };
    int n = snprintf(text, size, "%s", words[form]);
    if (max && n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, ", at most %lld bytes", (long long)max);
}

void config_key_allowed(const struct config_key *k, char *text, size_t size)
{
    char low[UNITS_TEXT], high[UNITS_TEXT];

    switch (k->type) {
    case KEY_STR: allowed_form(k->form, k->max, text, size); break;
    case KEY_BOOL: snprintf(text, size, "true or false"); break;
    case KEY_ENUM: snprintf(text, size, "one of %s", k->choices); break;
    case KEY_INT: snprintf(text, size, "an integer from %lld to %lld", (long long)k->min, (long long)k->max); break;
    case KEY_SIZE:
        snprintf(text, size, "a size such as 512m or 2g, from %s to %s", units_print_size(low, k->min),
                 units_print_size(high, k->max));
        break;
    case KEY_DURATION:
        snprintf(text, size, "a time such as 250ms, 30s or 5m, from %s to %s", units_print_duration(low, k->min),
                 units_print_duration(high, k->max));
        break;
    case KEY_MILLI:
        snprintf(text, size, "a decimal such as 0.5 or 2, from %s to %s", units_print_milli(low, k->min),
                 units_print_milli(high, k->max));
        break;
    }
}

/* ---- forms of strings ---- */

static bool is_name(const char *v)
{
    size_t n = strlen(v);

    return n && n < 64 && v[0] != '.' && strspn(v, LETTERS "0123456789-_.") == n;
}

/* Absolute, and no part of it is "..": what it names must not depend on what else is there. */
static bool is_plain_path(const char *v, size_t n)
{
    if (n == 0 || v[0] != '/' || n >= 4096)
        return false;
    for (size_t i = 0; i + 2 < n; i++)
        if (memcmp(v + i, "/..", 3) == 0 && (i + 3 == n || v[i + 3] == '/'))
            return false;
    return true;
}

static bool is_listen(const char *v)
{
    const char *colon = strrchr(v, ':');
    int64_t port;

    if (strncmp(v, "unix:", 5) == 0)
        return is_plain_path(v + 5, strlen(v + 5));
    if (!colon || colon == v || units_integer(colon + 1, &port) < 0 || port > 65535)
        return false;
    bool brackets = v[0] == '[' && colon[-1] == ']' && colon - v > 3;
    return brackets || !memchr(v, ':', (size_t)(colon - v));
}

static bool is_dirs(const char *v)
{
    while (*v) {
        size_t n = strcspn(v, ":");
        if (!is_plain_path(v, n))
            return false;
        v += n + (v[n] == ':' && v[n + 1]);
        if (*v == ':')
            return false;
    }
    return true;
}

static bool is_word(const char *v)
{
    while (isgraph((unsigned char)*v))
        v++;
    return !*v;
}

/* A blank behind a comma is dropped. */
static char *ports(const char *v)
{
    auto_free char *made = strdup("");
    char *end;

    while (made && *v) {
        long port = isdigit((unsigned char)*v) ? strtol(v, &end, 10) : 0;
        char *more = NULL;
        if (port < 1 || port > 65535 || (*end && *end != ',') ||
            asprintf(&more, "%s%s%ld", made, *made ? "," : "", port) < 0)
            return NULL;
        free(made);
        made = more;
        v = *end ? end + 1 + strspn(end + 1, " ") : end;
        if (*end && !*v)
            return NULL;
    }
    return TAKE_PTR(made);
}

/* The box's files are not here yet; but the image is this machine's, and what is no directory in it stays none. */
static bool is_workspace(const char *v)
{
    char path[4096];
    struct stat st;

    if (!is_plain_path(v, strlen(v)) || strncmp(v, "/proc/", 6) == 0 || strncmp(v, "/sys/", 5) == 0)
        return false;
    for (size_t n = 1; v[n - 1]; n++) {
        if (v[n] && v[n] != '/')
            continue;
        snprintf(path, sizeof path, "%.*s", (int)n, v);
        if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
            return false;
    }
    return true;
}

/* Whatever the C library does not know it takes for UTC, without a word. */
static bool is_zone(const char *v)
{
    const char *name = v + (v[0] == ':');
    const char *end = name[0] == '<' ? strchr(name, '>') : name + strspn(name, LETTERS);
    char path[4096], magic[4];

    if (!is_word(v))
        return false;
    snprintf(path, sizeof path, "%s%s", name[0] == '/' ? "" : ZONES "/", name);
    auto_close int fd = is_plain_path(path, strlen(path)) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd >= 0 && read(fd, magic, sizeof magic) == sizeof magic && memcmp(magic, "TZif", sizeof magic) == 0)
        return true;
    if (v[0] == ':' || !end || end - name < 3)
        return false;
    end += *end == '>';
    end += *end == '+' || *end == '-';
    return isdigit((unsigned char)*end);
}

static bool is_end(const char *v)
{
    return !*v || strcmp(v, "/") == 0;
}

/* As tool/proxy.py reads it. */
static bool is_proxy(const char *v)
{
    const char *at, *host, *colon;
    int64_t port = 0;

    v += strncmp(v, "http://", 7) == 0 ? 7 : 0;
    at = strrchr(v, '@');
    host = at ? at + 1 : v;
    colon = strrchr(host, ':');
    size_t user = strcspn(v, ":@/");
    if (!is_word(v) || !colon || (at && (!user || v[user] == '/')))
        return false;
    char *digits = strndupa(colon + 1, strcspn(colon + 1, "/"));
    if (!is_end(colon + 1 + strlen(digits)) || units_integer(digits, &port) < 0 || port < 1 || port > 65535)
        return false;
    if (host[0] == '[')
        return colon > host + 3 && colon[-1] == ']' &&
               strspn(host + 1, "0123456789abcdefABCDEF:") == (size_t)(colon - host - 2);
    return colon > host && strspn(host, LETTERS "0123456789.-_") == (size_t)(colon - host);
}

static bool is_flags(const char *v)
{
    auto_free char *copy = strdup(v);
    char *rest = copy, *word;

    if (!copy)
        return false;
    while ((word = word_next(&rest)))
        if (word[0] != '-')
            return false;
    return rest; /* NULL: a quote that is not closed */
}

static bool is_templates(const char *v)
{
    for (v += strspn(v, " "); *v; v += strspn(v, " ")) {
        if (strncmp(v, "https://", 8) != 0 || !isalnum((unsigned char)v[8]))
            return false;
        while (isgraph((unsigned char)*v))
            v++;
        if (*v && *v != ' ')
            return false;
    }
    return true;
}

static char *absolute(const char *path)
{
    char *made = NULL;

    if (!*path)
        return NULL;
    if (*path == '/')
        return strdup(path);
    auto_free char *here = get_current_dir_name();
    if (!here || asprintf(&made, "%s/%s", here, path) < 0)
        return NULL;
    return made;
}

char *config_form(enum key_form form, const char *value)
{
    bool ok = false;

    switch (form) {
    case FORM_ANY: ok = true; break;
    case FORM_LISTEN: ok = is_listen(value); break;
    case FORM_DIR: return absolute(value);
    case FORM_FILE: return *value ? absolute(value) : strdup("");
    case FORM_DIRS: ok = is_dirs(value); break;
    case FORM_NAME: ok = !*value || is_name(value); break;
    case FORM_PATH: ok = !*value || is_plain_path(value, strlen(value)); break;
    case FORM_WORD: ok = is_word(value); break;
    case FORM_PORTS: return ports(value);
    case FORM_WORKSPACE: ok = !*value || is_workspace(value); break;
    case FORM_ZONE: ok = !*value || is_zone(value); break;
    case FORM_PROXY: ok = !*value || is_proxy(value); break;
    case FORM_FLAGS: ok = is_flags(value); break;
    case FORM_TEMPLATES: ok = is_templates(value); break;
    case FORM_IMAGE: ok = strcmp(value, "host") == 0 || is_plain_path(value, strlen(value)); break;
    }
    return ok ? strdup(value) : NULL;
}

/* ---- defaults that depend on who asks ---- */

char *config_default_home(void)
{
    const char *home = getenv("HOME"), *data = getenv("XDG_DATA_HOME");
    char *path = NULL;

    if (geteuid() == 0)
        return strdup("/var/lib/sandglass");
    if (data && *data == '/')
        return asprintf(&path, "%s/sandglass", data) < 0 ? NULL : path;
    return asprintf(&path, "%s/.local/share/sandglass", home && *home ? home : "/tmp") < 0 ? NULL : path;
}

char *config_default_ticket_ttl(void)
{
    const char *seconds = getenv("TICKET_TTL_SECONDS");
    char *text = NULL;

    return seconds && *seconds && asprintf(&text, "%ss", seconds) > 0 ? text : NULL;
}

char *config_default_user(void)
{
    return strdup(geteuid() == 0 ? "nobody" : "");
}
