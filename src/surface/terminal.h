/* The terminal in a browser: /v1/shell/ws, /terminal and what the page is made of. */
#pragma once

#include "surface/surface.h"

extern const struct route terminal_routes[], screen_routes[];

/* web_files.c: the files that make put into the program; empty: there is none of that name. */
struct str web_file(const char *name);
struct str web_archived(struct str tar, struct str path); /* a file of an archive among them */
