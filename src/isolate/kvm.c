#include "isolate/kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/auto.h"
#include "base/loop.h"

#if defined(__x86_64__)

enum { LIMIT_US = 5000, START = 0x1000, PAGE = 4096 };

/* real mode: mov ecx, 100000; l: dec ecx; jnz l; hlt */
static const unsigned char loop_code[] = { 0x66, 0xb9, 0xa0, 0x86, 0x01, 0x00, 0x66, 0x49, 0x75, 0xfc, 0xf4 };

static int guest(int vm, void *memory, int *ret_cpu)
{
    struct kvm_userspace_memory_region region = { .guest_phys_addr = START,
                                                  .memory_size = PAGE,
                                                  .userspace_addr = (uint64_t)(uintptr_t)memory };
    struct kvm_sregs sregs;
    struct kvm_regs regs = { .rip = START, .rflags = 2 };

    memcpy(memory, loop_code, sizeof loop_code);
    if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
        return -1;
    int cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
    if (cpu < 0)
        return -1;
    *ret_cpu = cpu;
    if (ioctl(cpu, KVM_GET_SREGS, &sregs) < 0)
        return -1;
    sregs.cs.base = 0;
    sregs.cs.selector = 0;
    return ioctl(cpu, KVM_SET_SREGS, &sregs) < 0 || ioctl(cpu, KVM_SET_REGS, &regs) < 0 ? -1 : 0;
}

static int64_t time_run(int kvm, int cpu)
{
    int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    struct kvm_run *run = size <= 0 ? MAP_FAILED : mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
    if (run == MAP_FAILED)
        return -1;
    int64_t from = now_us();
    int r;
    do {
        r = ioctl(cpu, KVM_RUN, 0);
    } while (r < 0 && errno == EINTR && now_us() - from < 1000000);
    int64_t took = r == 0 && run->exit_reason == KVM_EXIT_HLT ? now_us() - from : -1;
    munmap(run, (size_t)size);
    return took;
}

bool kvm_works(char *detail, size_t size)
{
    auto_close int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (kvm < 0) {
        snprintf(detail, size, "/dev/kvm: %s", strerror(errno));
        return false;
    }
    auto_close int vm = ioctl(kvm, KVM_CREATE_VM, 0), cpu = -1;
    void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t took = -1;
    if (vm >= 0 && memory != MAP_FAILED && guest(vm, memory, &cpu) == 0)
        took = time_run(kvm, cpu);
    if (memory != MAP_FAILED)
        munmap(memory, PAGE);
    if (took < 0)
        snprintf(detail, size, "a guest does not run: %s", strerror(errno));
    else
        snprintf(detail, size, "200000 instructions in %lld us%s", (long long)took,
                 took >= LIMIT_US ? ": a software back end" : "");
    return took >= 0 && took < LIMIT_US;
}

#else

bool kvm_works(char *detail, size_t size)
{
    auto_close int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    snprintf(detail, size, kvm < 0 ? "/dev/kvm: %s" : "/dev/kvm opens; not tried on this architecture%.0s",
             strerror(errno));
    return false;
}

#endif
