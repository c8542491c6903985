#include "base/auto.h"
#include "isolate/cgroup.h"
#include "test.h"

TEST(cgroup_finds_hybrid_hierarchies)
{
    static const char text[] =
        "24 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "29 28 0:25 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
        "30 28 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
        "31 28 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
        "32 28 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "33 28 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
        "34 28 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
    struct cgroup_mount m[8];

    EXPECT_INT(cgroup_parse_mounts(text, m, 8), 4); /* systemd and cpuset have no job for us */
    EXPECT_STR(str_of(m[0].path), "/sys/fs/cgroup/cpu");
    EXPECT_INT(m[0].jobs, 1u << CGROUP_CPU);
    EXPECT_INT(m[1].jobs, 1u << CGROUP_CPU | 1u << CGROUP_USAGE);
    EXPECT_TRUE(m[2].v2);
    EXPECT_STR(str_of(m[3].path), "/sys/fs/cgroup/memory");
    EXPECT_INT(m[3].jobs, 1u << CGROUP_MEMORY);
    EXPECT_INT(cgroup_parse_mounts(text, m, 2), 2); /* no more than asked for */
    EXPECT_INT(cgroup_parse_mounts("", m, 8), 0);
    EXPECT_INT(cgroup_parse_mounts("garbage - cgroup\n - \n", m, 8), 0);
}

TEST(cgroup_knows_controllers_of_both_versions)
{
    EXPECT_INT(cgroup_parse_jobs("cpuset cpu io memory hugetlb pids rdma misc\n"),
               1u << CGROUP_CPU | 1u << CGROUP_MEMORY | 1u << CGROUP_PIDS);
    EXPECT_INT(cgroup_parse_jobs("rw,freezer"), 1u << CGROUP_FREEZE);
    EXPECT_INT(cgroup_parse_jobs("memoryx,xpids"), 0);
    EXPECT_INT(cgroup_parse_jobs(""), 0);
}

TEST(cgroup_reads_keys)
{
    static const char v2[] = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n";
    static const char v1[] = "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n";

    EXPECT_INT(cgroup_parse_key(v2, "oom_kill"), 3);
    EXPECT_INT(cgroup_parse_key(v1, "oom_kill"), 7);
    EXPECT_INT(cgroup_parse_key(v2, "frozen"), -1);
    EXPECT_INT(cgroup_parse_key("populated 1\nfrozen 1", "frozen"), 1);
    EXPECT_INT(cgroup_parse_key("oom_kill", "oom_kill"), -1);
}
