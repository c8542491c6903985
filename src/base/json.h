/* JSON text in, JSON text out.
 *
 * The reader builds a tree in an arena. Each value keeps the exact bytes it came from (`raw`), so
 * that a tool's arguments can be recorded byte for byte; strings may contain NUL. Depth and size are
 * capped, duplicate keys, lone surrogates and invalid UTF-8 are errors.
 * The writer appends compact text to a buf and looks after commas; strings that are not UTF-8 are
 * written with U+FFFD in place of the bad bytes. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum { JSON_VALUES_MAX = 1000000 }; /* in one text: "[0,0,..." takes fifty times its size in memory */

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUM, JSON_STR, JSON_ARR, JSON_OBJ };

struct json {
    enum json_type type;
    bool is_int;        /* JSON_NUM: i is exact; 30 and 30.0 are, 3e1 and what int64_t does not hold are not */
    bool b;             /* JSON_BOOL */
    int64_t i;          /* JSON_NUM, if is_int */
    double num;         /* JSON_NUM */
    struct str s;       /* JSON_STR, decoded */
    struct str name;    /* member of an object: its decoded key */
    struct str raw;     /* the value's own bytes in the source text */
    struct json *first; /* JSON_ARR, JSON_OBJ: first member, then ->next */
    struct json *next;
    size_t count; /* members */
};

/* text must outlive the tree: strings without escapes point into it. The message of an error says the byte offset.
 * Numbers that no double holds (1e999) are errors. */
int json_parse(struct arena *a, struct str text, struct json **ret, struct err *e);
/* The same for a text that we wrote ourselves, and without what nobody needs then: what is nested in the outermost value
 * has its type and its bytes, but no members, and keys are not looked at for being there twice. */
int json_outline(struct arena *a, struct str text, struct json **ret, struct err *e);
const struct json *json_get(const struct json *obj, const char *name); /* NULL: absent or no object */
struct str json_get_str(const struct json *obj, const char *name);     /* p NULL: absent or no string */
int64_t json_get_int(const struct json *obj, const char *name, int64_t otherwise);
bool json_get_bool(const struct json *obj, const char *name, bool otherwise);
const char *json_type_name(enum json_type t); /* "string", "number" ... for messages */

struct jw { /* a writer; cheap to make: struct jw w = { .out = &buf }; */
    struct buf *out;
    bool comma;
    bool one_line; /* line breaks in raw JSON, which can only be white space, are written as spaces */
};
void jw_obj(struct jw *w);     /* { */
void jw_obj_end(struct jw *w); /* } */
void jw_arr(struct jw *w);
void jw_arr_end(struct jw *w);
void jw_key_str(struct jw *w, struct str name);
void jw_str(struct jw *w, struct str s); /* p NULL writes null */
void jw_z(struct jw *w, const char *z);  /* the same */
void jw_int(struct jw *w, int64_t i);
void jw_num(struct jw *w, double d); /* NaN and infinities write null; shortest form that reads back */
void jw_bool(struct jw *w, bool b);
void jw_null(struct jw *w);
void jw_raw(struct jw *w, struct str json);     /* already JSON; empty writes null */
void jw_base64(struct jw *w, struct str bytes); /* p NULL writes null */

void jw_name(struct jw *w, const char *name, size_t n); /* a key of plain characters: nothing in it is looked at */

static inline void jw_key(struct jw *w, const char *name)
{
    if (__builtin_constant_p(strlen(name))) /* it stands in our own source */
        jw_name(w, name, strlen(name));
    else
        jw_key_str(w, str_of(name));
}

/* "key": value in one call */
static inline void jw_kstr(struct jw *w, const char *name, struct str s)
{
    jw_key(w, name);
    jw_str(w, s);
}
static inline void jw_kz(struct jw *w, const char *name, const char *z)
{
    jw_key(w, name);
    jw_z(w, z);
}
static inline void jw_kint(struct jw *w, const char *name, int64_t i)
{
    jw_key(w, name);
    jw_int(w, i);
}
static inline void jw_knum(struct jw *w, const char *name, double d)
{
    jw_key(w, name);
    jw_num(w, d);
}
static inline void jw_kbool(struct jw *w, const char *name, bool b)
{
    jw_key(w, name);
    jw_bool(w, b);
}
static inline void jw_kraw(struct jw *w, const char *name, struct str json)
{
    jw_key(w, name);
    jw_raw(w, json);
}

bool utf8_ok(struct str s);
/* > 0: length of the valid sequence at text. < 0: minus the number of bytes that one U+FFFD stands for (the longest start
 * of a sequence that never became one, as Unicode recommends). n is at least 1. */
int utf8_step(const char *text, size_t n);
/* Decodes standard base64 (padding optional, white space skipped); p NULL on an error. */
struct str base64_decode(struct arena *a, struct str text);
