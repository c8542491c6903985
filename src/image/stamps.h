/* A small tree of our own, as the kernel stamped it when its contents were last looked at. Whoever changes a file, its
 * mode or its owners changes its ctime, and whoever adds, removes or replaces a name changes its directory's; nobody
 * can set one. So a tree whose stamps hold has the contents that it had. */
#pragma once

#include <stdbool.h>

struct err;
struct stamps;

/* Before the contents are read, so that a change meanwhile is seen the next time. */
struct stamps *stamps_take(const char *path, struct err *e); /* NULL: error */
/* False also if a file was changed so shortly before that another change may have the same time. */
bool stamps_hold(const struct stamps *s);
void stamps_free(struct stamps *s);
