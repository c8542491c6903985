#include "isolate/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

uint64_t caps_kept(void)
{
    static const unsigned char kept[] = {
        CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,           CAP_FSETID,     CAP_KILL,       CAP_SETGID,
        CAP_SETUID, CAP_SETPCAP,      CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_SYS_PTRACE, CAP_AUDIT_WRITE,
    };
    uint64_t set = 0;

    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        set |= 1ULL << kept[i];
    return set;
}

int caps_bound(struct err *e)
{
    uint64_t keep = caps_kept();

    /* The kernel may know capabilities that we do not; EINVAL tells where its list ends. */
    for (int cap = 0; cap < 64; cap++) {
        if (keep & (1ULL << cap))
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            if (errno == EINVAL && cap > CAP_AUDIT_READ)
                break;
            return err_sys(e, "drop capability %d", cap);
        }
    }
    return 0;
}

int caps_drop(struct err *e)
{
    uint64_t keep = caps_kept();
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = {
        { .effective = (uint32_t)keep, .permitted = (uint32_t)keep },
        { .effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32) },
    };
    if (syscall(SYS_capset, &head, data) < 0)
        return err_sys(e, "capset");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return err_sys(e, "clear ambient capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, "set no_new_privs");
    return 0;
}
