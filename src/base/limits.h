/* Every size, count and time that has a cap. An error that one of these causes says its name and value. */
#pragma once

#define KiB (1024L)
#define MiB (1024L * 1024L)

/* HTTP */
#define LIMIT_HTTP_HEAD        (64 * KiB)
#define LIMIT_HTTP_BODY        (64 * MiB)
#define LIMIT_HTTP_CONNECTIONS 10000
#define LIMIT_HTTP_IDLE_MS     120000
#define LIMIT_HTTP_REPLY       (256 * MiB)
#define LIMIT_HTTP_HELD        (1024 * MiB) /* of unfinished requests and unread answers, all together */

/* Access */
#define LIMIT_JWT           (8 * KiB)
#define LIMIT_JWT_KEYS      64
#define LIMIT_JWT_KEY_TEXT  (256 * KiB) /* of a PEM or JWKS file */
#define LIMIT_API_KEYS      100000
#define LIMIT_TICKET_MS     3600000
#define LIMIT_JOB_TICKET_MS 86400000 /* a replay or an export through the API may take so long */

/* JSON */
#define LIMIT_JSON_DEPTH 64
#define LIMIT_BODY_DEPTH 48 /* of a request, so that a record around it can still be read */

/* Names that clients choose */
#define LIMIT_WORKER_ID     256
#define LIMIT_KEY           256
#define LIMIT_TRAJECTORY_ID 64
#define LIMIT_TENANTS       10000
#define LIMIT_LABELS        32
#define LIMIT_LABEL         256

/* Boxes: what a client may ask for and what the configuration may say. FLOOR: the least */
#define FLOOR_BOX_MEMORY     (16 * MiB)
#define LIMIT_BOX_MEMORY     (16 * 1024 * 1024 * MiB)
#define FLOOR_BOX_DISK       (1 * MiB)
#define LIMIT_BOX_DISK       (16 * 1024 * 1024 * MiB)
#define FLOOR_BOX_SHM        (64 * KiB)
#define LIMIT_BOX_SHM        (1024 * 1024 * MiB)
#define FLOOR_BOX_CPU_MILLI  10
#define LIMIT_BOX_CPU_MILLI  1024000
#define FLOOR_BOX_PIDS       8
#define LIMIT_BOX_PIDS       4194304 /* PID_MAX_LIMIT of the kernel */
#define FLOOR_BOX_OPEN_FILES 64
#define LIMIT_BOX_OPEN_FILES 1048576 /* sysctl_nr_open of the kernel */
#define LIMIT_REPO_URL       2048
#define LIMIT_REPO_BUNDLE    (32 * MiB) /* of a repository that comes with the request */
#define LIMIT_SETUP_COMMANDS 64
#define LIMIT_ENV            1024                      /* variables of a box, and of one call */
#define LIMIT_TTL_MS         (366 * 24 * 3600 * 1000L) /* of a box, and of a session */

/* Sessions */
#define LIMIT_INIT_BATCH 64 /* resources of one init/batch */

/* Observations of boxes */
#define LIMIT_OBSERVE_SAMPLE  (256 * KiB)
#define LIMIT_OBSERVE_SAMPLES (4 * MiB) /* of one session */

/* Calls */
#define LIMIT_COMMAND           (1 * MiB)
#define LIMIT_SHELL_STATE       (512 * KiB) /* a state has of a shell; each copy's record has it, too */
#define LIMIT_PATH              4096
#define LIMIT_FILE_IO           (32 * MiB)   /* one file:read or file:write */
#define LIMIT_LIST_ENTRIES      100000       /* of one file:list, file:glob, file:find */
#define LIMIT_TREE_DEPTH        256          /* directories in directories, where a tool goes into them */
#define LIMIT_GLOB_ENTRIES      2000000      /* looked at by one pattern */
#define LIMIT_GLOB_BRACES       64           /* alternatives of one pattern */
#define LIMIT_LINE_COUNT        (1024 * MiB) /* a larger file's lines are not counted */
#define LIMIT_GREP_MATCHES      100000
#define LIMIT_GREP_LINE         (4 * KiB) /* of each line that matches */
#define LIMIT_GREP_OUTPUT       (8 * MiB)
#define LIMIT_UNDO_VERSIONS     20         /* of one edited file */
#define LIMIT_UNDO_BYTES        (32 * MiB) /* of all versions in a box */
#define LIMIT_CODE              (8 * MiB)  /* the text of one code:execute */
#define LIMIT_TIMEOUT_MS        (24 * 3600 * 1000L)
#define LIMIT_OUTPUT_HEAD       (64 * KiB) /* of each stream, in the answer */
#define LIMIT_OUTPUT_TAIL       (64 * KiB)
#define LIMIT_OUTPUT_KEPT       (16 * MiB) /* of each stream, as a blob */
#define LIMIT_CALLS_PER_BOX     64         /* under way at once */
#define LIMIT_CALLS_QUEUED      1024       /* waiting for one session */
#define LIMIT_LINK_BREAKS       16         /* of the connection to one init, in LINK_BREAKS_MS */
#define LINK_BREAKS_MS          10000
#define LIMIT_SHELLS_PER_BOX    32
#define LIMIT_JOBS_PER_BOX      256
#define LIMIT_TERMINALS_PER_BOX 64
#define LIMIT_CORE              1   /* 0 would let the host's core_pattern take it, if that is a program: core(5) */
#define LIMIT_PTYS_PER_BOX      128 /* the machine has some thousands for all boxes together (kernel.pty.max) */
#define LIMIT_TERMINAL_KEPT     (1 * MiB) /* of a terminal's output, for those who come or come back */
#define LIMIT_TERMINAL_INPUT    (1 * MiB) /* that a terminal's program has not read yet */
#define LIMIT_RUN_SESSIONS      256
#define LIMIT_HOOKS             64
#define LIMIT_WATCHERS          128         /* of one box */
#define LIMIT_WATCH_EVENTS      10000       /* kept by one watcher */
#define LIMIT_WATCH_DIRS        8192        /* of one watcher */
#define LIMIT_CONSOLE_OUTPUT    (512 * KiB) /* of each of them: its beginning and its end */
#define LIMIT_CONSOLE_RECORDS   100         /* commands that a terminal remembers */
#define LIMIT_HANDS_PER_BOX     8           /* processes that do file work in one box */
#define LIMIT_STREAM_PIECE      (1 * MiB)   /* of a stream that is looked through for secrets */
#define LIMIT_STREAMS_PER_BOX   16          /* uploads and downloads under way in one box */
#define LIMIT_DIALS_PER_BOX     512         /* connections into one box; and as many clients at its terminals */
#define LIMIT_CDP_LIST          (8 * MiB)   /* what a browser tells of its tabs and its protocol */
#define LIMIT_DIAL_MS           10000
#define LIMIT_TAR_ENTRIES       1000000
#define LIMIT_BATCH             10000
#define LIMIT_BATCH_PARALLEL    16 /* items of one batch at once */

/* Messages between the processes */
#define LIMIT_FRAME        (64 * MiB + 64 * KiB)
#define LIMIT_MOUNTS       16
#define LIMIT_BROWSER_DRAG (1 * MiB) /* what a page gives along with a drag */
#define LIMIT_WIRE_WHY     240       /* bytes of a reason that a box gives for how it is */
#define LIMIT_NESTED_NAMESPACES                                                                                        \
    128 /* of each kind, in a box that may make them; Chromium: a pid namespace a renderer */
#define LIMIT_DIFF_BYTES (64 * MiB) /* of JSON that tells the difference of two states */
#define LIMIT_FORKS      1000       /* of one request */
#define LIMIT_KEPT_FDS   4096       /* that guard keeps for supervise: one per box that is handed out */
#define LIMIT_LAYERS     64         /* of one box, over its image */

/* The log */
#define LIMIT_RECORD  (96 * MiB)
#define LIMIT_SEGMENT (256 * MiB)

/* The desktop */
#define LIMIT_SCREEN_SIDE   8192
#define LIMIT_SCREEN_PIXELS (16 * 1000 * 1000L) /* of one screen: a picture of it is one message */
#define LIMIT_CLIPBOARD     (1 * MiB)
#define LIMIT_TYPED         (64 * KiB) /* that one call types */

/* Kernels and interpreters */
#define LIMIT_DRIVERS_PER_BOX 64         /* kernels, interpreters and the like that live in one box */
#define LIMIT_KERNEL_MESSAGE  (32 * MiB) /* that a kernel sends; a larger one is counted, not kept */
#define LIMIT_CELL_OUTPUTS    1000       /* of one cell, streams joined */
#define LIMIT_CELL_BYTES      (24 * MiB) /* of rich outputs of one cell */
#define LIMIT_KERNEL_NAME     64
#define LIMIT_CARRY           (24 * MiB) /* of one interpreter's variables in a state: MAX in script/carry.py */
#define LIMIT_CARRY_BOX       (48 * MiB) /* of all interpreters of a box */
#define LIMIT_CARRY_MS        15000      /* for an interpreter to write them */
#define LIMIT_SESSION_NAME    128

/* Browsers */
#define LIMIT_BROWSER_REQUESTS  2000       /* of one browser, that are remembered; older ones go */
#define LIMIT_BROWSER_ROUTES    100        /* of one browser; and origins with headers of their own */
#define LIMIT_BROWSER_MOCK      (4 * MiB)  /* a body that a route answers with */
#define LIMIT_BROWSER_HEADERS   (64 * KiB) /* of one request, remembered or sent */
#define LIMIT_BROWSER_HAR       (32 * MiB)
#define LIMIT_BROWSER_DOWNLOADS 100         /* of one browser, that are remembered */
#define LIMIT_BROWSER_FRAMES    20000       /* pictures of one recording of a tab */
#define LIMIT_BROWSER_VIDEO     (256 * MiB) /* and their bytes, until they are a video */
