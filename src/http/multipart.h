/* multipart/form-data, read piece by piece. It keeps nothing: what it cannot decide yet stays with the caller, who
 * comes back with more behind it (as http_body_handler's take does). */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum { MULTIPART_BOUNDARY_MAX = 70, MULTIPART_HEAD_MAX = 16 * 1024, MULTIPART_PARTS_MAX = 256 };

struct multipart {
    char delimiter[MULTIPART_BOUNDARY_MAX + 8]; /* CR LF - - boundary */
    size_t delimiter_n;
    int state;
    size_t parts;
};

struct multipart_part { /* in the caller's bytes; name and filename as written between the quotes, without escapes */
    struct str name, filename, content_type;
};

enum multipart_event { MULTIPART_MORE, MULTIPART_PART, MULTIPART_DATA, MULTIPART_PART_END, MULTIPART_END };

/* From a Content-Type header. */
int multipart_init(struct multipart *m, struct str content_type, struct err *e);
/* Looks at the front of data: what is there, and how many bytes of it that is. MORE with 0: not enough of them to say.
 * PART: *part. DATA: *ret_n bytes of the part's content, of which fewer may be taken. < 0: it is no form. */
int multipart_next(struct multipart *m, struct str data, struct multipart_part *part, size_t *ret_n, struct err *e);
