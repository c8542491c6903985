/* TLS: the bytes of a connection on their way to and from the socket. Above conn_recv and conn_send nobody knows of it.
 * The certificate and its key are read again when either file changes, or when told so; connections that are open keep
 * what they began with. */
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/log.h"
#include "http/internal.h"

enum { RECORD = 16 * 1024 };

struct http_tls {
    SSL_CTX *ctx;
    char *cert, *key;
    struct stat cert_seen, key_seen;
};

static int complain(struct err *e, const char *what, const char *path)
{
    char why[120];

    ERR_error_string_n(ERR_get_error(), why, sizeof why);
    ERR_clear_error();
    return err_set(e, ERR_INVALID, "%s: %.80s: %s", what, path, why);
}

static int build(const struct http_tls *t, SSL_CTX **ret, struct err *e)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    int r = 0;

    if (!ctx)
        abort();
    ERR_clear_error();
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    if (SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1)
        abort();
    if (SSL_CTX_use_certificate_chain_file(ctx, t->cert) != 1)
        r = complain(e, "tls.cert", t->cert);
    else if (SSL_CTX_use_PrivateKey_file(ctx, t->key, SSL_FILETYPE_PEM) != 1)
        r = complain(e, "tls.key", t->key);
    else if (SSL_CTX_check_private_key(ctx) != 1)
        r = complain(e, "tls.key does not belong to tls.cert", t->key);
    if (r < 0)
        SSL_CTX_free(ctx);
    else
        *ret = ctx;
    return r;
}

static bool same_file(struct stat *seen, const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return true; /* it is being replaced, perhaps */
    bool same = st.st_ino == seen->st_ino && st.st_size == seen->st_size && st.st_mtim.tv_sec == seen->st_mtim.tv_sec &&
                st.st_mtim.tv_nsec == seen->st_mtim.tv_nsec;
    *seen = st;
    return same;
}

int http_tls_new(const char *cert, const char *key, struct http_tls **ret, struct err *e)
{
    struct http_tls *t = calloc(1, sizeof *t);

    if (!t || !(t->cert = strdup(cert)) || !(t->key = strdup(key)))
        abort();
    (void)same_file(&t->cert_seen, cert);
    (void)same_file(&t->key_seen, key);
    int r = build(t, &t->ctx, e);
    if (r < 0) {
        http_tls_free(t);
        return r;
    }
    *ret = t;
    return 0;
}

void http_tls_free(struct http_tls *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    free(t->cert);
    free(t->key);
    free(t);
}

/* Both are replaced one after the other: a pair that does not fit yet is no reason to give up the old one, and the
 * second change is seen as well. */
void http_tls_look(struct http_tls *t, bool always)
{
    bool cert_same = same_file(&t->cert_seen, t->cert), key_same = same_file(&t->key_seen, t->key);
    SSL_CTX *fresh;
    struct err e;

    if (cert_same && key_same && !always)
        return;
    if (build(t, &fresh, &e) < 0) {
        log_warn("certificate not taken", "error='%s', going on with the old one", e.msg);
        return;
    }
    SSL_CTX_free(t->ctx); /* connections hold a reference of their own */
    t->ctx = fresh;
    log_info("certificate read again", "path=%s", t->cert);
}

/* --- one connection --- */

void tls_begin(struct http_conn *c, struct http_tls *t)
{
    c->tls = SSL_new(t->ctx);
    if (!c->tls || SSL_set_fd(c->tls, c->fd) != 1)
        abort();
    SSL_set_accept_state(c->tls); /* the handshake is part of the first read */
}

void tls_end(struct http_conn *c)
{
    SSL_free(c->tls);
    c->tls = NULL;
}

void tls_say_goodbye(struct http_conn *c)
{
    ERR_clear_error();
    (void)SSL_shutdown(c->tls); /* once: the other side's word is not waited for */
    ERR_clear_error();
}

bool tls_has_more(const struct http_conn *c)
{
    return SSL_pending(c->tls) > 0;
}

static ssize_t failed(struct http_conn *c, int r)
{
    int why = SSL_get_error(c->tls, r);

    ERR_clear_error();
    c->tls_writes = why == SSL_ERROR_WANT_WRITE;
    if (why == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t tls_recv(struct http_conn *c, void *to, size_t n)
{
    ERR_clear_error();
    int r = SSL_read(c->tls, to, n > INT_MAX ? INT_MAX : (int)n);
    if (r > 0)
        c->tls_writes = false;
    return r > 0 ? r : failed(c, r);
}

/* In records of up to 16 KiB, gathered from the parts: a write that has to be tried again begins with the same bytes
 * and is no shorter, as OpenSSL demands, because what waits only grows. */
ssize_t tls_send(struct http_conn *c, const struct iovec *iov, int parts)
{
    static char record[RECORD];
    size_t total = 0, done = 0;

    for (int i = 0; i < parts; i++)
        total += iov[i].iov_len;
    while (done < total) {
        size_t n = 0, skip = done;
        for (int i = 0; i < parts && n < sizeof record; i++) {
            if (skip >= iov[i].iov_len) {
                skip -= iov[i].iov_len;
                continue;
            }
            size_t take = iov[i].iov_len - skip;
            if (take > sizeof record - n)
                take = sizeof record - n;
            memcpy(record + n, (const char *)iov[i].iov_base + skip, take);
            n += take;
            skip = 0;
        }
        ERR_clear_error();
        int r = SSL_write(c->tls, record, (int)n);
        if (r <= 0) {
            ssize_t why = failed(c, r);
            if (why == 0)
                errno = ECONNRESET;
            return done ? (ssize_t)done : -1;
        }
        done += (size_t)r;
    }
    return (ssize_t)done;
}
