#include "isolate/step.h"

#include <errno.h>

#include "base/err.h"

static int fail_at;

void step_fail_at(int n)
{
    fail_at = n;
}

int step_failing(void)
{
    return fail_at;
}

int step_reach(enum step s, struct err *e)
{
    if (fail_at == 0 || fail_at != (int)s)
        return 0;
    errno = EIO;
    return err_sys(e, "injected failure at step %d", (int)s);
}
