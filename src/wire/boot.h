/* What supervise tells init: as the last word to its first process (isolate/child.h), or, to an init that others have
 * put into a root, a struct read from BOOT_FD_CONFIG. No other descriptors are there. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    BOOT_FD_CONFIG = 3, /* struct boot, to be read and closed */
    BOOT_FD_LISTEN = 4, /* listening unix stream socket on which serve connects */
    BOOT_FD_READY = 5,  /* init writes one byte when a call could be answered at once, then closes it */
    BOOT_FD_ASKED = 6,  /* boot.asked: who wants a socket of rtnetlink (init/rtnetlink.h) */
};

enum { BOOT_VERSION = 8, BOX_UID = 1000, BOX_GID = 1000 };

/* With it, in arguments that socket() does not have, init alone passes the filter of a box that nests. */
enum { BOOT_PASS_WORDS = 6 };
struct boot_pass {
    uint32_t words[BOOT_PASS_WORDS]; /* halves of the fourth to the sixth argument, the lower one first */
};

/* What a server's administrator set for all its boxes; "": as usual */
struct boot_habits {
    char workspace[256]; /* where tools begin, instead of BOX_HOME */
    char timezone[48];   /* unless a profile names one */
    char browser_args[1024], homepage[512], dns_over_https[512];
    int32_t browser_record; /* pictures of the page in the log: 0 none, 1 after each action, 2 before it too */
    int64_t screen_width, screen_height; /* of the desktop */
    bool browser_headed;                 /* the browser has a window on it */
};

struct boot {
    uint32_t version;
    bool sudo;          /* serve requests on /run/sandglass/sudo */
    bool warm_shell;    /* start the default shell before READY */
    bool warm_hand;     /* start a process for file work and programs after READY: a call is about to come */
    bool warm_context;  /* have a Python context wait */
    bool warm_kernel;   /* have a Jupyter kernel wait, or what it is forked from */
    bool fork_python;   /* contexts with preloaded modules, and kernels, are forks: init/pyserver.h */
    bool warm_browser;  /* start the browser after READY */
    char preload[256];  /* modules that these import, separated by commas */
    int64_t open_files; /* RLIMIT_NOFILE of started programs */
    int64_t orphan_ms;  /* end the box if nobody was connected for so long */
    int64_t memory_bytes;
    /* what every program is started with, if the box has a profile; "": not set */
    char locale[32], timezone[48], hash_seed[16];
    bool fake_clock;
    int64_t clock_offset_us;
    struct boot_habits habits;
    bool asked; /* by isolate/child.c: BOOT_FD_ASKED is there, and this is its pass */
    struct boot_pass pass;
};

/* Paths inside every box */
#define BOX_HOME              "/home/gem"
#define BOX_RUN_DIR           "/run/sandglass" /* root's tmpfs: fifos of shells, socket of sudo */
#define BOX_CODE_SERVER       "/usr/local/lib/code-server/node_modules/code-server/out/node/entry.js" /* make code-server */
#define BOX_JUPYTERLAB_DIR    "/usr/local/lib/jupyterlab" /* make jupyterlab */
#define BOX_JUPYTERLAB        BOX_JUPYTERLAB_DIR "/bin/jupyter-lab"
#define BOX_JUPYTERLAB_PYTHON BOX_JUPYTERLAB_DIR "/bin/python3"
#define BOX_SCREEN            BOX_RUN_DIR "/user/rfb" /* RFB of the box's desktop: init/desktop.h */
/* where a library that shifts the wall clock may be: Debian's libfaketime */
#define BOX_FAKETIME                                                                                                   \
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",     \
        "/usr/lib/faketime/libfaketime.so.1"
#define BOX_PATH "/home/gem/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"
