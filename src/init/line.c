#include "init/line.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/shell.h"

#define DISABLED "enable -n " /* as bash says it, in front of a name */

static void quote(struct buf *b, struct str s)
{
    buf_char(b, '\'');
    for (size_t i = 0; i < s.n; i++)
        s.p[i] == '\'' ? buf_z(b, "'\\''") : buf_char(b, s.p[i]);
    buf_char(b, '\'');
}

static int put_file(const char *dir, const char *name, struct str text, struct err *e)
{
    char path[48];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    (void)unlink(path); /* somebody may still have the old one open */
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(e, "make %s", path);
    while (text.n) {
        ssize_t n = write(fd, text.p, text.n);
        if (n <= 0)
            return err_sys(e, "write %s", path);
        text.p += n;
        text.n -= (size_t)n;
    }
    return 0;
}

/* A file around the command: another directory, more environment. */
static int put_wrapper(const char *dir, const struct shell_command *c, struct err *e)
{
    AUTO(buf_done) struct buf b = { .cap = 8 * MiB };

    if (c->cwd.p) {
        buf_z(&b, "\\builtin cd -- ");
        quote(&b, c->cwd);
        buf_z(&b, " || \\builtin return 1\n");
    }
    if (c->env.n) /* that would be called instead, see below */
        buf_z(&b, "\\builtin unset -f .\n");
    for (size_t i = 0; i < c->env.n; i++) {
        buf_str(&b, c->env.v[i].name);
        buf_char(&b, '=');
        quote(&b, c->env.v[i].value);
        buf_char(&b, ' ');
    }
    /* with variables not "builtin .": that would not export them */
    buf_printf(&b, "\\%s. %s/cmd\n", c->env.n ? "" : "builtin ", dir);
    if (b.full)
        return err_set(e, ERR_LIMIT, "env is larger than %ld bytes", 8 * MiB);
    return put_file(dir, "pre", buf_view(&b), e);
}

/* Bash shows the prompt of read -p only to a terminal, and the pipe that input comes through is none. A shell that is
 * given a command with such a read gets a function that says it as a terminal would be told, on stderr, and only if the
 * read is from that pipe. Not every shell has it: it makes each read three times as long. Of scripts that the command
 * runs as other processes nothing can be known. */
static const char read_function[] = "if \\builtin declare -F __sandglass_prompt || ! \\builtin declare -F read; then\n"
                                    "function __sandglass_prompt {\n"
                                    "    \\builtin local OPTIND=1 OPTARG= OPTERR=0 option prompt=\n"
                                    "    while \\builtin getopts :ersa:d:i:n:N:p:t:u: option; do\n"
                                    "        case $option in p) prompt=$OPTARG ;; u) \\builtin return ;; esac\n"
                                    "    done\n"
                                    "    \\builtin printf %%s \"$prompt\" >&2\n"
                                    "}\n"
                                    "function read {\n"
                                    "    [[ /dev/fd/0 -ef %s/in ]] && __sandglass_prompt \"$@\"\n"
                                    "    \\builtin read \"$@\"\n"
                                    "}\n"
                                    "fi\n";

/* Is there the word read with an option that has a p in it, on one line? If it only looks so, nothing is lost. */
static bool may_prompt(struct str text)
{
    const char *end = text.p + text.n;

    for (const char *at = text.p; (at = memmem(at, (size_t)(end - at), "read ", 5));) {
        const char *p = at += 5;
        for (; p < end && *p != '\n'; p++)
            if (*p == '-' && p[-1] == ' ')
                for (p++; p < end && *p >= 'A' && *p <= 'z'; p++)
                    if (*p == 'p')
                        return true;
    }
    return false;
}

static int put_read_function(const char *dir, struct err *e)
{
    AUTO(buf_done) struct buf b = { .cap = 4 * KiB };

    buf_printf(&b, read_function, dir);
    return put_file(dir, "read", buf_view(&b), e);
}

/* The backslashes keep bash from taking a word for an alias. */
int line_put_command(int fd, struct str text, struct err *e)
{
    if (ftruncate(fd, (off_t)text.n) < 0)
        return err_sys(e, "write the command");
    for (size_t at = 0; at < text.n;) {
        ssize_t n = pwrite(fd, text.p + at, text.n - at, (off_t)at);
        if (n <= 0)
            return err_sys(e, "write the command");
        at += (size_t)n;
    }
    return 0;
}

int line_add_command(struct buf *b, const char *dir, const struct shell_command *c, int last_exit, struct err *e)
{
    bool wrapped = c->cwd.p || c->env.n;
    char ret[32];
    int r = 0;

    if (!c->stdin_text.p && may_prompt(c->text)) {
        r = put_read_function(dir, e);
        buf_printf(b, "\\builtin . %s/read >/dev/null\n", dir);
    }
    if (r == 0 && last_exit != 0) { /* a sourced file may return any number, without a fork */
        snprintf(ret, sizeof ret, "\\builtin return %d\n", last_exit);
        r = put_file(dir, "ret", str_of(ret), e);
        buf_printf(b, "\\builtin . %s/ret;", dir);
    }
    if (r == 0 && wrapped)
        r = put_wrapper(dir, c, e);
    if (r == 0 && c->stdin_text.p)
        r = put_file(dir, "stdin", c->stdin_text, e);
    if (r == 0)
        buf_printf(b, "\\builtin . %s/%s <%s/%s >%s/out 2>%s/err\n", dir, wrapped ? "pre" : "cmd", dir,
                   c->stdin_text.p ? "stdin" : "in", dir, dir);
    return r;
}

void line_add_status(struct buf *b, const char *dir, const struct line_status *l)
{
    if (!l->back_to && !l->builtins) {
        buf_printf(b, "\\builtin printf '%%d %%d %%s\\0' %u \"$?\" \"${PWD-}\" >%s/st\n", l->number, dir);
        return;
    }
    buf_printf(b, "\\builtin printf '%%d %%d ' %u \"%s\" >%s/st; ", l->number, l->failed ? "1" : "$?", dir);
    if (l->builtins)
        buf_printf(b, "{ \\builtin enable -n || \\builtin printf '" DISABLED "enable\\n'; } >%s/st; ", dir);
    if (l->back_to) {
        buf_z(b, "\\builtin cd -- ");
        quote(b, str_of(l->back_to)); /* it may be gone: where the shell is then is what counts */
        buf_z(b, "; ");
    }
    buf_printf(b, "\\builtin printf '%%s\\0' \"${PWD-}\" >%s/st\n", dir);
}

/* Those without which no command can be run, or not where it is to be. Without printf and builtin nothing is told at all. */
static bool is_needed(const char *name, size_t n)
{
    static const char *const needed[] = { ".", "cd", "return", "enable" };

    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (n == strlen(needed[i]) && memcmp(name, needed[i], n) == 0)
            return true;
    return false;
}

bool line_read_status(const char *record, struct line_report *ret)
{
    const char *status = strchr(record, ' ');
    const char *at = status ? strchr(status + 1, ' ') : NULL;

    if (!at)
        return false;
    *ret = (struct line_report){ .number = (unsigned)strtoul(record, NULL, 10), .status = atoi(status + 1) };
    for (at++; strncmp(at, DISABLED, sizeof DISABLED - 1) == 0; at += *at != '\0') {
        const char *name = at + sizeof DISABLED - 1;
        at = name + strcspn(name, "\n");
        ret->crippled |= is_needed(name, (size_t)(at - name));
    }
    ret->cwd = at;
    return true;
}
