/* What only the kernel's own list of sockets tells. */
#pragma once

/* The inode of the unix socket that this one is connected to. 0: none, not a unix socket, of another network namespace, or
 * this kernel does not tell. */
unsigned socket_other_end(unsigned ino);
