/* What may be asked of a box, and the smaller pure parts of making one. */
#include <errno.h>

#include "base/auto.h"
#include "base/err.h"
#include "isolate/caps.h"
#include "isolate/dns.h"
#include "isolate/idmap.h"
#include "isolate/network.h"
#include "isolate/nft.h"
#include "isolate/spec.h"
#include "test.h"
#include "wire/seat.h"

static struct box_spec good(void)
{
    return (struct box_spec){ .image = "host",
                              .memory_bytes = 256 * MiB,
                              .disk_bytes = 64 * MiB,
                              .shm_bytes = MiB,
                              .cpu_milli = 1000,
                              .pids = 64,
                              .open_files = 256 };
}

TEST(spec_names_the_field)
{
    struct err e;
    struct box_spec s = good();
    EXPECT_INT(spec_check(&s, &e), 0);

    s.memory_bytes = 0;
    EXPECT_INT(spec_check(&s, &e), -EINVAL);
    EXPECT_TRUE(strstr(e.msg, "memory_bytes is 0"));

    s = good();
    s.mount_count = LIMIT_MOUNTS + 1;
    EXPECT_INT(spec_check(&s, &e), -EINVAL);
    EXPECT_TRUE(strstr(e.msg, "mount_count"));

    s = good();
    memset(s.image, 'x', sizeof s.image); /* no end */
    EXPECT_INT(spec_check(&s, &e), -EINVAL);
    EXPECT_TRUE(strstr(e.msg, "image"));

    s = good();
    snprintf(s.image, sizeof s.image, "debian");
    EXPECT_INT(spec_check(&s, &e), -EINVAL);
}

TEST(spec_keeps_mounts_off_our_places)
{
    static const struct {
        const char *to;
        int want;
    } cases[] = { { "/work", 0 },
                  { "/procession", 0 },
                  { "/proc", -EINVAL },
                  { "/proc/sys", -EINVAL },
                  { "/dev/x", -EINVAL },
                  { "/sys", -EINVAL },
                  { "/run/sandglass", -EINVAL },
                  { "/", -EINVAL },
                  { "//", -EINVAL },
                  { "work", -EINVAL },
                  { "", -EINVAL } };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e;
        struct box_spec s = good();
        s.mount_count = 1;
        snprintf(s.mounts[0].from, sizeof s.mounts[0].from, "/srv");
        snprintf(s.mounts[0].to, sizeof s.mounts[0].to, "%s", cases[i].to);
        EXPECT_INT(spec_check(&s, &e), cases[i].want);
    }
}

TEST(spec_fits_a_parked_seat)
{
    struct box_spec have = good(), want = good();

    want.memory_bytes = 2 * have.memory_bytes; /* can be rewritten */
    EXPECT_TRUE(spec_fits(&have, &want));
    EXPECT_TRUE(!spec_same_limits(&have, &want));
    want.cold = true;
    EXPECT_TRUE(!spec_fits(&have, &want));
    want = good();
    want.disk_bytes++;
    EXPECT_TRUE(!spec_fits(&have, &want));
    want = good();
    want.mount_count = 1;
    EXPECT_TRUE(!spec_fits(&have, &want));
    want = good();
    want.network = BOX_NETWORK_FULL;
    EXPECT_TRUE(!spec_fits(&have, &want));
}

TEST(idmap_of_two_servers_begin_in_different_places)
{
    static struct idmap one, two, again;
    struct err e;

    idmap_init(&one, "sandglass");
    idmap_init(&two, "sandglass-1a2b3c4d");
    idmap_init(&again, "sandglass");
    int first = idmap_take(&one, &e);
    EXPECT_TRUE(first != idmap_take(&two, &e));
    EXPECT_INT(idmap_take(&again, &e), first);
    for (int i = 1; i < IDMAP_SLOTS; i++)
        EXPECT_TRUE(idmap_take(&one, &e) >= 0);
    EXPECT_INT(idmap_take(&one, &e), -ENOBUFS);
}

TEST(idmap_slots_do_not_overlap)
{
    static struct idmap m;
    struct err e;

    EXPECT_INT(idmap_take(&m, &e), 0);
    EXPECT_INT(idmap_take(&m, &e), 1);
    EXPECT_TRUE(!idmap_claim(&m, 1));
    EXPECT_TRUE(!idmap_claim(&m, -1));
    EXPECT_TRUE(!idmap_claim(&m, IDMAP_SLOTS));
    EXPECT_TRUE(idmap_claim(&m, 2));
    EXPECT_INT(idmap_take(&m, &e), 3);
    idmap_release(&m, 1);
    EXPECT_INT(idmap_take(&m, &e), 1);
    EXPECT_INT(idmap_base(1) - idmap_base(0), IDMAP_RANGE);
    EXPECT_TRUE(idmap_base(IDMAP_SLOTS - 1) + (uint64_t)IDMAP_RANGE < 1ULL << 31); /* some tools take ids as int */
    for (int i = 4; i < IDMAP_SLOTS; i++)
        (void)idmap_take(&m, &e);
    EXPECT_INT(idmap_take(&m, &e), -ENOBUFS);
}

TEST(caps_have_no_way_out)
{
    static const int never[] = { 21 /* SYS_ADMIN */,
                                 16 /* SYS_MODULE */,
                                 12 /* NET_ADMIN */,
                                 13 /* NET_RAW */,
                                 27 /* MKNOD */,
                                 17 /* SYS_RAWIO */,
                                 24 /* SYS_RESOURCE */,
                                 2 /* DAC_READ_SEARCH */,
                                 25 /* SYS_TIME */,
                                 39 /* BPF */,
                                 38 /* PERFMON */ };
    for (size_t i = 0; i < ARRAY_LEN(never); i++)
        EXPECT_TRUE(!(caps_kept() & 1ULL << never[i]));
}

TEST(network_counts_addresses)
{
    struct network n;
    struct err e;
    char text[NETWORK_NAME];

    EXPECT_INT(network_init(&n, "x", "10.99.0.77/24", &e), 0);
    network_text(network_gateway(&n), text);
    EXPECT_STR(str_of(text), "10.99.0.1");
    network_text(network_address(&n, 1), text);
    EXPECT_STR(str_of(text), "10.99.0.2");
    EXPECT_INT(network_size(&n), 256);
    network_done(&n);
    EXPECT_INT(network_init(&n, "x", "10.99.0.0", &e), -EINVAL);
    EXPECT_INT(network_init(&n, "x", "10.99.0.0/31", &e), -EINVAL);
    EXPECT_INT(network_init(&n, "sand-glass.1", NULL, &e), 0);
    EXPECT_STR(str_of(n.table), "sandglass_sand_glass_1");
    EXPECT_INT(n.subnet >> 22, (100 << 24 | 64 << 16) >> 22); /* in 100.64.0.0/10 */
    network_done(&n);
}

TEST(nft_rules_are_whole)
{
    char text[4096];
    const struct nft_opts o = { .table = "t", .links = "sg1", .subnet = 0x64400000, .bits = 16, .gateway = 0x64400001 };
    int n = nft_text(&o, true, text, sizeof text);

    EXPECT_TRUE(n > 0 && n < (int)sizeof text);
    EXPECT_TRUE(strstr(text, "169.254.0.0/16"));
    EXPECT_TRUE(strstr(text, "ip saddr 100.64.0.0/16 oifname != \"sg1*\" masquerade"));
    EXPECT_TRUE(strstr(text, "ct state new drop"));
    nft_text(&o, false, text, sizeof text);
    EXPECT_TRUE(!strstr(text, "ct state new drop"));
}

TEST(dns_servers_of_the_host)
{
    uint32_t s[3];

    EXPECT_INT(dns_parse_servers("# x\nnameserver 127.0.0.53\nsearch a\nnameserver ::1\nnameserver 10.0.0.1\n", s, 3),
               2);
    EXPECT_INT(s[0], 0x7f000035);
    EXPECT_INT(s[1], 0x0a000001);
    EXPECT_INT(dns_parse_servers("", s, 3), 0);
}
