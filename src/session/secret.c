#include "session/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"

enum { NONCE = 12, TAG = 16, KEY = 32, SECRETS_MAX = 10000 };
#define MARK "${secret:"

struct secrets {
    char *path;
    unsigned char key[KEY];
    struct secret **v;
    size_t n;
};

bool secret_name_ok(struct str name)
{
    for (size_t i = 0; i < name.n; i++)
        if (!name.p[i] || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", name.p[i]))
            return false;
    return name.n > 0 && name.n < sizeof((struct secret *)0)->name;
}

/* --- the cipher --- */

/* out: n + TAG bytes to encrypt into, or n - TAG to decrypt into. The tenant and the name are authenticated with it: a
 * line that was copied to another name does not open. */
static bool seal(const struct secrets *s, const struct secret *x, const unsigned char *nonce, bool open,
                 const unsigned char *in, int n, unsigned char *out)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    unsigned char bound[sizeof x->tenant + sizeof x->name];
    int m = 0, last = 0, body = open ? n - TAG : n;

    memcpy(bound, x->tenant, sizeof x->tenant);
    memcpy(bound + sizeof x->tenant, x->name, sizeof x->name);
    bool ok = ctx && body >= 0 && EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, s->key, nonce, !open) == 1 &&
              EVP_CipherUpdate(ctx, NULL, &m, bound, sizeof bound) == 1 &&
              EVP_CipherUpdate(ctx, out, &m, in, body) == 1;
    if (ok && open)
        ok = EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG, (void *)(in + body)) == 1;
    ok = ok && EVP_CipherFinal_ex(ctx, out + m, &last) == 1;
    if (ok && !open)
        ok = EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG, out + n) == 1;
    EVP_CIPHER_CTX_free(ctx);
    return ok;
}

static int load_key(struct secrets *s, const char *path, bool make, struct err *e)
{
    char fresh[4200];
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0)
        return read(fd, s->key, KEY) == KEY
                   ? 0
                   : err_set(e, ERR_INVALID, "secret.key_file: %.100s has less than 32 bytes", path);
    if (errno != ENOENT || !make)
        return err_sys(e, "secret.key_file: %s", path);
    snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
    if (getrandom(s->key, KEY, 0) != KEY)
        return err_sys(e, "getrandom");
    auto_close int out = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0 || write(out, s->key, KEY) != KEY || fsync(out) < 0 || rename(fresh, path) < 0)
        return err_sys(e, "make %s", path);
    return 0;
}

/* --- in memory --- */

static void forget_value(struct secret *x)
{
    if (x->value)
        OPENSSL_cleanse(x->value, x->value_n);
    free(x->value);
    x->value = NULL;
    for (int i = 0; i < SECRET_FORMS; i++) {
        if (x->forms[i].n)
            OPENSSL_cleanse((char *)x->forms[i].p, x->forms[i].n);
        free((char *)x->forms[i].p);
        x->forms[i] = (struct str){ 0 };
    }
}

static struct str keep_form(struct buf *b, size_t skip)
{
    char *text = strndup(b->p + skip, b->n - 2 * skip);

    if (!text)
        abort();
    OPENSSL_cleanse(b->p, b->n);
    buf_reset(b);
    return str_of(text);
}

/* As it stands inside of the quotes of JSON. */
static struct str in_json(struct str text)
{
    struct buf b;
    struct jw w = { .out = &b };

    buf_init(&b, text.n * 6 + 16);
    jw_str(&w, text);
    struct str got = keep_form(&b, 1);
    buf_done(&b);
    return got;
}

/* With something before each of these characters; of a newline, a letter may stand for it. */
static struct str with_escapes(struct str text, const char *escaped, char before, char newline)
{
    struct buf b;

    buf_init(&b, text.n * 2 + 16);
    for (size_t i = 0; i < text.n; i++) {
        if (strchr(escaped, text.p[i]))
            buf_char(&b, before);
        buf_char(&b, text.p[i] == '\n' ? newline : text.p[i]);
    }
    struct str got = keep_form(&b, 0);
    buf_done(&b);
    return got;
}

static void set_value(struct secret *x, struct str value)
{
    forget_value(x);
    x->value = malloc(value.n + 1);
    if (!x->value)
        abort();
    memcpy(x->value, value.p, value.n);
    x->value_n = value.n;
    x->forms[SECRET_JSON] = in_json(value);
    if (!str_eq(x->forms[SECRET_JSON], value)) {
        x->forms[SECRET_ESCAPED] = in_json(value);
        x->forms[SECRET_JSON_ESCAPED] = in_json(x->forms[SECRET_ESCAPED]);
    }
    if (memchr(value.p, '\n', value.n)) {
        x->forms[SECRET_CRLF] = with_escapes(value, "\n", '\r', '\n');
        x->forms[SECRET_JSON_CRLF] = in_json(x->forms[SECRET_CRLF]);
        x->forms[SECRET_ANSI] = with_escapes(value, "\n\\'", '\\', 'n');
    }
    x->forms[SECRET_SHELL] = with_escapes(value, "$`\"\\", '\\', '\n');
}

struct str secret_as(const struct secret *x, int form)
{
    return form == SECRET_PLAIN ? (struct str){ x->value, x->value_n } : x->forms[form];
}

static struct secret *slot(struct secrets *s, const char *tenant, struct str name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->v[i]->tenant, tenant) == 0 && str_is(name, s->v[i]->name))
            return s->v[i];
    return NULL;
}

static struct secret *slot_make(struct secrets *s, const char *tenant, struct str name)
{
    struct secret *x = slot(s, tenant, name);

    if (x)
        return x;
    struct secret **v = realloc(s->v, (s->n + 1) * sizeof *v);
    x = calloc(1, sizeof *x);
    if (!v || !x)
        abort();
    s->v = v;
    v[s->n++] = x;
    snprintf(x->tenant, sizeof x->tenant, "%s", tenant);
    snprintf(x->name, sizeof x->name, "%.*s", STR_ARG(name));
    return x;
}

static void put_text(char *out, size_t size, struct str v)
{
    snprintf(out, size, "%.*s", STR_ARG(v));
}

static void take_line(struct secrets *s, struct str line)
{
    struct arena a = { 0 };
    struct json *j;
    struct err e;
    char tenant[64];

    if (!line.n || json_parse(&a, line, &j, &e) < 0 || j->type != JSON_OBJ) {
        arena_done(&a);
        return;
    }
    put_text(tenant, sizeof tenant, json_get_str(j, "tenant"));
    struct str name = json_get_str(j, "secret"), gone = json_get_str(j, "remove");
    if (gone.p) {
        struct secret *x = slot(s, tenant, gone);
        if (x)
            forget_value(x);
    } else if (secret_name_ok(name)) {
        struct secret *x = slot_make(s, tenant, name);
        struct str nonce = base64_decode(&a, json_get_str(j, "nonce")),
                   data = base64_decode(&a, json_get_str(j, "data"));
        unsigned char *plain = arena_alloc(&a, data.n + 1);
        put_text(x->box, sizeof x->box, json_get_str(j, "box"));
        put_text(x->tools, sizeof x->tools, json_get_str(j, "tools"));
        x->set_us = json_get_int(j, "time", 0);
        if (nonce.n == NONCE && data.n > TAG && data.n <= SECRET_MAX + TAG &&
            seal(s, x, (const unsigned char *)nonce.p, true, (const unsigned char *)data.p, (int)data.n, plain))
            set_value(x, (struct str){ (char *)plain, data.n - TAG });
        else
            log_warn("secret not readable", "tenant=%s name=%s, is it another key?", tenant, x->name);
        OPENSSL_cleanse(plain, data.n);
    }
    arena_done(&a);
}

static int read_all(struct secrets *s, struct err *e)
{
    auto_close int fd = open(s->path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(e, "secrets: %s", s->path);
    if (fstat(fd, &st) < 0)
        return err_sys(e, "secrets: %s", s->path);
    auto_free char *text = malloc((size_t)st.st_size + 1);
    if (!text)
        abort();
    ssize_t got = read(fd, text, (size_t)st.st_size);
    if (got < 0)
        return err_sys(e, "secrets: read %s", s->path);
    size_t at = 0;
    for (char *nl; (nl = memchr(text + at, '\n', (size_t)got - at)); at = (size_t)(nl - text) + 1)
        take_line(s, (struct str){ text + at, (size_t)(nl - text) - at });
    return 0;
}

int secrets_open(const char *home, const char *key_file, struct secrets **ret, struct err *e)
{
    struct secrets *s = calloc(1, sizeof *s);
    char path[4096];
    bool given = key_file && *key_file;

    if (!s || asprintf(&s->path, "%s/secrets", home) < 0)
        abort();
    snprintf(path, sizeof path, "%s/secret.key", home);
    int r = load_key(s, given ? key_file : path, !given, e);
    if (r >= 0)
        r = read_all(s, e);
    if (r < 0) {
        secrets_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void secrets_free(struct secrets *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++) {
        forget_value(s->v[i]);
        free(s->v[i]);
    }
    free(s->v);
    free(s->path);
    OPENSSL_cleanse(s->key, sizeof s->key);
    free(s);
}

/* --- setting --- */

static int append(struct secrets *s, struct buf *line, struct err *e)
{
    auto_close int fd = open(s->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct stat st;
    char last = '\n';

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "secrets: open %s", s->path);
    if (st.st_size && pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n' && write(fd, "\n", 1) != 1)
        return err_sys(e, "secrets: write %s", s->path);
    if (write(fd, line->p, line->n) != (ssize_t)line->n)
        return err_sys(e, "secrets: write %s", s->path);
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    return 0;
}

int secrets_set(struct secrets *s, const struct secret *ask, struct str value, struct err *e)
{
    unsigned char nonce[NONCE], data[SECRET_MAX + TAG];
    struct buf line;
    struct jw w = { .out = &line };

    if (!secret_name_ok(str_of(ask->name)))
        return err_set(e, ERR_INVALID, "name: 1 to 63 letters, digits and . _ - are allowed");
    if (value.n < SECRET_MIN || value.n > SECRET_MAX)
        return err_set(e, ERR_LIMIT, "value: %zu bytes are outside %d to %d", value.n, SECRET_MIN, SECRET_MAX);
    if (memchr(value.p, 0, value.n))
        return err_set(e, ERR_INVALID, "value: contains a NUL byte");
    if (s->n >= SECRETS_MAX)
        return err_set(e, ERR_LIMIT, "secrets: there are %d already", SECRETS_MAX);
    if (getrandom(nonce, NONCE, 0) != NONCE ||
        !seal(s, ask, nonce, false, (const unsigned char *)value.p, (int)value.n, data))
        return err_set(e, ERR_SYSTEM, "the secret could not be encrypted");
    buf_init(&line, SECRET_MAX * 2 + 4096);
    jw_obj(&w);
    jw_kz(&w, "secret", ask->name);
    jw_kz(&w, "tenant", ask->tenant);
    jw_kint(&w, "time", wall_us());
    jw_kz(&w, "box", ask->box);
    jw_kz(&w, "tools", ask->tools);
    jw_key(&w, "nonce");
    jw_base64(&w, (struct str){ (char *)nonce, NONCE });
    jw_key(&w, "data");
    jw_base64(&w, (struct str){ (char *)data, value.n + TAG });
    jw_obj_end(&w);
    buf_char(&line, '\n');
    int r = append(s, &line, e);
    if (r >= 0)
        take_line(s, (struct str){ line.p, line.n - 1 });
    buf_done(&line);
    return r;
}

int secrets_remove(struct secrets *s, const struct tenant *t, struct str name, struct err *e)
{
    struct buf line;
    struct jw w = { .out = &line };

    if (!secrets_find(s, t, name))
        return err_set(e, ERR_NOT_FOUND, "no secret '%.*s'", (int)(name.n < 64 ? name.n : 64), name.p);
    buf_init(&line, 4096);
    jw_obj(&w);
    jw_kstr(&w, "remove", name);
    jw_kz(&w, "tenant", t->name);
    jw_kint(&w, "time", wall_us());
    jw_obj_end(&w);
    buf_char(&line, '\n');
    int r = append(s, &line, e);
    if (r >= 0)
        take_line(s, (struct str){ line.p, line.n - 1 });
    buf_done(&line);
    return r;
}

const struct secret *secrets_find(const struct secrets *s, const struct tenant *t, struct str name)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i]->value && strcmp(s->v[i]->tenant, t->name) == 0 && str_is(name, s->v[i]->name))
            return s->v[i];
    return NULL;
}

const struct secret *secrets_next(const struct secrets *s, const struct tenant *t, size_t *i)
{
    while (*i < s->n) {
        const struct secret *x = s->v[(*i)++];
        if (x->value && strcmp(x->tenant, t->name) == 0)
            return x;
    }
    return NULL;
}

void secret_print(const struct secret *x, struct jw *w)
{
    jw_kz(w, "name", x->name);
    jw_kz(w, "tenant", x->tenant);
    jw_kz(w, "box", x->box[0] ? x->box : NULL);
    jw_kz(w, "tools", x->tools[0] ? x->tools : NULL);
    jw_kint(w, "set_us", x->set_us);
    jw_kint(w, "bytes", (int64_t)x->value_n);
}

/* --- in --- */

static bool tool_fits(const char *list, const char *tool)
{
    while (tool && *list) {
        size_t n = strcspn(list, ", ");
        if (n == strlen(tool) && memcmp(list, tool, n) == 0)
            return true;
        list += n + strspn(list + n, ", ");
    }
    return false;
}

int secret_may(const struct secret *x, const struct secret_use *use, struct err *e)
{
    if (x->box[0] && (!use->box || strcmp(x->box, use->box) != 0))
        return err_set(e, ERR_DENIED, "secret '%s' is for box %s only", x->name, x->box);
    if (x->tools[0] && !tool_fits(x->tools, use->tool))
        return err_set(e, ERR_DENIED, "secret '%s' is for %.100s only", x->name, x->tools);
    return 0;
}

int secrets_expand(const struct secrets *s, const struct secret_use *use, struct str text, enum secret_form form,
                   struct arena *a, struct str *ret, struct err *e)
{
    const char *p = text.p, *end = text.p + text.n, *at;
    struct buf out;

    *ret = text;
    if (!text.n || !memmem(p, text.n, MARK, strlen(MARK)))
        return 0;
    buf_init(&out, LIMIT_FRAME);
    while ((at = memmem(p, (size_t)(end - p), MARK, strlen(MARK)))) {
        const char *from = at + strlen(MARK), *close_ = memchr(from, '}', (size_t)(end - from));
        struct str name = { from, close_ ? (size_t)(close_ - from) : 0 };
        if (!secret_name_ok(name)) { /* no reference of ours: as it is */
            buf_add(&out, p, (size_t)(from - p));
            p = from;
            continue;
        }
        const struct secret *x = secrets_find(s, use->tenant, name);
        int r = x ? secret_may(x, use, e) : err_set(e, ERR_NOT_FOUND, "there is no secret '%.*s'", STR_ARG(name));
        if (r < 0) {
            buf_done(&out);
            return r;
        }
        buf_add(&out, p, (size_t)(at - p));
        buf_str(&out, secret_as(x, form));
        p = close_ + 1;
    }
    buf_add(&out, p, (size_t)(end - p));
    bool full = out.full;
    *ret = full ? text : arena_copy(a, buf_view(&out));
    if (out.p)
        OPENSSL_cleanse(out.p, out.n);
    buf_done(&out);
    return full ? err_set(e, ERR_LIMIT, "with its secrets, the text exceeds LIMIT_FRAME (%ld bytes)", LIMIT_FRAME) : 0;
}

/* --- out --- */

/* A part of a text that is to have a name instead. */
struct found {
    size_t at, n;
    const struct secret *secret;
};

struct finds {
    struct found *v;
    size_t n, room;
};

static void found(struct finds *f, size_t at, size_t n, const struct secret *x)
{
    struct found *last = f->n ? &f->v[f->n - 1] : NULL;

    if (last && last->secret == x && at >= last->at && at < last->at + last->n) { /* "ababab" has "abab" twice */
        last->n = at + n > last->at + last->n ? at + n - last->at : last->n;
        return;
    }
    if (f->n == f->room) {
        f->room = f->room ? f->room * 2 : 16;
        f->v = realloc(f->v, f->room * sizeof *f->v);
        if (!f->v)
            abort();
    }
    f->v[f->n++] = (struct found){ at, n, x };
}

/* The first goes first; of those that begin together, the longest. */
static int by_place(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->n != y->n ? (x->n > y->n ? -1 : 1) : 0;
}

/* Where the middle of a long output was left out, it may have been cut through a value: what is left of that at the
 * end of the one part and at the beginning of the other. At least CUT_MIN bytes of it, or too much would look alike. */
enum { CUT_MIN = 4, CUTS_MAX = 16 };
#define CUT_BEGIN "[... "
#define CUT_END   " bytes omitted ...]"

static void find_cut(struct finds *f, const struct secret *x, struct str v, struct str text, struct str cut)
{
    static const char *const ends[] = { "\\n", "\n" };
    size_t left = (size_t)(cut.p - text.p), right = left + cut.n;

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) { /* the newlines around the line that says so; in JSON, or plain */
        size_t n = strlen(ends[i]);
        if (left >= n && memcmp(text.p + left - n, ends[i], n) == 0)
            left -= n;
        if (text.n - right >= n && memcmp(text.p + right, ends[i], n) == 0)
            right += n;
    }
    for (size_t n = v.n - 1 < left ? v.n - 1 : left; n >= CUT_MIN; n--)
        if (memcmp(text.p + left - n, v.p, n) == 0) {
            found(f, left - n, n, x);
            break;
        }
    for (size_t n = v.n - 1 < text.n - right ? v.n - 1 : text.n - right; n >= CUT_MIN; n--)
        if (memcmp(text.p + right, v.p + v.n - n, n) == 0) {
            found(f, right, n, x);
            break;
        }
}

static struct str next_cut(struct str text, size_t *from)
{
    for (const char *end; (end = memmem(text.p + *from, text.n - *from, CUT_END, strlen(CUT_END)));) {
        const char *begin = end;
        while (begin > text.p && begin[-1] >= '0' && begin[-1] <= '9')
            begin--;
        *from = (size_t)(end - text.p) + strlen(CUT_END);
        if ((size_t)(begin - text.p) >= strlen(CUT_BEGIN) &&
            memcmp(begin - strlen(CUT_BEGIN), CUT_BEGIN, strlen(CUT_BEGIN)) == 0)
            return (struct str){ begin - strlen(CUT_BEGIN), *from - (size_t)(begin - strlen(CUT_BEGIN) - text.p) };
    }
    return (struct str){ 0 };
}

static void find_value(struct finds *f, const struct secret *x, struct str v, struct str text)
{
    struct str cut;

    if (!v.n)
        return;
    for (const char *p = text.p; (p = memmem(p, text.n - (size_t)(p - text.p), v.p, v.n)); p++)
        found(f, (size_t)(p - text.p), v.n, x);
    for (size_t from = 0, n = 0; n < CUTS_MAX && (cut = next_cut(text, &from)).n; n++)
        find_cut(f, x, v, text, cut);
}

/* Where values overlap, the part that the first left of the next has that one's name. Of $'...', a name is outside: what
 * it stands for is put into double quotes. */
static struct str with_names(const struct finds *f, struct str text, enum secret_form form, struct arena *a)
{
    struct buf out;
    size_t at = 0;

    buf_init(&out, LIMIT_RECORD);
    for (size_t i = 0; i < f->n; i++) {
        const struct found *x = &f->v[i];
        if (x->at + x->n <= at)
            continue;
        if (x->at > at)
            buf_add(&out, text.p + at, x->at - at);
        buf_printf(&out, form == SECRET_ANSI ? "'\"" MARK "%s}\"$'" : MARK "%s}", x->secret->name);
        at = x->at + x->n;
    }
    buf_add(&out, text.p + at, text.n - at);
    struct str clean = out.full ? STR("null") : arena_copy(a, buf_view(&out));
    buf_done(&out);
    return clean;
}

struct str secrets_redact(const struct secrets *s, const struct tenant *t, struct str text, enum secret_form form,
                          struct arena *a)
{
    const struct secret *x;
    struct finds f = { 0 };

    for (size_t i = 0; text.n && (x = secrets_next(s, t, &i));) {
        int last = form == SECRET_PLAIN ? SECRET_ESCAPED : form == SECRET_JSON ? SECRET_JSON_ESCAPED : (int)form;
        for (int k = (int)form; k <= last; k++)
            find_value(&f, x, secret_as(x, k), text);
    }
    if (!f.n)
        return text;
    qsort(f.v, f.n, sizeof *f.v, by_place);
    text = with_names(&f, text, form, a);
    free(f.v);
    return text;
}
