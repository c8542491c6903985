/* run/box: the socket and the state file of each box. Both come and go with a box and mean nothing after the machine
 * has been started again, so they lie in memory where that can be had: run/box is then a link into /dev/shm. A disk's
 * file system takes up to a millisecond for each name, and one without a journal longer the more were just removed. */
#pragma once

struct err;

int box_dir_open(const char *home, struct err *e); /* a descriptor; what a former life made is found again */
void box_dir_close(const char *home, int take_fd); /* takes it away if nothing is in it */
