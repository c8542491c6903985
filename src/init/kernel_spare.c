/* Where the next kernel of a box comes from, as init sees it: a fork server, or one that waits for its session. */
#include "init/init.h"
#include "init/kernel.h"
#include "init/script.h"

void kernel_ahead(struct init *in)
{
    struct err e;

    if (in->boot.fork_python)
        pyserver_need(in, PYSERVER_KERNEL);
    else if (scripts_write(&e) >= 0)
        driver_spare(in, &jupyter_kind);
}

bool kernel_may_wait(const struct init *in, struct str name)
{
    return !in->boot.fork_python && (!name.n || str_is(name, "python3") || str_is(name, "python"));
}
