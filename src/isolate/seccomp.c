#include "isolate/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "no seccomp table for this architecture"
#endif

enum act {
    ACT_ALLOW,
    ACT_EPERM,
    ACT_ENOSYS,
    ACT_NO_NAMESPACES, /* EPERM if the first argument asks for one */
    ACT_PERSONALITY,
    ACT_SOCKET,
    ACT_IOCTL,
    ACT_SETSOCKOPT, /* of boxes that nest only */
};

struct rule {
    int nr;
    enum act act;
};

/* Numbers that are the same on every architecture, newer than the headers of older systems */
enum { NR_STATMOUNT = 457, NR_LISTMOUNT = 458, NR_LSM_SET_SELF_ATTR = 460 };

#define NESTED     (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET) /* what Chromium's sandbox is made of */
#define NAMESPACES (NESTED | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP | 0x80 /* time */)

static const struct rule rules[] = {
    /* mounts: a box has no rights to them, but the code behind them has had holes for those who had none */
    { SYS_mount, ACT_EPERM },
    { SYS_umount2, ACT_EPERM },
    { SYS_fsopen, ACT_EPERM },
    { SYS_fsconfig, ACT_EPERM },
    { SYS_fsmount, ACT_EPERM },
    { SYS_fspick, ACT_EPERM },
    { SYS_move_mount, ACT_EPERM },
    { SYS_open_tree, ACT_EPERM },
    { SYS_mount_setattr, ACT_EPERM },
    { SYS_pivot_root, ACT_EPERM },
    { NR_STATMOUNT, ACT_ENOSYS }, /* would tell the host's paths of the layers */
    { NR_LISTMOUNT, ACT_ENOSYS },
    /* namespaces: clone3 hides its flags in memory, where a filter cannot look; libraries fall back to clone on ENOSYS
     */
    { SYS_clone3, ACT_ENOSYS },
    { SYS_clone, ACT_NO_NAMESPACES },
    { SYS_unshare, ACT_NO_NAMESPACES },
    { SYS_setns, ACT_EPERM },
    /* kernel surface */
    { SYS_bpf, ACT_EPERM },
    { SYS_perf_event_open, ACT_EPERM },
    { SYS_keyctl, ACT_EPERM }, /* keyrings are not namespaced by anything we could give a box */
    { SYS_add_key, ACT_EPERM },
    { SYS_request_key, ACT_EPERM },
    { SYS_userfaultfd, ACT_EPERM },
    { SYS_io_uring_setup, ACT_EPERM }, /* its operations pass no filter */
    { SYS_io_uring_enter, ACT_EPERM },
    { SYS_io_uring_register, ACT_EPERM },
    { SYS_io_setup, ACT_ENOSYS },         /* one number for the whole machine, fs.aio-max-nr: a box could use it up */
    { SYS_open_by_handle_at, ACT_EPERM }, /* opens any inode of a file system, whatever is mounted where */
    { SYS_name_to_handle_at, ACT_EPERM },
    { SYS_fanotify_init, ACT_EPERM },
    { SYS_lookup_dcookie, ACT_EPERM },
    { SYS_kcmp, ACT_EPERM },
    { SYS_syslog, ACT_EPERM },
    { SYS_vhangup, ACT_EPERM },
    { NR_LSM_SET_SELF_ATTR, ACT_EPERM },
    { SYS_nfsservctl, ACT_EPERM },
    /* the machine */
    { SYS_kexec_load, ACT_EPERM },
    { SYS_kexec_file_load, ACT_EPERM },
    { SYS_init_module, ACT_EPERM },
    { SYS_finit_module, ACT_EPERM },
    { SYS_delete_module, ACT_EPERM },
    { SYS_reboot, ACT_EPERM },
    { SYS_swapon, ACT_EPERM },
    { SYS_swapoff, ACT_EPERM },
    { SYS_acct, ACT_EPERM },
    { SYS_quotactl, ACT_EPERM },
    { SYS_quotactl_fd, ACT_EPERM },
    { SYS_settimeofday, ACT_EPERM },
    { SYS_clock_settime, ACT_EPERM },
    { SYS_clock_adjtime, ACT_EPERM },
    { SYS_adjtimex, ACT_EPERM },
    { SYS_sethostname, ACT_EPERM },
    { SYS_setdomainname, ACT_EPERM },
#if defined(__x86_64__)
    { SYS_create_module, ACT_EPERM },
    { SYS_get_kernel_syms, ACT_EPERM },
    { SYS_query_module, ACT_EPERM },
    { SYS_iopl, ACT_EPERM },
    { SYS_ioperm, ACT_EPERM },
    { SYS_modify_ldt, ACT_EPERM },
    { SYS_uselib, ACT_EPERM },
    { SYS__sysctl, ACT_EPERM },
#endif
    /* by argument */
    { SYS_personality, ACT_PERSONALITY },
    { SYS_socket, ACT_SOCKET },
    { SYS_ioctl, ACT_IOCTL },
    { SYS_setsockopt, ACT_SETSOCKOPT },
};

static const uint32_t personalities[] = { 0, 0xffffffff, 0x0040000 /* ADDR_NO_RANDOMIZE: gdb, sanitizers */ };
static const uint32_t families[] = { AF_UNIX, AF_INET, AF_INET6 };
/* The first is not for boxes that nest: traffic control is behind it, too, for who has rights over a network. Init asks for it
 * in the name of others, and gives them one of the box's own network. */
static const uint32_t netlinks[] = { 0 /* ROUTE: getifaddrs */, 4 /* SOCK_DIAG: ss */, 15 /* UEVENT: libudev */ };
static const uint32_t ioctls[] = { TIOCSTI /* types into another's terminal */, TIOCLINUX /* pastes into a console */ };
/* Levels of setsockopt, and what they have for packet filters and multicast routing: ip_tables, ip6_tables, arp_tables and
 * ebtables, MRT; all else that they have is below. */
static const uint32_t ip_levels[] = { 0 /* IPv4 */, 41 /* IPv6 */ }, ip_tables[] = { 64, 65 };
enum { IP_OPTIONS_END = 96 };
/* ioctls of sockets that make links: VLANs, bonds, bridges, tunnels; those of drivers */
enum { LINKS_BEGIN = 0x8980, LINKS_END = 0x8a00 };

static void emit(struct seccomp_program *p, struct sock_filter f)
{
    if (p->count == SECCOMP_MAX_INSNS)
        abort();
    p->insns[p->count++] = f;
}

static void emit_ret(struct seccomp_program *p, uint32_t what)
{
    emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

static void emit_load(struct seccomp_program *p, size_t offset)
{
    emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* Low half of an argument. The arguments that we look at are 32 bits wide for the kernel, too, except clone's
 * flags, whose upper half it ignores. */
static void emit_arg(struct seccomp_program *p, int i)
{
    emit_load(p, offsetof(struct seccomp_data, args) + (size_t)i * 8);
}

/* The socket is init's own making: it shows the pass. Anybody else waits until init answers. */
static void emit_pass(struct seccomp_program *p)
{
    enum { EACH = 2 }; /* instructions */
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, netlinks[0], 0, BOOT_PASS_WORDS * EACH + 2));
    for (unsigned i = 0; i < BOOT_PASS_WORDS; i++) {
        emit_load(p, offsetof(struct seccomp_data, args) + 3 * 8 + i * 4);
        p->pass_at[i] = p->count;
        emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0,
                                             (uint8_t)((BOOT_PASS_WORDS - 1 - i) * EACH + 1)));
    }
    emit_ret(p, SECCOMP_RET_ALLOW);
    emit_ret(p, SECCOMP_RET_USER_NOTIF);
}

static uint32_t error(int n)
{
    return SECCOMP_RET_ERRNO | (uint32_t)n;
}

/* if the accumulator is in values: return hit. Falls through otherwise. */
static void emit_in(struct seccomp_program *p, const uint32_t *values, size_t n, uint32_t hit)
{
    for (size_t i = 0; i < n; i++) {
        emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, values[i], 0, 1));
        emit_ret(p, hit);
    }
}

static void emit_leaf(struct seccomp_program *p, enum act act)
{
    switch (act) {
    case ACT_ALLOW: emit_ret(p, SECCOMP_RET_ALLOW); return;
    case ACT_EPERM: emit_ret(p, error(EPERM)); return;
    case ACT_ENOSYS: emit_ret(p, error(ENOSYS)); return;
    case ACT_NO_NAMESPACES:
        emit_arg(p, 0);
        emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, p->nests ? NAMESPACES & ~NESTED : NAMESPACES,
                                             0, 1));
        emit_ret(p, error(EPERM));
        emit_ret(p, SECCOMP_RET_ALLOW);
        return;
    case ACT_PERSONALITY:
        emit_arg(p, 0);
        emit_in(p, personalities, ARRAY_LEN(personalities), SECCOMP_RET_ALLOW);
        emit_ret(p, error(EPERM));
        return;
    case ACT_SOCKET:
        emit_arg(p, 0);
        emit_in(p, families, ARRAY_LEN(families), SECCOMP_RET_ALLOW);
        emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 1, 0));
        emit_ret(p, error(EAFNOSUPPORT));
        emit_arg(p, 2);
        if (p->nests)
            emit_pass(p);
        emit_in(p, netlinks + p->nests, ARRAY_LEN(netlinks) - p->nests, SECCOMP_RET_ALLOW);
        emit_ret(p, error(EPROTONOSUPPORT));
        return;
    case ACT_IOCTL:
        emit_arg(p, 1);
        emit_in(p, ioctls, ARRAY_LEN(ioctls), error(EPERM));
        if (p->nests) {
            emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, LINKS_BEGIN, 0, 2));
            emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, LINKS_END, 1, 0));
            emit_ret(p, error(EPERM));
        }
        emit_ret(p, SECCOMP_RET_ALLOW);
        return;
    case ACT_SETSOCKOPT:
        emit_arg(p, 1);
        emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ip_levels[0], 2, 0));
        emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ip_levels[1], 1, 0));
        emit_ret(p, SECCOMP_RET_ALLOW);
        emit_arg(p, 2);
        emit_in(p, ip_tables, ARRAY_LEN(ip_tables), error(EPERM));
        emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, IP_OPTIONS_END, 0, 1));
        emit_ret(p, error(EPERM));
        emit_ret(p, SECCOMP_RET_ALLOW);
        return;
    }
    abort();
}

/* Where a branch goes to one of the plain answers, which stand once, behind the tree. */
struct fix {
    uint16_t insn;
    bool taken; /* the branch of a condition that holds */
    enum act act;
};

struct tree {
    struct seccomp_program *p;
    struct fix fixes[2 * ARRAY_LEN(rules) + 4];
    size_t fix_count;
};

static void reach(struct seccomp_program *p, size_t from, bool taken, size_t to)
{
    size_t distance = to - from - 1;
    if (distance > UINT8_MAX)
        abort(); /* a conditional jump goes no further; the unit test tells it before anybody else */
    if (taken)
        p->insns[from].jt = (uint8_t)distance;
    else
        p->insns[from].jf = (uint8_t)distance;
}

/* Binary search over runs of numbers with one action: about 7 comparisons for any call, where a list takes 70. Short
 * for its own sake, too: the kernel translates it, and tries it with every number, for each box that is made.
 * The accumulator holds the number; only leaves overwrite it. */
static void emit_tree(struct tree *t, const struct rule *runs, size_t n)
{
    struct seccomp_program *p = t->p;

    if (n == 1) {
        emit_leaf(p, runs[0].act);
        return;
    }
    size_t mid = n / 2, jump = p->count;
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)runs[mid].nr, 0, 0));
    for (int side = 0; side < 2; side++) {
        const struct rule *part = side ? runs + mid : runs;
        size_t count = side ? n - mid : mid;
        if (count == 1 && part->act < ACT_NO_NAMESPACES) {
            t->fixes[t->fix_count++] = (struct fix){ (uint16_t)jump, side != 0, part->act };
            continue;
        }
        reach(p, jump, side != 0, p->count);
        emit_tree(t, part, count);
    }
}

static void emit_answers(struct tree *t)
{
    for (enum act act = ACT_ALLOW; act < ACT_NO_NAMESPACES; act++) {
        for (size_t i = 0; i < t->fix_count; i++)
            if (t->fixes[i].act == act)
                reach(t->p, t->fixes[i].insn, t->fixes[i].taken, t->p->count);
        emit_leaf(t->p, act);
    }
}

static int by_nr(const void *a, const void *b)
{
    return ((const struct rule *)a)->nr - ((const struct rule *)b)->nr;
}

static void build(struct seccomp_program *p)
{
    struct rule sorted[ARRAY_LEN(rules)], runs[2 * ARRAY_LEN(rules) + 2];
    size_t n = 0, count = 0;

    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        if (p->nests || rules[i].act != ACT_SETSOCKOPT)
            sorted[count++] = rules[i];
    qsort(sorted, count, sizeof sorted[0], by_nr);

    runs[n++] = (struct rule){ 0, ACT_ALLOW };
    for (size_t i = 0; i < count; i++) {
        if (runs[n - 1].nr == sorted[i].nr)
            n--; /* the gap before it is empty */
        if (n == 0 || runs[n - 1].act != sorted[i].act || sorted[i].act >= ACT_NO_NAMESPACES)
            runs[n++] = sorted[i];
        runs[n++] = (struct rule){ sorted[i].nr + 1, ACT_ALLOW };
    }
    runs[n++] = (struct rule){ SECCOMP_NEWEST + 1, ACT_ENOSYS };

    emit_load(p, offsetof(struct seccomp_data, arch));
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
    /* 32-bit calls have other numbers: not one rule would hold. Killing would take down 32-bit programs that
     * only probe; they see a kernel without that ABI. x32 numbers are above the newest and end as ENOSYS. */
    emit_ret(p, error(ENOSYS));
    emit_load(p, offsetof(struct seccomp_data, nr));
    struct tree t = { .p = p };
    emit_tree(&t, runs, n);
    emit_answers(&t);
}

const struct seccomp_program *seccomp_program(bool nests)
{
    static struct seccomp_program programs[2] = { { .nests = false }, { .nests = true } };
    struct seccomp_program *p = &programs[nests];

    if (p->count == 0)
        build(p);
    return p;
}

int seccomp_load(const struct boot_pass *pass, int *ret_asked, struct err *e)
{
    const struct seccomp_program *p = seccomp_program(pass != NULL);
    struct sock_filter own[SECCOMP_MAX_INSNS];
    struct sock_fprog prog = { .len = p->count, .filter = own };

    memcpy(own, p->insns, p->count * sizeof own[0]);
    for (int i = 0; pass && i < BOOT_PASS_WORDS; i++)
        own[p->pass_at[i]].k = pass->words[i];
    long fd = pass ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog) : -1;
    if (fd < 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
        return err_sys(e, "load the system-call filter");
    if (ret_asked)
        *ret_asked = (int)fd;
    return 0;
}
