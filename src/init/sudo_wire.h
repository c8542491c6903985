/* What a sudo client sends to init: one packet with this head, argc + envc strings ended by NUL, and four descriptors
 * (stdin, stdout, stderr, directory). Then single bytes: signals to pass on. Init answers the status of waitpid(). */
#pragma once

#include <stdint.h>

#include "wire/boot.h"

#define SUDO_SOCKET BOX_RUN_DIR "/sudo"
enum { SUDO_REQUEST_MAX = 160 * 1024 };

struct sudo_request {
    uint32_t argc, envc;
    uint32_t as_user; /* 1: as the box's user, else root */
    uint32_t umask;
};
