#include "http/multipart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PREAMBLE, AFTER_DELIMITER, HEAD, CONTENT, EPILOGUE };

static int bad(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "the form is malformed: %s", what);
}

static struct str trim(struct str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = (struct str){ s.p + 1, s.n - 1 };
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* The parameter `name` of a header's value; p NULL: absent. */
static struct str parameter(struct str s, const char *name)
{
    const char *p = s.p, *end = s.p + s.n;
    size_t want = strlen(name);

    while (p < end && (p = memchr(p, ';', (size_t)(end - p)))) {
        p++;
        while (p < end && (*p == ' ' || *p == '\t'))
            p++;
        const char *key = p;
        while (p < end && *p != '=' && *p != ';')
            p++;
        bool found = (size_t)(p - key) == want && strncasecmp(key, name, want) == 0;
        if (p == end || *p == ';')
            continue;
        p++;
        const char *from = p;
        if (p < end && *p == '"') {
            from = ++p;
            while (p < end && *p != '"')
                p += p + 1 < end && *p == '\\' ? 2 : 1;
            p = p > end ? end : p;
            if (found)
                return (struct str){ from, (size_t)(p - from) };
            continue;
        }
        while (p < end && *p != ';')
            p++;
        if (found)
            return trim((struct str){ from, (size_t)(p - from) });
    }
    return (struct str){ 0 };
}

int multipart_init(struct multipart *m, struct str content_type, struct err *e)
{
    static const char form[] = "multipart/form-data";
    struct str boundary = parameter(content_type, "boundary");

    if (content_type.n < sizeof form - 1 || strncasecmp(content_type.p, form, sizeof form - 1) != 0)
        return err_set(e, ERR_INVALID, "Content-Type: must be multipart/form-data");
    if (!boundary.n || boundary.n > MULTIPART_BOUNDARY_MAX)
        return err_set(e, ERR_INVALID, "Content-Type: its boundary must have 1 to %d characters",
                       MULTIPART_BOUNDARY_MAX);
    *m = (struct multipart){ .state = PREAMBLE };
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, boundary.p, boundary.n);
    m->delimiter_n = 4 + boundary.n;
    return 0;
}

/* How much of data is surely before the delimiter; *ret_found: and there it is. */
static size_t before_delimiter(const struct multipart *m, struct str data, bool *ret_found)
{
    const char *at = memmem(data.p, data.n, m->delimiter, m->delimiter_n);

    *ret_found = at != NULL;
    if (at)
        return (size_t)(at - data.p);
    size_t tail = data.n < m->delimiter_n - 1 ? data.n : m->delimiter_n - 1;
    const char *p = data.p + data.n - tail; /* a CR there may begin one */
    const char *end = data.p + data.n;
    while (p < end && (p = memchr(p, '\r', (size_t)(end - p)))) {
        if (memcmp(p, m->delimiter, (size_t)(end - p)) == 0)
            return (size_t)(p - data.p);
        p++;
    }
    return data.n;
}

static int read_header(struct str line, struct multipart_part *part, struct err *e)
{
    const char *colon = memchr(line.p, ':', line.n);

    if (!colon || colon == line.p)
        return bad(e, "a line of a part's head has no name");
    struct str name = { line.p, (size_t)(colon - line.p) };
    struct str value = trim((struct str){ colon + 1, line.n - name.n - 1 });
    if (name.n == 19 && strncasecmp(name.p, "content-disposition", 19) == 0) {
        part->name = parameter(value, "name");
        part->filename = parameter(value, "filename");
    } else if (name.n == 12 && strncasecmp(name.p, "content-type", 12) == 0) {
        part->content_type = value;
    }
    return 0;
}

static int read_part_head(struct multipart *m, struct str data, struct multipart_part *part, size_t *ret_n,
                          struct err *e)
{
    bool empty = data.n >= 2 && memcmp(data.p, "\r\n", 2) == 0;
    const char *end = empty ? data.p : memmem(data.p, data.n, "\r\n\r\n", 4);

    if (!end && data.n > MULTIPART_HEAD_MAX)
        return err_set(e, ERR_LIMIT, "the head of a part is larger than %d bytes", MULTIPART_HEAD_MAX);
    if (!end)
        return MULTIPART_MORE;
    *part = (struct multipart_part){ 0 };
    for (const char *p = data.p; p < end;) {
        const char *nl = memmem(p, (size_t)(end + 2 - p), "\r\n", 2);
        int r = read_header((struct str){ p, (size_t)(nl - p) }, part, e);
        if (r < 0)
            return r;
        p = nl + 2;
    }
    if (!part->name.p)
        return bad(e, "a part has no name");
    if (++m->parts > MULTIPART_PARTS_MAX)
        return err_set(e, ERR_LIMIT, "the form has more than %d parts", MULTIPART_PARTS_MAX);
    *ret_n = (size_t)(end - data.p) + (empty ? 2 : 4);
    m->state = CONTENT;
    return MULTIPART_PART;
}

/* Right after a delimiter: "--" is the end, CR LF another part; blanks may stand before it. */
static int read_delimiter_end(struct multipart *m, struct str data, size_t *ret_n, struct err *e)
{
    size_t i = 0;

    if (data.n >= 2 && data.p[0] == '-' && data.p[1] == '-') {
        m->state = EPILOGUE;
        *ret_n = 2;
        return MULTIPART_END;
    }
    while (i < data.n && i < 64 && (data.p[i] == ' ' || data.p[i] == '\t'))
        i++;
    if (data.n < i + 2 && !(data.n == i + 1 && data.p[i] != '\r' && data.p[i] != '-'))
        return MULTIPART_MORE;
    if (data.p[i] != '\r' || data.p[i + 1] != '\n')
        return bad(e, "a boundary is not at the end of its line");
    *ret_n = i + 2;
    m->state = HEAD;
    return MULTIPART_MORE;
}

/* The first delimiter may begin the body, without CR LF. */
static int read_preamble(struct multipart *m, struct str data, size_t *ret_n, struct err *e)
{
    struct str bare = { m->delimiter + 2, m->delimiter_n - 2 };
    bool found;

    if (data.n < bare.n && memcmp(data.p, bare.p, data.n) == 0)
        return MULTIPART_MORE;
    if (data.n >= bare.n && memcmp(data.p, bare.p, bare.n) == 0) {
        *ret_n = bare.n;
        m->state = AFTER_DELIMITER;
        return MULTIPART_MORE;
    }
    size_t n = before_delimiter(m, data, &found);
    if (n > MULTIPART_HEAD_MAX)
        return bad(e, "its boundary is not where it should begin");
    if (found) {
        *ret_n = n + m->delimiter_n;
        m->state = AFTER_DELIMITER;
    }
    return MULTIPART_MORE;
}

static int step(struct multipart *m, struct str data, struct multipart_part *part, size_t *ret_n, struct err *e)
{
    bool found;

    switch (m->state) {
    case PREAMBLE: return read_preamble(m, data, ret_n, e);
    case AFTER_DELIMITER: return read_delimiter_end(m, data, ret_n, e);
    case HEAD: return read_part_head(m, data, part, ret_n, e);
    case CONTENT:
        *ret_n = before_delimiter(m, data, &found);
        if (*ret_n)
            return MULTIPART_DATA;
        if (!found)
            return MULTIPART_MORE;
        *ret_n = m->delimiter_n;
        m->state = AFTER_DELIMITER;
        return MULTIPART_PART_END;
    default: *ret_n = data.n; return MULTIPART_MORE; /* the epilogue is nobody's */
    }
}

int multipart_next(struct multipart *m, struct str data, struct multipart_part *part, size_t *ret_n, struct err *e)
{
    *ret_n = 0;
    return step(m, data, part, ret_n, e);
}
