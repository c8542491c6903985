/* What init and serve say to each other over a descriptor that a DIAL of something kept by init gave: a terminal.
 * Messages with this head, both ways; what init says is hostile.
 *
 *   init -> serve  HELLO   struct view_hello, first
 *                  OUTPUT  bytes; at: offset of the first one in all that the terminal ever wrote. A jump in `at` means
 *                          that the bytes between are gone
 *                  ERRORS  the same for a program's stderr
 *                  SIZE    struct view_size: somebody resized it
 *                  EXIT    at: exit status of its program (128 + signal); the last message
 *   serve -> init  INPUT   bytes
 *                  RESIZE  struct view_size */
#pragma once

#include <stdint.h>

enum view_type { VIEW_HELLO = 1, VIEW_OUTPUT, VIEW_SIZE, VIEW_EXIT, VIEW_INPUT, VIEW_RESIZE, VIEW_ERRORS };

enum { VIEW_MAX = 64 * 1024 }; /* bytes of one message */

struct view_head {
    uint32_t size; /* of what follows */
    uint32_t type;
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
