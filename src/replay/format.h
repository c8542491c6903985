/* The formats that trajectories come in and go out as: one table, one file per direction and format. */
#pragma once

#include "replay/trajectory.h"

enum { TRAJ_FILE_MAX = 1 << 30 }; /* bytes of one file, in or out */

struct write_opts {
    size_t shown_max; /* bytes of an observation that the model is shown; 0: all */
    bool bare;        /* without what really happened (metadata, extra) */
    bool many;        /* documents follow each other, each on a line */
};

struct traj_set;
struct traj_format {
    const char *name, *about;
    bool images; /* it has a place for pictures: messages */
    /* Both NULL: it can only be written. v is one value of the file: the whole of it, a line, or an entry of a list. */
    bool (*sniff)(const struct json *v);
    int (*read)(struct arena *a, const struct json *v, struct trajectory *t, struct err *e); /* adds to t */
    struct str (*group)(const struct json *v); /* nullable: values of one name are parts of one trajectory */
    /* Of all trajectories together, instead of one after the other. */
    void (*write_set)(struct arena *a, const struct traj_set *set, const struct write_opts *o, struct buf *out);
    /* One line, or one document. Both NULL: it can only be read. */
    void (*write)(struct arena *a, const struct trajectory *t, const struct write_opts *o, struct buf *out);
};
extern const struct traj_format *const traj_formats[]; /* NULL-terminated, in the order in which they are tried */

const struct traj_format *format_find(const char *name);
/* ERR_NOT_FOUND with the names that there are. */
const struct traj_format *format_to_write(const char *name, struct err *e);

struct traj_set {
    struct trajectory *v;
    size_t n, room;
    const struct traj_format *format;
};
void traj_set_add(struct arena *a, struct traj_set *set, const struct trajectory *t); /* a copy of it */
/* format NULL: found out. text and the arena must outlive the set. */
int traj_read(struct arena *a, struct str text, const struct traj_format *format, struct traj_set *ret, struct err *e);
