/* The files of the log and the shape of a record in them: what the writer, the reader and the syncer share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "store/journal.h"

#define SEGMENT_MAGIC "SGLOG001"
enum { SEGMENT_HEAD = 8, RECORD_VERSION = 1 };

struct segment_name {
    char z[32];
};
struct segment_name segment_name(uint64_t start);
int segment_list(int dirfd, uint64_t **ret_starts, size_t *ret_n, struct err *e); /* ascending; free() it */

uint64_t record_room(uint64_t body); /* bytes that a record with such a body takes, padding included */
uint32_t record_crc(const struct journal_head *h, const struct str *parts, size_t n);
/* The checksum that says that a record is erased: of its head as if its type were RECORD_ERASED, without the body. So
 * four aligned bytes, which no crash can tear, turn a record into an erased one, whatever becomes of its body. */
uint32_t record_erased_crc(const struct journal_head *h);
bool record_head_ok(const struct journal_head *h, uint64_t position); /* all but the checksum */
