#include "cli/client_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct client_tls {
    SSL_CTX *ctx;
    SSL *ssl;
};

static const char *setting(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static int trust(SSL_CTX *ctx, struct err *e)
{
    const char *ca = setting("SANDGLASS_CA");
    struct stat st;

    if (!ca)
        return SSL_CTX_set_default_verify_paths(ctx) == 1 ? 0
                                                          : err_set(e, ERR_SYSTEM, "this system has no certificates");
    if (stat(ca, &st) < 0)
        return err_sys(e, "--ca: %s", ca);
    bool dir = S_ISDIR(st.st_mode);
    if (SSL_CTX_load_verify_locations(ctx, dir ? NULL : ca, dir ? ca : NULL) != 1)
        return err_set(e, ERR_INVALID, "--ca: %.100s is no certificate in PEM", ca);
    return 0;
}

/* An address is compared with the certificate's addresses, a name with its names. */
static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char raw[16];

    if (inet_pton(AF_INET, host, raw) == 1 || inet_pton(AF_INET6, host, raw) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static int refused(SSL *ssl, int r, const char *host, struct err *e)
{
    long verdict = SSL_get_verify_result(ssl);
    int why = SSL_get_error(ssl, r);
    char text[120];

    if (verdict != X509_V_OK)
        return err_set(e, ERR_DENIED,
                       "the certificate of '%.80s' is not to be trusted: %.80s (--ca FILE says whom to trust)", host,
                       X509_verify_cert_error_string(verdict));
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        (void)err_set(e, ERR_BUSY, "'%.80s' did not answer in time", host);
        return -ETIMEDOUT;
    }
    ERR_error_string_n(ERR_get_error(), text, sizeof text);
    return err_set(e, ERR_INVALID, "'%.80s' speaks no TLS that this program knows: %s", host, text);
}

int client_tls_open(int fd, const char *host, struct client_tls **ret, struct err *e)
{
    struct client_tls *t = calloc(1, sizeof *t);
    bool checks = !setting("SANDGLASS_INSECURE");
    int r = 0;

    if (!t || !(t->ctx = SSL_CTX_new(TLS_client_method())))
        abort();
    SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION);
    SSL_CTX_set_verify(t->ctx, checks ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    if (checks)
        r = trust(t->ctx, e);
    t->ssl = SSL_new(t->ctx);
    if (!t->ssl || SSL_set_fd(t->ssl, fd) != 1 || !expect_host(t->ssl, host))
        abort();
    ERR_clear_error();
    if (r >= 0) {
        int done = SSL_connect(t->ssl);
        if (done != 1)
            r = refused(t->ssl, done, host, e);
    }
    if (r < 0) {
        client_tls_close(t);
        return r;
    }
    *ret = t;
    return 0;
}

void client_tls_close(struct client_tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    SSL_CTX_free(t->ctx);
    ERR_clear_error();
    free(t);
}

static ssize_t failed(struct client_tls *t, int r)
{
    int why = SSL_get_error(t->ssl, r);

    ERR_clear_error();
    if (why == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

bool client_tls_pending(struct client_tls *t)
{
    return SSL_pending(t->ssl) > 0;
}

ssize_t client_tls_recv(struct client_tls *t, void *to, size_t n)
{
    ERR_clear_error();
    int r = SSL_read(t->ssl, to, n > INT_MAX ? INT_MAX : (int)n);
    return r > 0 ? r : failed(t, r);
}

ssize_t client_tls_send(struct client_tls *t, const void *from, size_t n)
{
    void (*before)(int) = signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */

    ERR_clear_error();
    int r = SSL_write(t->ssl, from, n > INT_MAX ? INT_MAX : (int)n);
    signal(SIGPIPE, before);
    return r > 0 ? r : failed(t, r) == 0 ? (errno = ECONNRESET, -1) : -1;
}
