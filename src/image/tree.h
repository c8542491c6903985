/* Copying and removing of small directory trees by descriptors, for building images. */
#pragma once

#include <sys/types.h>

struct err;

int tree_write(int dir, const char *path, const char *text, mode_t mode, struct err *e);
int tree_mkdir(int dir, const char *path, mode_t mode, uid_t owner, struct err *e);
/* Copies one file, link or directory. Only what every user of the host may read is taken, setuid bits are lost;
 * links that lead out of /usr and /etc become copies of what they lead to. Missing sources are skipped. */
int tree_copy(int from, const char *name, int to, struct err *e);
int tree_copy_file(int from, const char *name, int to, const char *as, mode_t mode, struct err *e);
void tree_remove(int dir, const char *name);
/* What is made in this directory need not lie near it. ext4 looks for a free inode near the directory above, and without
 * a journal it passes by each that was set free in the last minutes: where thousands were, that takes a millisecond for
 * every new file. Marked as the top of a hierarchy, each directory in it begins in a part of the disk of its own. */
void tree_spread(const char *path);
