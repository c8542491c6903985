/* The conversation between serve and the init of a box: length-prefixed frames over a unix stream.
 *
 * Everything that init says is hostile input: box root can ptrace it.
 *
 *   serve -> init  HELLO                 first frame of a connection
 *   init -> serve  HELLO                 version, then one KNOWN per call that init still holds
 *   serve -> init  CALL  id tool params  at most once per id; init answers a repeated id by its state
 *   init -> serve  RESULT id ...         sent again on each new connection until ACK
 *   serve -> init  HELD  id              of a result that flows: so much of its end was not passed on, and is to be read again
 *   serve -> init  ACK   id              the result is in the log; init forgets it
 *   serve -> init  CANCEL id             end the call's processes; a RESULT follows
 *   init -> serve  READY                 HELLO is over: all KNOWN were sent
 *   serve -> init  END_SHELL session     its session is closed: the shell ends with all that it started
 *   init -> serve  STREAM id             one descriptor: the byte stream of a TOOL_STREAM call, once, before its RESULT
 *   serve -> init  DIAL  id target       connect inside the box (init/dial.h says to what)
 *   init -> serve  DIALED id             one descriptor, or none and why; the ids of dials are their own
 *   init -> serve  ABOUT                 what it found out about its browser; again on each new connection, before READY
 *
 * A connection may break at any time; init goes on and waits for the next one. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/field.h"
#include "wire/outcome.h"

enum { WIRE_VERSION = 1 };

enum frame_type {
    FRAME_HELLO = 1,
    FRAME_READY,
    FRAME_KNOWN,
    FRAME_CALL,
    FRAME_RESULT,
    FRAME_ACK,
    FRAME_CANCEL,
    FRAME_END_SHELL,
    FRAME_STREAM,
    FRAME_DIAL,
    FRAME_DIALED,
    FRAME_ENV, /* serve -> init: variables of every program that is started from now on */
    FRAME_ABOUT,
    FRAME_HELD,
    FRAME_TYPES /* how many, and one */
};

struct frame_head {
    uint32_t size; /* of what follows the head */
    uint16_t type;
    uint16_t fds; /* descriptors that travel with the head (RESULT: 0, 1 or 2 memfds: whole stdout, whole stderr;
                   * STREAM: 1; DIALED: 0 or 1) */
    uint64_t id;  /* of the call */
};

/* The fixed part of each payload; described by tables, packed by name. */
struct wire_hello {
    int64_t version;
    struct str build; /* git revision, for the log */
};
struct wire_known {
    bool finished; /* its RESULT follows by itself; else it still runs */
};
struct wire_call {
    struct str tool;    /* "bash:run" */
    struct str session; /* which shell, if the backend has sessions: "" is the box's default one */
    int64_t timeout_ms; /* 0: none */
    int64_t head_bytes, tail_bytes, kept_bytes; /* caps for each output stream */
    int64_t expect_us; /* the result is likely to be there within this time: look for it before you sleep; 0: sleep */
    struct str params; /* packed by the tool's own table */
};
struct wire_env {
    struct pairs env;
    struct str display; /* its browser is "headed" or "headless", whatever was configured; or absent */
};
struct wire_shell {
    struct str session; /* as in wire_call */
};
struct wire_result {
    int64_t outcome;         /* enum outcome as init saw it; serve may sharpen it (oom, pid_limit) */
    struct str message;      /* for people; names what failed */
    int64_t error;           /* enum err_code if the tool failed */
    int64_t sys;             /* and its errno, or 0 */
    int64_t run_us;          /* from receipt to end */
    int64_t cpu_us;          /* user + system of the reaped children, if known */
    int64_t dropped_bytes;   /* output that is in no stream of this result */
    int64_t disk_used_bytes; /* what the box has written: when the call began or when it ended, the greater; if known */
    int64_t flows;           /* WIRE_FLOWS_...: these of its members are pieces, and more of them may come */
    struct str result;       /* packed by the tool's own table */
    struct rows pictures;    /* struct wire_picture: for the log only */
};
struct wire_picture {
    struct str name; /* lower-case word: "before" */
    struct str bytes;
};
enum { WIRE_PICTURES_MAX = 4 };

/* "stdout", up to "offset" or of "stdout_bytes"; "stderr", the same; "output", and that of the last row of "console", all
 * of it. Settled: nothing came for a while, or its program waits for somebody; what follows may take forever. */
enum {
    WIRE_FLOWS_OUT = 1,
    WIRE_FLOWS_ERR = 2,
    WIRE_FLOWS_WHOLE = 4,
    WIRE_SETTLED_OUT = 8,
    WIRE_SETTLED_ERR = 16,
    WIRE_SETTLED_WHOLE = 32,
};
/* So many bytes at the end of a piece are not passed on: the next one begins with them. Of what has settled, more than
 * WIRE_HELD_SHORT only: the last letters of many a prompt are the first of a secret. */
struct wire_held {
    int64_t out, err;
};
enum { WIRE_HELD_SHORT = 3, WIRE_HELD_MAX = 64 * 1024 };

struct wire_dial {
    struct str target; /* "tcp:8000", "unix:/path", "views", "command:name", "browser:", "app:name" */
    int64_t after;     /* of a thing that keeps its output: go on behind this byte; < 0: so many from its end */
    int64_t after_err; /* the same for its stderr, if it has one */
};
struct wire_dialed {
    int64_t error;      /* enum err_code; 0: connected */
    struct str message; /* for people */
};

struct wire_about {
    bool sandboxed; /* the browser's own sandbox is around its pages */
    struct str why; /* it is not; at most LIMIT_WIRE_WHY of it is kept */
};

/* What a download's stream begins with: a uint32_t that counts the bytes of this, packed. Then the content. */
struct wire_file {
    int64_t size;           /* of the whole file */
    int64_t offset, length; /* what follows of it */
    int64_t mtime_ns;
    struct str etag;    /* without quotes */
    struct str name;    /* last part of its path */
    bool part;          /* a range was asked for, and this is it */
    bool unsatisfiable; /* the range lies behind its end; nothing follows */
    bool unchanged;     /* the client has it; nothing follows */
};
enum { WIRE_FILE_MAX = 8192 };

extern const struct field wire_env_fields[], wire_hello_fields[], wire_known_fields[], wire_call_fields[],
    wire_shell_fields[], wire_result_fields[], wire_held_fields[], wire_dial_fields[], wire_dialed_fields[],
    wire_about_fields[], wire_file_fields[];

/* Appends a whole frame to out: head, then fields packed from fixed (NULL: no payload). */
void frame_add(struct buf *out, enum frame_type type, uint64_t id, unsigned fds, const struct field *fields,
               const void *fixed);
/* Looks at the front of in. 0: incomplete, 1: *ret_head and *ret_payload are set (borrowed from in), < 0: garbage. */
int frame_peek(const struct buf *in, struct frame_head *ret_head, struct str *ret_payload, struct err *e);
