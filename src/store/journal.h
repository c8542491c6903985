/* The node's log: append-only segments of checksummed records. serve is its only writer; recorder and
 * the tools read it. Everything else that is stored can be rebuilt from it.
 *
 *   log/00000000000000000000.seg    name = position of its first byte
 *   segment = magic "SGLOG001", then records: struct journal_head + body (JSON text), padded to 8 bytes
 *
 * A position is the byte offset over all segments, so it orders everything. Each segment is preallocated
 * (fallocate KEEP_SIZE) before the first record of it is promised: a full disk refuses new calls, it does
 * not lose the results of running ones. A torn tail is cut at open; nothing before it is lost.
 *
 * In every record "time" is an integer, microseconds since 1970 (wall_us), and "call" an integer that no two calls
 * of a node share. Numbers of calls and steps begin at 1. Absent strings may be left out, null or "". */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum record_type {
    RECORD_START = 1,       /* a serve began to write: {"time","version","node"} */
    RECORD_BOX_OPEN,        /* {"box","time","image","labels":{},"spec":{},"temporary","ttl_ms","warm","unenforced":[],
                              "call","done":{}}; a second one: it was put back into another state. call: the tool's that
                              did it, with what it did */
    RECORD_BOX_CLOSE,       /* {"box","time","reason"} */
    RECORD_SESSION_OPEN,    /* {"session","time","name","worker","resource","box","config":{},"ttl_ms","temporary"} */
    RECORD_SESSION_CLOSE,   /* {"session","time","reason"} */
    RECORD_INTENT,          /* {"call","trajectory","step","time","worker","surface","tool","resource","session","box",
                              "temporary","key","key_hash","trace","request","tenant","params":{}} */
    RECORD_RESULT,          /* {"call","trajectory","step","time","outcome","retry_safe","trainable","code","message",
                              "data":any,"queued_us","run_us","total_us","cpu_us","peak_bytes","pids_peak","disk_used_bytes",
                              "dropped_bytes",                              "blobs":{"stdout":{"hash","bytes"}},"state"} */
    RECORD_STATE = 9,       /* {"state","box","time","image","name","parent","trajectory","step","layers":[],"root",
                              "entries","bytes","spec":{},"step_states","shell","call"}; root null: it follows */
    RECORD_STATE_ROOT = 10, /* {"state","time","root"} */
    RECORD_STATE_MARK = 11, /* {"state","time","mark","found"}: quarantined, dropped */
    RECORD_NOTE = 12, /* {"trajectory","step","time","tenant","set":{}}: a merge patch of tags, reward, note, metadata,
                          pinned; step 0: of the whole trajectory. {"dropped":true}: forget it */
    RECORD_ERASED = 13,      /* what it was is not to be known any more; no body. Made of another by journal_erase */
    RECORD_EPISODE_END = 14, /* {"worker","trajectory","time","tenant"}: the worker's next call begins another */
    RECORD_STEP = 8, /* intent and result of a call that was refused or needed no box, in one: the members of both */
};

struct journal_head {
    uint32_t size; /* of the body */
    uint32_t crc;  /* CRC-32C of the rest of the head (size, then type ... position) and the body */
    uint16_t type;
    uint16_t version;
    uint32_t zero;
    uint64_t position; /* of this record: a block that a crash moved is found out */
};

struct journal;                                                         /* the writer */
int journal_open(const char *dir, struct journal **ret, struct err *e); /* makes dir; cuts a torn tail */
/* The same with a chosen size of segments: tests roll over without writing 256 MiB. */
int journal_open_sized(const char *dir, uint64_t segment_bytes, struct journal **ret, struct err *e);
void journal_close(struct journal *j);
/* On success the record is in the kernel: it survives the death of any process. body is given in at most
 * JOURNAL_PARTS parts. On failure the log ends where it ended before. On a full disk, records that promise new work
 * are refused while some room (8 MiB) is left, so that RESULT and the CLOSEs of work under way still fit. */
enum { JOURNAL_PARTS = 64 };
int journal_append(struct journal *j, enum record_type type, const struct str *parts, size_t n, uint64_t *ret_end,
                   struct err *e);
/* The same for many: the record is in the log, and may be acted upon, only after journal_flush said so. It speaks for
 * all that were added since it was last called; if it fails, the first of them may still be in the log, as after a
 * crash. */
int journal_add(struct journal *j, enum record_type type, const struct str *parts, size_t n, struct err *e);
int journal_flush(struct journal *j, struct err *e);
int journal_check(struct journal *j, struct err *e); /* would a record of usual size that promises new work be taken? */
uint64_t journal_end(struct journal *j); /* writes what was added: whoever knows the position may read up to it */

struct journal_reader; /* may run beside the writer, in another process */
struct journal_record {
    enum record_type type;
    uint64_t position, end;
    uint32_t crc;
    struct str body; /* valid until the next call */
    bool rest;       /* it is erased, but something of its body is still there: the eraser was killed */
};
/* from: a record's position or end, 0 for the oldest. The directory may not exist yet; then journal_next returns 0. */
int journal_reader_open(const char *dir, uint64_t from, struct journal_reader **ret, struct err *e);
void journal_reader_close(struct journal_reader *r);
/* 1: a record, 0: at the end (or the last record is not complete yet), < 0: damaged; asking again gives the same. A
 * record of a type or version that this program does not know is returned like any other. */
int journal_next(struct journal_reader *r, struct journal_record *ret, struct err *e);
void journal_seek(struct journal_reader *r,
                  uint64_t position); /* the next record is the one at (or after the head of) it */
uint64_t journal_reader_position(const struct journal_reader *r);

/* Takes the bodies of records away, for good: what a forgotten trajectory said. Positions stay as they are. May run
 * beside the writer and readers, in another process; done again after a crash it does the rest. Only records of steps
 * and notes can be erased; at: their positions, ascending. Returns how many bytes were given back to the disk. */
int64_t journal_erase(const char *dir, const uint64_t *at, size_t n, struct err *e);

/* fdatasync of the segments that hold [synced, upto); upto must be the end of a record, or UINT64_MAX for all that is
 * there. What was synced is remembered per process. After a failure all later syncs fail, too: the kernel drops the
 * pages that it could not write, so a second fdatasync would lie. */
int journal_sync(const char *dir, uint64_t upto, struct err *e);
