#include "session/secret_stream.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"

void secret_stream_init(struct secret_stream *f, const struct secrets *s, const struct tenant *t, size_t eager)
{
    *f = (struct secret_stream){ .secrets = s, .tenant = t, .eager = eager };
    buf_init(&f->kept, LIMIT_STREAM_PIECE + 6 * SECRET_MAX);
    buf_init(&f->out, LIMIT_STREAM_PIECE + 6 * SECRET_MAX);
}

void secret_stream_done(struct secret_stream *f)
{
    if (f->kept.p)
        OPENSSL_cleanse(f->kept.p, f->kept.size);
    buf_done(&f->kept);
    buf_done(&f->out);
}

/* Looked for in what came, covered in what goes out: a value that begins another one does not hide it. */
static void cover(struct secret_stream *f)
{
    const struct secret *x;
    struct str in = buf_view(&f->kept);

    for (size_t i = 0; (x = secrets_next(f->secrets, f->tenant, &i));)
        for (int form = SECRET_PLAIN; form <= SECRET_ESCAPED; form++) {
            struct str v = secret_as(x, form);
            for (const char *p = in.p; v.n && (p = memmem(p, in.n - (size_t)(p - in.p), v.p, v.n)); p++)
                memset(f->out.p + (p - in.p), '*', v.n);
        }
}

size_t secrets_begun(const struct secrets *s, const struct tenant *t, struct str text)
{
    const struct secret *x;
    size_t most = 0;

    for (size_t i = 0; text.n && (x = secrets_next(s, t, &i));)
        for (int form = SECRET_PLAIN; form <= SECRET_ESCAPED; form++) {
            struct str v = secret_as(x, form);
            size_t n = v.n && v.n - 1 < text.n ? v.n - 1 : v.n ? text.n : 0;
            for (; n > most; n--)
                if (memcmp(text.p + text.n - n, v.p, n) == 0)
                    most = n;
        }
    return most;
}

static struct str pass_on(struct secret_stream *f, size_t end)
{
    struct str out = { f->out.p + f->told, end > f->told ? end - f->told : 0 };

    f->told = f->told > end ? f->told : end;
    return out;
}

struct str secret_stream_put(struct secret_stream *f, struct str data, bool last)
{
    size_t i = 0;

    buf_eat(&f->kept, f->drop);
    buf_eat(&f->out, f->drop);
    f->told -= f->drop;
    f->drop = 0;
    if (!f->kept.n && (!data.n || !secrets_next(f->secrets, f->tenant, &i)))
        return data;
    buf_str(&f->kept, data);
    buf_str(&f->out, data);
    cover(f);
    size_t waits = last ? 0 : secrets_begun(f->secrets, f->tenant, buf_view(&f->kept)),
           early = waits < f->eager ? waits : f->eager;
    f->drop = f->kept.n - waits;
    struct str out = pass_on(f, f->drop + early);
    if (f->told < f->drop)
        f->told = f->drop;
    return out;
}

size_t secret_stream_waits(const struct secret_stream *f)
{
    return f->kept.n - f->told;
}

size_t secret_stream_look_back(const struct secret_stream *f)
{
    const struct secret *x;
    size_t most = 1;

    for (size_t i = 0; (x = secrets_next(f->secrets, f->tenant, &i));)
        for (int form = SECRET_PLAIN; form <= SECRET_ESCAPED; form++)
            most = secret_as(x, form).n > most ? secret_as(x, form).n : most;
    return most - 1;
}

/* What comes from a box may be changed under our hands: what was looked at is what is written. */
int secrets_redact_fd(const struct secrets *s, const struct tenant *t, int take_fd)
{
    struct secret_stream f;
    size_t i = 0;

    if (take_fd < 0 || !secrets_next(s, t, &i))
        return take_fd;
    int copy = memfd_create("redacted", MFD_CLOEXEC);
    auto_free char *piece = malloc(LIMIT_STREAM_PIECE);
    ssize_t n = copy >= 0 && piece ? 1 : -1;
    secret_stream_init(&f, s, t, 0);
    for (off_t at = 0; n > 0; at += n) {
        n = pread(take_fd, piece, LIMIT_STREAM_PIECE, at);
        struct str out = n < 0 ? STR("") : secret_stream_put(&f, (struct str){ piece, (size_t)n }, n == 0);
        if (out.n && write(copy, out.p, out.n) != (ssize_t)out.n)
            n = -1;
    }
    secret_stream_done(&f);
    close(take_fd);
    if (n < 0 && copy >= 0)
        close(copy);
    return n < 0 ? -1 : copy; /* rather nothing than something that was not looked at */
}
