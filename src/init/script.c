#include "init/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "wire/boot.h"

/* The files are part of the program: nothing has to be installed beside it. */
#define EMBED(name, file)                                                                                              \
    __asm__(".section .rodata\n" #name ":\n.incbin \"" file "\"\n" #name "_end:\n.byte 0\n.previous\n");               \
    extern const char name[], name##_end[]

EMBED(script_python, "src/init/script/python.py");
EMBED(script_carry, "src/init/script/carry.py");
EMBED(script_node, "src/init/script/node.js");
EMBED(script_ds, "src/init/script/ds.py");
EMBED(script_jwm, "src/init/script/jwm.xml");

static int write_one(const char *path, const char *p, size_t n, struct err *e)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, p, n) != (ssize_t)n)
        return err_sys(e, "write %s", path);
    return 0;
}

int scripts_write(struct err *e)
{
    static bool done;

    if (done)
        return 0;
    if (mkdir(BOX_USER_RUN, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "make %s", BOX_USER_RUN);
    if (chown(BOX_USER_RUN, BOX_UID, BOX_GID) < 0)
        return err_sys(e, "give away %s", BOX_USER_RUN);
    int r = write_one(SCRIPT_PYTHON, script_python, (size_t)(script_python_end - script_python), e);
    if (r >= 0)
        r = write_one(SCRIPT_CARRY, script_carry, (size_t)(script_carry_end - script_carry), e);
    if (r >= 0)
        r = write_one(SCRIPT_NODE, script_node, (size_t)(script_node_end - script_node), e);
    if (r >= 0)
        r = write_one(SCRIPT_DS, script_ds, (size_t)(script_ds_end - script_ds), e);
    if (r >= 0)
        r = write_one(SCRIPT_JWM, script_jwm, (size_t)(script_jwm_end - script_jwm), e);
    done = r >= 0;
    return r;
}
