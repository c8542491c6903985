/* What init and serve say to each other over a descriptor that a DIAL of something kept by init gave: all terminals
 * that somebody looks at ("views"), or the output of one command. Messages with this head, both ways; what init says is
 * hostile.
 *
 *   serve -> init  OPEN    struct view_size (zeros: as it is), then the terminal's name; at: the first byte of its
 *                          output that is wanted, < 0: so many from its end
 *                  INPUT   bytes
 *                  RESIZE  struct view_size
 *                  TAKEN   at: so many more bytes are wanted; see VIEW_WINDOW
 *                  CLOSE   nobody looks any more
 *   init -> serve  HELLO   struct view_hello, first
 *                  OUTPUT  bytes; at: offset of the first one in all that the terminal ever wrote. A jump in `at` means
 *                          that the bytes between are gone
 *                  ERRORS  the same for a program's stderr
 *                  SIZE    struct view_size: somebody resized it
 *                  DROPPED at: so many bytes of INPUT were not taken, for too many wait for the program to read
 *                  EXIT    at: exit status of its program (128 + signal); the last message
 *                  REFUSED at: enum err_code, and why: there is no such terminal, or no shell for it; the last message
 *
 * One stream carries all views of a box, for each message costs a sender and a receiver a system call, and often a
 * switch between them; so what is to be said to many goes out together. A view is named by its id, which serve gives,
 * and which is not given twice: its last VIEW_SLOT_BITS are a place in a table. Messages of a view that has ended may
 * still be on their way, and are ignored. The stream of a command has one view, 0, and neither OPEN nor TAKEN. */
#pragma once

#include <stdint.h>

enum view_type {
    VIEW_HELLO = 1,
    VIEW_OUTPUT,
    VIEW_SIZE,
    VIEW_EXIT,
    VIEW_INPUT,
    VIEW_RESIZE,
    VIEW_ERRORS,
    VIEW_OPEN,
    VIEW_TAKEN,
    VIEW_CLOSE,
    VIEW_REFUSED,
    VIEW_DROPPED,
};

enum {
    VIEW_MAX = 64 * 1024, /* bytes of one message */
    /* Bytes for a view that were not TAKEN yet, heads and all, for each message becomes one to its client: a view that
     * stands still neither holds up others nor has serve keep much. There is always room for the last message. */
    VIEW_WINDOW = 128 * 1024,
    VIEW_SLOT_BITS = 16,
};

struct view_head {
    uint32_t size; /* of what follows */
    uint32_t type;
    uint64_t view;
    int64_t at;
};
struct view_size {
    int64_t cols, rows;
};
struct view_hello {
    struct view_size size;
    int64_t pid;
    int64_t first, end; /* offsets: the oldest byte that is kept, and behind the newest */
};
