/* One table describes a C struct, and gives all of: binding from JSON with error text, printing as
 * JSON, its JSON Schema, and its packed form on the wire between processes.
 *
 *   struct greet_params { struct str name; int64_t times; };
 *   static const struct field greet_fields[] = {
 *       FIELD(STR, struct greet_params, name, "whom to greet", .required = true, .max = 100),
 *       FIELD(INT, struct greet_params, times, "how often", .def = 1, .min = 1, .max = 10),
 *       { 0 },
 *   };
 */
#pragma once

#include <stdint.h>

#include "base/json.h"

enum field_type {
    FIELD_END,
    FIELD_STR,   /* struct str */
    FIELD_BYTES, /* struct str; base64 in JSON */
    FIELD_INT,   /* int64_t */
    FIELD_NUM,   /* double */
    FIELD_BOOL,  /* bool */
    FIELD_STRS,  /* struct strs: array of strings; a single string is taken as a list of one */
    FIELD_PAIRS, /* struct pairs: object whose values are strings */
    FIELD_JSON,  /* struct str: any JSON value, verbatim */
    FIELD_ROWS,  /* struct rows: array of objects, each described by .rows, .row_size */
};

struct field {
    const char *name;
    enum field_type type;
    size_t offset;
    const char *help;
    bool required;
    bool nullable;       /* results: an absent value is written as null, not left out */
    bool always;         /* results: written even if empty (0 and false always are): "", [], {} */
    bool path;           /* STR, STRS: paths or names of files, which may be any bytes: base/path.h */
    bool session;        /* results, STR: serve puts the name of the call's session here */
    bool blob;           /* results, BYTES: in the answer; in the log it is a blob of the step, by this name */
    double min, max;     /* INT, NUM: the range, if max > min. STR, BYTES, JSON: max bytes. Lists: max entries */
    int64_t def;         /* INT, BOOL: value if absent. FIELD_ABSENT: no default */
    double def_num;      /* NUM */
    const char *def_str; /* STR. JSON: its kind, for schemas: "object", or "[integer]" for a list */
    const char *choices; /* STR: "a|b|c" */
    const char *alias;   /* a second JSON key that is accepted */
    /* ROWS. JSON: describes an object (row_size 0) or a map of such (1); nothing checks it */
    const struct field *rows;
    size_t row_size;
};

/* How deep a FIELD_JSON value may nest; the rest of LIMIT_JSON_DEPTH is for what is around it. */
enum { FIELD_JSON_DEPTH = 32 };

#define FIELD_ABSENT INT64_MIN /* an optional INT that was not given, and in results: leave it out */
#define FIELD(kind, type_, member, help_, ...)                                                                         \
    {                                                                                                                  \
        .name = #member, .type = FIELD_##kind, .offset = __builtin_offsetof(type_, member), .help = (help_),           \
        ##__VA_ARGS__                                                                                                  \
    }

/* Fills out (zeroed by the callee, up to its last field) from a JSON object; NULL is an empty one. Strings are
 * borrowed from the tree and its text. null for an optional field is as good as its absence.
 * Unknown keys are errors unless ignored is given, which then receives their names, comma-separated, as JSON strings.
 * Errors: ERR_MISSING, ERR_TYPE, ERR_INVALID (out of range, no such choice), ERR_LIMIT (too many bytes or entries),
 * each naming the field, the value and the limit. */
int field_bind(const struct field *fields, const struct json *obj, struct arena *a, void *out, struct buf *ignored,
               struct err *e);
size_t field_extent(const struct field *fields); /* bytes of the struct up to its last field */
void field_defaults(const struct field *fields, void *out, size_t size);
void field_print(const struct field *fields, const void *in, struct jw *w); /* members only, no braces */
void field_schema(const struct field *fields, struct jw *w);                /* {"type":"object","properties":...} */

/* Self-describing by name, so that programs of different versions understand each other: unknown
 * names are skipped, absent ones take the default. Types are checked, JSON too, and the names of PAIRS are UTF-8 and
 * unique; ranges, choices and the UTF-8 of strings are not: who unpacks what a box sent looks at the values himself.
 * On an error out holds the defaults. */
void field_pack(const struct field *fields, const void *in, struct buf *out);
int field_unpack(const struct field *fields, struct str packed, struct arena *a, void *out, size_t size,
                 struct err *e); /* packed is hostile; strings point into it */

/* What field.c and field_pack.c share. */
bool field_is_absent(const struct field *f, const void *value); /* empty lists are, false is not */
int field_check_depth(const struct json *v, struct err *e);     /* FIELD_JSON_DEPTH */
