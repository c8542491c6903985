/* Foreign tools by their names: which of ours does the same, and with which parameters.
 *
 * A call whose name and parameters one of our tools takes as they are is left as it is. Otherwise the names of knowlyr
 * (file_read, file_write, shell, search, git), of SWE-agent (bash, str_replace_editor, submit) and their usual variants
 * are translated; what remains is kept, with `refused` saying that there is no such tool. */
#pragma once

#include "replay/trajectory.h"

struct toolmap {
    struct arena *arena;
    const char *base; /* directory that relative paths and commands start from there; NULL: as in our boxes */
    bool knowlyr;     /* the names are knowlyr's: its tools are among ours */
};

/* Sets tool, params, as_tool, as_params, refused, ends, emulated of s. args NULL: none were given. */
void toolmap_call(const struct toolmap *m, struct str name, const struct json *args, struct traj_step *s);
/* The same with arguments as text, which may be no JSON at all. */
void toolmap_text(const struct toolmap *m, struct str name, struct str args, struct traj_step *s);
bool toolmap_knows(struct str name); /* it stands in the table of foreign names */
/* A whole line of shell, as SWE-agent's actions are: its special commands are translated. */
void toolmap_shell(const struct toolmap *m, struct str line, struct traj_step *s);
