/* The filter is run here, instruction by instruction, as the kernel would. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "isolate/seccomp.h"
#include "test.h"

#if defined(__x86_64__)
enum { HERE = (int)AUDIT_ARCH_X86_64 };
#else
enum { HERE = (int)AUDIT_ARCH_AARCH64 };
#endif

static uint32_t load(const struct seccomp_data *d, uint32_t offset)
{
    uint32_t v;
    memcpy(&v, (const char *)d + offset, sizeof v);
    return v;
}

static bool nests; /* which of the two filters */

static uint32_t run_program(const struct seccomp_program *p, const struct seccomp_data *d, int *ret_steps)
{
    uint32_t a = 0;

    *ret_steps = 0;
    for (size_t pc = 0; pc < p->count; pc++) {
        const struct sock_filter *f = &p->insns[pc];
        ++*ret_steps;
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS: a = load(d, f->k); break;
        case BPF_JMP | BPF_JA: pc += f->k; break;
        case BPF_JMP | BPF_JEQ | BPF_K: pc += a == f->k ? f->jt : f->jf; break;
        case BPF_JMP | BPF_JGE | BPF_K: pc += a >= f->k ? f->jt : f->jf; break;
        case BPF_JMP | BPF_JSET | BPF_K: pc += a & f->k ? f->jt : f->jf; break;
        case BPF_RET | BPF_K: return f->k;
        default: return 0xdead;
        }
    }
    return 0xdead; /* ran off the end */
}

static uint32_t run(const struct seccomp_data *d, int *ret_steps)
{
    return run_program(seccomp_program(nests), d, ret_steps);
}

static int verdict(int nr, uint64_t a0, uint64_t a1, uint64_t a2) /* 0: allowed, else the errno */
{
    struct seccomp_data d = { .nr = nr, .arch = (uint32_t)HERE, .args = { a0, a1, a2 } };
    int steps;
    uint32_t r = run(&d, &steps);

    if (r == SECCOMP_RET_ALLOW)
        return 0;
    return (r & 0xffff0000) == SECCOMP_RET_ERRNO ? (int)(r & 0xffff) : -1;
}

TEST(seccomp_denies_what_a_box_has_no_use_for)
{
    static const struct {
        int nr, want;
    } cases[] = {
        { SYS_mount, EPERM },
        { SYS_umount2, EPERM },
        { SYS_fsopen, EPERM },
        { SYS_move_mount, EPERM },
        { SYS_open_tree, EPERM },
        { SYS_pivot_root, EPERM },
        { SYS_bpf, EPERM },
        { SYS_keyctl, EPERM },
        { SYS_add_key, EPERM },
        { SYS_userfaultfd, EPERM },
        { SYS_io_uring_setup, EPERM },
        { SYS_open_by_handle_at, EPERM },
        { SYS_perf_event_open, EPERM },
        { SYS_setns, EPERM },
        { SYS_clone3, ENOSYS },
        { SYS_io_setup, ENOSYS },
        { SYS_reboot, EPERM },
        { SYS_kexec_load, EPERM },
        { SYS_init_module, EPERM },
        { SYS_sethostname, EPERM },
        { SYS_swapon, EPERM },
        { SYS_acct, EPERM },
        { SYS_fanotify_init, EPERM },
        { SYS_quotactl, EPERM },
        { SYS_syslog, EPERM },
        { SECCOMP_NEWEST + 1, ENOSYS },
        { 100000, ENOSYS },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        EXPECT_INT(verdict(cases[i].nr, 0, 0, 0), cases[i].want);
}

TEST(seccomp_lets_programs_live)
{
    static const int calls[] = { SYS_read,
                                 SYS_write,
                                 SYS_openat,
                                 SYS_execve,
                                 SYS_ptrace,
                                 SYS_mmap,
                                 SYS_mbind,
                                 SYS_exit_group,
                                 SYS_wait4,
                                 SYS_kill,
                                 SYS_setuid,
                                 SYS_chown,
                                 SYS_chroot,
                                 SYS_futex,
                                 SYS_prctl,
                                 SYS_seccomp,
                                 SYS_getrandom,
                                 SYS_memfd_create,
                                 SYS_pidfd_open,
                                 SYS_landlock_restrict_self,
                                 SYS_process_vm_readv,
                                 SYS_sched_setaffinity,
                                 SYS_statx };
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        EXPECT_INT(verdict(calls[i], 0, 0, 0), 0);
}

TEST(seccomp_looks_at_arguments)
{
    EXPECT_INT(verdict(SYS_clone, CLONE_VM | CLONE_THREAD | 17, 0, 0), 0);
    EXPECT_INT(verdict(SYS_clone, CLONE_NEWUSER | 17, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_clone, CLONE_NEWNET | 17, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_unshare, CLONE_FILES, 0, 0), 0);
    EXPECT_INT(verdict(SYS_unshare, CLONE_NEWNS, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_unshare, 0x80 /* time */, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_socket, AF_UNIX, 1, 0), 0);
    EXPECT_INT(verdict(SYS_socket, AF_INET6, 1, 0), 0);
    EXPECT_INT(verdict(SYS_socket, AF_NETLINK, 3, 0), 0);
    EXPECT_INT(verdict(SYS_socket, AF_NETLINK, 3, 12 /* netfilter */), EPROTONOSUPPORT);
    EXPECT_INT(verdict(SYS_socket, AF_PACKET, 3, 0), EAFNOSUPPORT);
    EXPECT_INT(verdict(SYS_socket, AF_VSOCK, 1, 0), EAFNOSUPPORT);
    EXPECT_INT(verdict(SYS_socket, AF_ALG, 5, 0), EAFNOSUPPORT);
    EXPECT_INT(verdict(SYS_ioctl, 0, TCGETS, 0), 0);
    EXPECT_INT(verdict(SYS_ioctl, 0, TIOCSTI, 0), EPERM);
    EXPECT_INT(verdict(SYS_ioctl, 0, TIOCSTI | 1ULL << 32, 0), EPERM); /* the kernel looks at 32 bits: so must we */
    EXPECT_INT(verdict(SYS_ioctl, 0, TIOCLINUX, 0), EPERM);
    EXPECT_INT(verdict(SYS_personality, 0xffffffff, 0, 0), 0);
    EXPECT_INT(verdict(SYS_personality, 0x0040000, 0, 0), 0);
    EXPECT_INT(verdict(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */, 0, 0), EPERM);
}

TEST(seccomp_of_a_box_that_nests_opens_three_kinds_of_namespaces_and_closes_what_they_give_rights_over)
{
    nests = true;
    EXPECT_INT(verdict(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | 17, 0, 0), 0);
    EXPECT_INT(verdict(SYS_unshare, CLONE_NEWUSER, 0, 0), 0);
    EXPECT_INT(verdict(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_unshare, CLONE_NEWUTS, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_unshare, CLONE_NEWIPC, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_unshare, CLONE_NEWCGROUP, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_unshare, 0x80 /* time */, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_clone3, 0, 0, 0), ENOSYS);
    EXPECT_INT(verdict(SYS_setns, 0, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_mount, 0, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_fsopen, 0, 0, 0), EPERM);
    EXPECT_INT(verdict(SYS_socket, AF_NETLINK, 3, 4), 0);
    EXPECT_INT(verdict(SYS_socket, AF_NETLINK, 3, 12), EPROTONOSUPPORT);
    EXPECT_INT(verdict(SYS_socket, AF_INET, 1, 0), 0);
    EXPECT_INT(verdict(SYS_ioctl, 3, TCGETS, 0), 0);
    EXPECT_INT(verdict(SYS_ioctl, 3, TIOCSTI, 0), EPERM);
    EXPECT_INT(verdict(SYS_ioctl, 3, 0x894b /* SIOCOUTQNSD */, 0), 0);
    EXPECT_INT(verdict(SYS_ioctl, 3, 0x8983 /* SIOCSIFVLAN */, 0), EPERM);
    EXPECT_INT(verdict(SYS_ioctl, 3, 0x89a0 /* SIOCBRADDBR */, 0), EPERM);
    EXPECT_INT(verdict(SYS_ioctl, 3, 0x89f1 /* SIOCADDTUNNEL */, 0), EPERM);
    EXPECT_INT(verdict(SYS_ioctl, 3, 0x80045430 /* TIOCGPTN */, 0), 0);
    EXPECT_INT(verdict(SYS_setsockopt, 3, 1 /* SOL_SOCKET */, 64), 0);
    EXPECT_INT(verdict(SYS_setsockopt, 3, 6 /* TCP */, 1), 0);
    EXPECT_INT(verdict(SYS_setsockopt, 3, 0, 2 /* IP_TTL */), 0);
    EXPECT_INT(verdict(SYS_setsockopt, 3, 41, 67 /* IPV6_TCLASS */), 0);
    for (int level = 0; level <= 41; level += 41) {
        EXPECT_INT(verdict(SYS_setsockopt, 3, (uint64_t)level, 64 /* replace a table */), EPERM);
        EXPECT_INT(verdict(SYS_setsockopt, 3, (uint64_t)level, 65), EPERM);
        EXPECT_INT(verdict(SYS_setsockopt, 3, (uint64_t)level, 128 /* ebtables */), EPERM);
        EXPECT_INT(verdict(SYS_setsockopt, 3, (uint64_t)level, 200 /* MRT_INIT */), EPERM);
    }
    nests = false;
    EXPECT_INT(verdict(SYS_setsockopt, 3, 0, 64), 0); /* nobody has the right */
    EXPECT_INT(verdict(SYS_ioctl, 3, 0x89a0, 0), 0);
    EXPECT_INT(verdict(SYS_unshare, CLONE_NEWUSER, 0, 0), EPERM);
}

TEST(seccomp_of_a_box_that_nests_lets_init_alone_make_sockets_of_rtnetlink)
{
    struct seccomp_program p = *seccomp_program(true);
    struct seccomp_data d = { .nr = SYS_socket, .arch = (uint32_t)HERE, .args = { AF_NETLINK, 3, 0 } };
    int steps;

    for (unsigned i = 0; i < BOOT_PASS_WORDS; i++)
        p.insns[p.pass_at[i]].k = i + 1;
    for (unsigned i = 0; i < BOOT_PASS_WORDS; i++) {
        EXPECT_INT(run_program(&p, &d, &steps), SECCOMP_RET_USER_NOTIF);
        d.args[3 + i / 2] |= (uint64_t)(i + 1) << (i % 2 ? 32 : 0);
    }
    EXPECT_INT(run_program(&p, &d, &steps), SECCOMP_RET_ALLOW);
    d.args[2] = 12;
    EXPECT_INT(run_program(&p, &d, &steps), SECCOMP_RET_ERRNO | EPROTONOSUPPORT);
}

TEST(seccomp_knows_one_architecture)
{
    int steps;
    struct seccomp_data d = { .nr = 4, .arch = AUDIT_ARCH_I386 };
    EXPECT_INT(run(&d, &steps), SECCOMP_RET_ERRNO | ENOSYS);
    d = (struct seccomp_data){ .nr = 0x40000000 | SYS_read, .arch = (uint32_t)HERE }; /* x32 */
    EXPECT_INT(run(&d, &steps), SECCOMP_RET_ERRNO | ENOSYS);
    d = (struct seccomp_data){ .nr = -1, .arch = (uint32_t)HERE };
    EXPECT_INT(run(&d, &steps), SECCOMP_RET_ERRNO | ENOSYS);
}

TEST(seccomp_is_short_for_every_call)
{
    int worst = 0;
    nests = true; /* the longer one */
    for (int nr = 0; nr <= SECCOMP_NEWEST + 1; nr++) {
        struct seccomp_data d = { .nr = nr, .arch = (uint32_t)HERE };
        int steps;
        EXPECT_TRUE(run(&d, &steps) != 0xdead);
        worst = steps > worst ? steps : worst;
    }
    EXPECT_TRUE(worst <= 20);
    EXPECT_TRUE(seccomp_program(nests)->count <= 200); /* a conditional jump goes 255 far */
    nests = false;
}
