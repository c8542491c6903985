/* Options of a command: a table in, values and the remaining words out; --help is made of the same table. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/text.h"

const char *cli_program = "sandglass";

struct parse {
    const struct command *cmd;
    const struct option *tables[2]; /* the command's, and those that all have */
    int argc, at;
    char **argv;
};

void complain(const char *fmt, ...)
{
    char text[4096];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fflush(stdout); /* so that both streams, in one terminal, keep their order */
    fprintf(stderr, "%s: ", cli_program);
    print_safe(stderr, str_of(text), sizeof text); /* a server's message may quote what a box said */
    fputc('\n', stderr);
}

int usage_error(const struct command *cmd, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    complain("%s: %s", cmd->name, text);
    fprintf(stderr, "usage: %s %s %s\n'%s %s --help' says more\n", cli_program, cmd->name, cmd->words, cli_program,
            cmd->name);
    return EXIT_USAGE;
}

static void print_rows(const struct option *rows)
{
    for (const struct option *o = rows; o && o->name; o++) {
        char left[64];
        int n = o->letter ? snprintf(left, sizeof left, "-%c, ", o->letter) : 0;
        snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
        printf("  %-26s %s\n", left, o->help);
    }
}

static void print_help(const struct parse *p)
{
    printf("usage: %s %s %s\n\n%s\n", cli_program, p->cmd->name, p->cmd->words, p->cmd->about);
    if (p->cmd->more)
        printf("\n%s\n", p->cmd->more);
    puts("\noptions:");
    print_rows(p->tables[0]);
    print_rows(p->tables[1]);
    if (p->cmd->examples)
        printf("\nexamples:\n%s", p->cmd->examples);
    printf("\nexit codes: %s (docs/cli.md)\n",
           p->cmd->codes ? p->cmd->codes : "0 fine, 1 failed, 2 usage, 3 no server, 4 refused, 5 not found, 6 timeout");
}

static const struct option *find_option(const struct parse *p, const char *name, size_t n, char letter)
{
    for (size_t t = 0; t < ARRAY_LEN(p->tables); t++) {
        for (const struct option *o = p->tables[t]; o && o->name; o++) {
            bool same = letter ? o->letter == letter : strlen(o->name) == n && memcmp(o->name, name, n) == 0;
            if (same)
                return o;
        }
    }
    return NULL;
}

static int store(const struct parse *p, const struct option *o, const char *value)
{
    struct option_list *list = o->to;

    switch (o->type) {
    case OPTION_FLAG: *(bool *)o->to = true; break;
    case OPTION_TEXT: *(const char **)o->to = value; break;
    case OPTION_LIST:
        if (list->n == OPTION_LIST_MAX)
            return usage_error(p->cmd, "--%s: given more than %d times", o->name, OPTION_LIST_MAX);
        list->v[list->n++] = value;
        break;
    }
    return OPTIONS_OK;
}

/* One word that begins with '-', and its value. */
static int take_option(struct parse *p)
{
    const char *word = p->argv[p->at++];
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    size_t n = is_long ? strcspn(name, "=") : 1;
    const char *value = is_long ? (name[n] == '=' ? name + n + 1 : NULL) : (name[1] ? name + 1 : NULL);
    const struct option *o = find_option(p, name, n, is_long ? 0 : name[0]);

    if (!o)
        return usage_error(p->cmd, "unknown option '%s'", word);
    if (o->type == OPTION_FLAG && value)
        return usage_error(p->cmd, "option --%s takes no value", o->name);
    if (o->type != OPTION_FLAG && !value) {
        if (p->at == p->argc)
            return usage_error(p->cmd, "option --%s needs a value: %s", o->name, o->arg);
        value = p->argv[p->at++];
    }
    return store(p, o, value);
}

int options_parse(const struct command *cmd, const struct option *rows, int stop_after, int argc, char **argv,
                  struct words *ret)
{
    struct words w = { .v = argv, .dashed = -1 };
    bool help = false, insecure = false;
    const char *ca = NULL;
    struct err e;
    const struct option common[] = {
        { "json", 0, OPTION_FLAG, &w.json, NULL, "print JSON" },
        { "help", 'h', OPTION_FLAG, &help, NULL, "print this" },
        { cmd->remote ? "url" : NULL, 0, OPTION_TEXT, &w.url, "URL",
          "the server ($SANDGLASS_URL; default http://127.0.0.1:8080)" },
        { cmd->remote ? "ca" : NULL, 0, OPTION_TEXT, &ca, "FILE",
          "whose word for an https server is trusted ($SANDGLASS_CA; default the system's)" },
        { cmd->remote ? "insecure" : NULL, 0, OPTION_FLAG, &insecure, NULL, "trust any https server" },
        { 0 },
    };
    struct parse p = { .cmd = cmd, .tables = { rows, common }, .argc = argc, .at = 1, .argv = argv };

    while (p.at < argc) {
        const char *word = argv[p.at];
        bool is_word = w.dashed >= 0 || (stop_after && w.n >= stop_after) || word[0] != '-' || !word[1];
        if (w.dashed < 0 && strcmp(word, "--") == 0 && !(stop_after && w.n >= stop_after)) {
            w.dashed = w.n;
            p.at++;
        } else if (is_word) {
            w.v[w.n++] = argv[p.at++];
        } else {
            int r = take_option(&p);
            if (r != OPTIONS_OK)
                return r;
        }
    }
    if (help) {
        print_help(&p);
        return EXIT_FINE;
    }
    /* Names of boxes and trajectories; what a command is given to run may be anything. Without one, the path would be
     * that of all of them. */
    for (int i = 0; cmd->remote && i < w.n && (i == 0 || !stop_after); i++)
        if (!*w.v[i])
            return usage_error(cmd, "a name is empty; is a variable not set?");
    const char *url = w.url ? w.url : getenv("SANDGLASS_URL");
    if (cmd->remote && url && *url && client_check_url(url, &e) < 0)
        return usage_error(cmd, "%s", e.msg);
    if (ca)
        setenv("SANDGLASS_CA", ca, 1);
    if (insecure)
        setenv("SANDGLASS_INSECURE", "1", 1);
    *ret = w;
    return OPTIONS_OK;
}
