/* SWE-agent's actions are lines of shell. Most are just that; a few are commands of its own tools, written as shell
 * words: "str_replace_editor view /a.py --view_range 1 20", "submit". */
#include "replay/toolmap.h"

#include "base/auto.h"
#include "base/limits.h"

enum { WORDS_MAX = 32 };

/* One word of shell without its quotes; false at the end. Expansions are not known here: they stay as written. */
static bool next_word(struct arena *a, struct str *rest, struct str *ret)
{
    size_t i = 0, n = 0;
    char quote = 0;

    *rest = str_trim(*rest);
    if (!rest->n)
        return false;
    char *word = arena_alloc(a, rest->n + 1);
    for (; i < rest->n; i++) {
        char c = rest->p[i];
        bool space = c == ' ' || c == '\t' || c == '\n';
        if (!quote && space)
            break;
        if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? 0 : c;
        } else if (c == '\\' && quote != '\'' && i + 1 < rest->n) {
            bool plain = !quote || strchr("\"\\$`", rest->p[i + 1]);
            if (!plain)
                word[n++] = c;
            word[n++] = rest->p[++i];
        } else {
            word[n++] = c;
        }
    }
    rest->p += i;
    rest->n -= i;
    *ret = (struct str){ word, n };
    return true;
}

/* "view PATH --view_range 1 20" as the object that the same tool takes from a model */
static struct str editor_args(struct arena *a, struct str rest)
{
    struct str words[WORDS_MAX];
    size_t n = 0;
    struct buf out;
    struct jw w = { .out = &out };

    while (n < WORDS_MAX && next_word(a, &rest, &words[n]))
        n++;
    buf_init(&out, 8 * (size_t)LIMIT_COMMAND);
    jw_obj(&w);
    if (n > 0)
        jw_kstr(&w, "command", words[0]);
    if (n > 1)
        jw_kstr(&w, "path", words[1]);
    for (size_t i = 2; i + 1 < n;) {
        if (words[i].n < 3 || memcmp(words[i].p, "--", 2) != 0 || !utf8_ok(words[i]))
            break;
        struct str key = { words[i].p + 2, words[i].n - 2 };
        if (str_is(key, "view_range") && i + 2 < n) {
            jw_kraw(&w, "view_range",
                    str_of(arena_printf(a, "[%lld,%lld]", atoll(arena_z(a, words[i + 1])),
                                        atoll(arena_z(a, words[i + 2])))));
            i += 3;
            continue;
        }
        jw_key_str(&w, key);
        if (str_is(key, "insert_line"))
            jw_int(&w, atoll(arena_z(a, words[i + 1])));
        else
            jw_str(&w, words[i + 1]);
        i += 2;
    }
    jw_obj_end(&w);
    struct str text = arena_copy(a, buf_view(&out));
    buf_done(&out);
    return text;
}

static struct str command_object(struct arena *a, struct str line)
{
    struct buf out;
    struct jw w = { .out = &out };

    buf_init(&out, 8 * (size_t)LIMIT_COMMAND);
    jw_obj(&w);
    jw_kstr(&w, "command", line.p ? line : STR(""));
    jw_obj_end(&w);
    struct str text = arena_copy(a, buf_view(&out));
    buf_done(&out);
    return text;
}

static void map_editor(const struct toolmap *m, struct str word, struct str rest, struct traj_step *s)
{
    struct json *v;
    struct err e;

    if (json_parse(m->arena, editor_args(m->arena, rest), &v, &e) >= 0) {
        toolmap_call(m, word, v, s);
        return;
    }
    s->tool = word;
    s->refused = "an option stands twice";
}

void toolmap_shell(const struct toolmap *m, struct str line, struct traj_step *s)
{
    struct str trimmed = str_trim(line);
    size_t n = 0;
    struct json *v;
    struct err e;

    while (n < trimmed.n && trimmed.p[n] != ' ' && trimmed.p[n] != '\n')
        n++;
    struct str word = { trimmed.p, n }, rest = str_trim((struct str){ trimmed.p + n, trimmed.n - n });
    bool special = toolmap_knows(word) || (n && memchr(word.p, ':', n));
    if (special && rest.n && rest.p[0] == '{' && json_parse(m->arena, rest, &v, &e) >= 0)
        toolmap_call(m, word, v, s);
    else if (str_is(word, "str_replace_editor"))
        map_editor(m, word, rest, s);
    else if (str_is(word, "submit") || str_is(word, "exit_forfeit"))
        toolmap_call(m, word, NULL, s);
    else {
        s->tool = STR("bash:run");
        s->as_tool = STR("bash");
        s->as_params = s->params = command_object(m->arena, line);
    }
}
