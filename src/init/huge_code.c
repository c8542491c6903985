#include "init/huge_code.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

enum { HUGE = 2 * 1024 * 1024 };

static size_t whole_pages(size_t n)
{
    return (n + HUGE - 1) / HUGE * HUGE;
}

/* The segment with the code: how many of its bytes there are, if the huge pages that it would lie in are its own; else 0. */
static size_t find_code(uintptr_t *ret_at)
{
    const ElfW(Phdr) *all = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    const ElfW(Phdr) *code = NULL;
    size_t count = all ? getauxval(AT_PHNUM) : 0;

    for (size_t i = 0; i < count; i++)
        if (all[i].p_type == PT_LOAD && all[i].p_flags & PF_X)
            code = &all[i];
    if (!code || code->p_vaddr % HUGE)
        return 0;
    if ((uintptr_t)huge_code - code->p_vaddr >= code->p_memsz)
        return 0; /* it was not loaded where it was linked to: a compiler made it relocatable */
    for (size_t i = 0; i < count; i++)
        if (all[i].p_type == PT_LOAD && &all[i] != code && all[i].p_vaddr < code->p_vaddr + whole_pages(code->p_memsz))
            return 0; /* the linker puts the rest behind it */
    *ret_at = code->p_vaddr;
    return code->p_memsz;
}

static bool is_huge(const char *area, size_t size)
{
    FILE *f = fopen("/proc/self/smaps", "re");
    char line[512];
    bool here = false;
    size_t kb = 0;

    while (f && fgets(line, sizeof line, f)) {
        uintptr_t from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = from <= (uintptr_t)area && (uintptr_t)area < to;
        else if (here && sscanf(line, "AnonHugePages: %zu kB", &kb) == 1)
            break;
    }
    if (f)
        fclose(f);
    return kb * 1024 >= size;
}

void huge_code(void)
{
    uintptr_t at = 0;
    size_t used = find_code(&at), size = whole_pages(used);

    if (!used)
        return;
    char *area = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        return;
    char *copy = area + (HUGE - (uintptr_t)area % HUGE) % HUGE;
    (void)madvise(copy, size, MADV_HUGEPAGE);
    memcpy(copy, (const void *)at, used);
    /* The same bytes at the same place: it does not matter where in here we are. */
    if (is_huge(copy, size) && mprotect(copy, size, PROT_READ | PROT_EXEC) == 0)
        (void)mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)at);
    (void)munmap(area, size + HUGE); /* what is left of it */
}
