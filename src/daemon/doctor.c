/* All that doctor tries: a whole box, what the kernel offers, then programs. */
#include "daemon/doctor.h"

#include "isolate/probe.h"

struct kernel {
    on_doctor_row *report;
    void *arg;
};

static void on_kernel(void *arg, const char *name, bool ok, const char *detail, const char *switches_off,
                      const char *remedy)
{
    struct kernel *k = arg;

    k->report(k->arg,
              &(struct doctor_row){
                  .group = "kernel", .name = name, .ok = ok, .detail = detail, .off = switches_off, .fix = remedy });
}

bool doctor_run(const struct config *c, on_doctor_row *report, void *arg)
{
    struct kernel k = { report, arg };
    bool boxes = doctor_box(c, report, arg);

    (void)probe_all(&(struct probe_opts){ 0 }, on_kernel, &k); /* what is really needed, the box has shown */
    bool programs = doctor_programs(report, arg);
    return boxes && programs;
}
