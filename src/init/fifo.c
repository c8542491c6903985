#include "init/fifo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "wire/boot.h"

enum { PIPE_BIG = 1 << 20, PIPE_USUAL = 1 << 16 };

static int reopen(struct fifo *f, struct err *e)
{
    struct stat st;

    f->fd = open(f->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (f->fd < 0)
        return err_sys(e, "open %s", f->path);
    if (fstat(f->fd, &st) == 0) {
        f->dev = st.st_dev;
        f->ino = st.st_ino;
    }
    f->big = false;
    return 0;
}

int fifo_renew(struct fifo *f, struct err *e)
{
    fifo_close(f);
    (void)unlink(f->path);
    if (mkfifo(f->path, 0600) < 0)
        return err_sys(e, "make %s", f->path);
    if (chown(f->path, BOX_UID, BOX_GID) < 0)
        return err_sys(e, "chown %s", f->path);
    return reopen(f, e);
}

int fifo_open(struct fifo *f, const char *dir, const char *name, struct err *e)
{
    *f = (struct fifo){ .fd = -1 };
    snprintf(f->path, sizeof f->path, "%s/%s", dir, name);
    return fifo_renew(f, e);
}

void fifo_close(struct fifo *f)
{
    if (f->fd >= 0)
        close(TAKE_FD(f->fd));
}

void fifo_grow(struct fifo *f)
{
    if (!f->big)
        (void)fcntl(f->fd, F_SETPIPE_SZ, PIPE_BIG);
    f->big = true;
}

void fifo_shrink(struct fifo *f)
{
    if (f->big)
        (void)fcntl(f->fd, F_SETPIPE_SZ, PIPE_USUAL);
    f->big = false;
}

int fifo_part(struct fifo *f, struct err *e)
{
    auto_close int reader = open(f->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (reader < 0)
        return -1;

    fifo_close(f); /* now the only writers are others */
    struct pollfd p = { .fd = reader, .events = POLLIN };
    (void)poll(&p, 1, 0);
    if (p.revents & POLLHUP) {
        (void)reopen(f, e);
        return -1;
    }
    (void)fifo_renew(f, e);
    return TAKE_FD(reader);
}
