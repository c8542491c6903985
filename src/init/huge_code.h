/* This program's own code in one huge page, for who forks many copies of itself. The pages of a file are not given to a
 * fork: it meets each piece of code with a page fault of its own, some twenty until a box is ready, and a quarter of a
 * millisecond on machines where a fault is dear. A huge page of anonymous memory is given on with one entry of a page
 * table, and all copies share it. */
#pragma once

void huge_code(void); /* where the kernel has no huge page for it, all stays as it is */
