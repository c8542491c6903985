/* MCP tools under names that other sandboxes gave them: AIO Sandbox's own, those of its documentation, and knowlyr's.
 * Each is one row: its parameters, the tool of our table that does it, and how the one is said in the other's words. */
#pragma once

#include "surface/mcp.h"

struct mcp_alias {
    const char *profile; /* "aio" */
    const char *name;
    const char *title, *help;
    const struct field *in;
    size_t in_size;
    const char *tool; /* "bash:run"; NULL: run() does it all */
    bool reads;
    /* Writes the members of the tool's parameters. False: it answered by itself. Nullable: in's names are the tool's.
     */
    bool (*ask)(struct exchange *x, const void *in, struct jw *params);
    /* Writes the text of the answer. Nullable: as any tool's result. */
    void (*print)(struct exchange *x, const struct call *c, const struct json *data, struct buf *text);
    void (*run)(struct exchange *x, const void *in);
};

extern const struct mcp_alias mcp_aio[], mcp_aio_page[], mcp_knowlyr[]; /* end with a zeroed row */

void mcp_alias_print(struct exchange *x, struct jw *w); /* the rows of the exchange's profile, for tools/list */
/* profile NULL: any. False: there is no such row. */
bool mcp_alias_call(struct exchange *x, struct str name, const struct json *arguments, const char *profile);
