#include "test.h"

#include <openssl/sha.h>
#include <stdlib.h>

#include "base/sha256.h"

TEST(sha256_is_what_the_library_says)
{
    static unsigned char data[5000];
    unsigned char want[32];
    char text[65], got[65];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t n = 0; n <= sizeof data; n += n < 200 ? 1 : 373)
        for (size_t step = 1; step < 300; step += 83) {
            struct sha256 s;
            sha256_init(&s);
            for (size_t at = 0; at < n; at += step)
                sha256_add(&s, data + at, n - at < step ? n - at : step);
            sha256_hex(&s, got);
            SHA256(data, n, want);
            for (int i = 0; i < 32; i++)
                snprintf(text + 2 * i, 3, "%02x", want[i]);
            EXPECT_STR(str_of(got), text);
        }
}
