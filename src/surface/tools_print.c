#include "surface/surface.h"

const char *kind_name(enum backend_kind k)
{
    switch (k) {
    case KIND_SESSION: return "session";
    case KIND_SHARED: return "shared";
    case KIND_HYBRID: return "hybrid";
    case KIND_STATELESS: return "stateless";
    }
    return "stateless";
}

void tool_flags_print(const struct tool *t, struct jw *w)
{
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {
        { TOOL_READ_ONLY, "read_only" },   { TOOL_NEEDS_BOX | TOOL_ON_BOX, "needs_box" },
        { TOOL_IDEMPOTENT, "idempotent" }, { TOOL_PARALLEL, "parallel" },
        { TOOL_HIDDEN, "hidden" },
    };

    jw_key(w, "flags");
    jw_arr(w);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (t->flags & names[i].bit)
            jw_z(w, names[i].name);
    jw_arr_end(w);
}
