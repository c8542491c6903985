#include "image/sha.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

enum { CHUNK = 128 * 1024 };

struct sha sha_of(struct str s)
{
    struct sha h;
    SHA256((const unsigned char *)s.p, s.n, h.b);
    return h;
}

static int feed(EVP_MD_CTX *md, int fd, uint64_t cap, struct err *e)
{
    auto_free char *chunk = malloc(CHUNK);
    uint64_t at = 0;

    if (!chunk)
        abort();
    for (;;) {
        ssize_t n = pread(fd, chunk, CHUNK, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "read a file to hash it");
        if (n == 0)
            return 0;
        at += (uint64_t)n;
        if (at > cap)
            return err_set(e, ERR_LIMIT, "a file grew while it was hashed");
        EVP_DigestUpdate(md, chunk, (size_t)n);
    }
}

int sha_fd(int fd, uint64_t cap, struct sha *ret, struct err *e)
{
    struct sha h;
    EVP_MD_CTX *md = EVP_MD_CTX_new();

    if (!md || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1)
        abort();
    int r = feed(md, fd, cap, e);
    if (r >= 0 && EVP_DigestFinal_ex(md, h.b, NULL) != 1)
        r = err_set(e, ERR_SYSTEM, "libcrypto refused to hash");
    EVP_MD_CTX_free(md);
    if (r >= 0)
        *ret = h;
    return r;
}

void sha_print(const struct sha *h, char out[SHA_HEX])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < SHA_BYTES; i++) {
        out[2 * i] = digits[h->b[i] >> 4];
        out[2 * i + 1] = digits[h->b[i] & 15];
    }
    out[2 * SHA_BYTES] = 0;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool sha_parse(struct str hex, struct sha *ret)
{
    struct sha h;

    if (hex.n != 2 * SHA_BYTES)
        return false;
    for (size_t i = 0; i < SHA_BYTES; i++) {
        int hi = digit(hex.p[2 * i]), lo = digit(hex.p[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return false;
        h.b[i] = (unsigned char)(hi << 4 | lo);
    }
    *ret = h;
    return true;
}
