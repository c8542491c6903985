#include "test.h"

#include "base/hmac.h"

TEST(hmac_sha256_of_rfc_4231)
{
    char out[HMAC_HEX + 1], key[131];
    struct str two[] = { STR("what do ya want "), STR("for nothing?") };

    hmac_sha256_hex(STR("Jefe"), two, 2, out);
    EXPECT_STR(str_of(out), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    struct str one = STR("Test Using Larger Than Block-Size Key - Hash Key First");
    hmac_sha256_hex((struct str){ key, sizeof key }, &one, 1, out);
    EXPECT_STR(str_of(out), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}
