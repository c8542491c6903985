/* A shell command is looked at, not parsed: each simple command in it must begin with a program that only reads.
 * Commands inside of commands, and files that are written to, are a no. */
#include "replay/safe.h"

#include "base/auto.h"
#include "tool/tool.h"

static const char *const readers[] = {
    "[",        "basename", "cat",      "cmp",      "comm",    "cut",   "date",  "df",        "diff",     "dirname",
    "du",       "echo",     "expr",     "false",    "file",    "free",  "grep",  "egrep",     "head",     "hexdump",
    "hostname", "id",       "ls",       "lscpu",    "md5sum",  "nl",    "nproc", "od",        "printenv", "printf",
    "ps",       "pwd",      "readlink", "realpath", "rg",      "rev",   "seq",   "sha256sum", "shuf",     "sleep",
    "sort",     "stat",     "strings",  "tac",      "tail",    "test",  "tr",    "tree",      "true",     "type",
    "uname",    "uniq",     "uptime",   "wc",       "whereis", "which", "who",   "whoami",    "uuidgen",
};
static const char *const git_readers[] = { "status", "log", "diff", "show", "blame", "ls-files", "rev-parse", "grep" };

static bool is_one_of(struct str word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_is(word, list[i]))
            return true;
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* One simple command: its first word, and for git the second. */
static bool simple_only_reads(struct str s)
{
    struct str words[2] = { { 0 } };
    size_t n = 0, i = 0;

    s = str_trim(s);
    while (i < s.n && n < 2) {
        size_t from = i;
        while (i < s.n && !is_blank(s.p[i]))
            i++;
        words[n++] = (struct str){ s.p + from, i - from };
        while (i < s.n && is_blank(s.p[i]))
            i++;
    }
    if (!n)
        return true;
    if (str_is(words[0], "git"))
        return is_one_of(words[1], git_readers, ARRAY_LEN(git_readers));
    if (str_is(words[0], "sort") && memmem(s.p, s.n, "-o", 2))
        return false;
    return is_one_of(words[0], readers, ARRAY_LEN(readers));
}

/* "> /dev/null", "2>&1": where a redirection may go */
static bool harmless_target(struct str rest)
{
    if (rest.n && rest.p[0] == '&')
        return true;
    while (rest.n && is_blank(rest.p[0])) {
        rest.p++;
        rest.n--;
    }
    return rest.n >= 9 && memcmp(rest.p, "/dev/null", 9) == 0;
}

bool command_only_reads(struct str c)
{
    size_t from = 0;
    char quote = 0;

    if (!c.p)
        return false;
    for (size_t i = 0; i < c.n; i++) {
        char k = c.p[i];
        bool inner = k == '`' || (k == '$' && i + 1 < c.n && c.p[i + 1] == '(');
        if (k == '\\' && quote != '\'')
            i++;
        else if (quote == '\'' || (quote == '"' && !inner))
            quote = k == quote ? 0 : quote;
        else if (k == '\'' || (k == '"' && !quote))
            quote = k;
        else if (inner || k == '(' || k == ')' || k == '{' || k == '}' || k == '<')
            return false; /* more than is looked at here */
        else if (k == '>' && !harmless_target((struct str){ c.p + i + 1, c.n - i - 1 }))
            return false;
        else if (k == '>' && i + 1 < c.n && c.p[i + 1] == '&')
            i++;
        else if (k == ';' || k == '|' || k == '&' || k == '\n') {
            if (!simple_only_reads((struct str){ c.p + from, i - from }))
                return false;
            from = i + 1;
        }
    }
    return !quote && simple_only_reads((struct str){ c.p + from, c.n > from ? c.n - from : 0 });
}

bool step_only_reads(struct arena *a, const struct traj_step *s)
{
    const struct tool *tool = tool_find(s->tool, NULL);
    struct json *params;
    struct err e;

    if (tool && (tool->flags & TOOL_READ_ONLY))
        return true;
    if (!str_is(s->tool, "bash:run") || json_parse(a, s->params, &params, &e) < 0)
        return false;
    return command_only_reads(json_get_str(params, "command"));
}
