/* The AIO surface: operations of AIO Sandbox over our tools.
 *
 * An operation is one row of a group's table. From the rows come routing, validation, /v1/openapi.json and /v1/docs.
 * To add a group, write src/surface/aio_NAME.c with
 *
 *   static const struct aio_op ops[] = {
 *       { "POST", "/v1/code/execute", "code", "execute_code", "Run code", .tool = "code:execute",
 *         .ask = ask_execute, .print = print_execute, .in = execute_fields, .in_name = "CodeExecuteRequest",
 *         .out = execute_result_fields, .out_name = "CodeExecuteResponse" },
 *       { 0 },
 *   };
 *   const struct aio_group aio_code = { "code", ops };
 *
 * and name it in aio_groups (aio.c). What happens to a request:
 *
 *  1. The members of `in` are taken from the path ({session_id} is the field of that name), from the query (GET and
 *     DELETE without AIO_BODY: all others; else those that `in_query` names), and from the JSON body, in which unknown
 *     names are ignored and whose absence is {}. They are bound by the table; what does not fit is a 422.
 *  2. The box is found (web_box) and the tool called, with the members of `in` that were given or with what ask()
 *     writes. Without `in`, the tool's own parameters are the table.
 *  3. The tool's result, or what print() makes of it, is `data` of the envelope.
 *
 * An operation that is no tool has a handler, called after step 1 (aio_bound(w) is the struct), or after the box was
 * found if it has AIO_BOX (aio_box(w)); it answers with aio_begin() ... aio_end(), aio_ok() or aio_error().
 * Descriptions of results that are printed by hand use SAYS() rows, which have no struct. A nested object is
 * SAYS(JSON, ..., .rows = fields), a map of objects the same with .row_size = 1. */
#pragma once

#include "surface/surface.h"

#define AIO_VERSION "1.9.4" /* of the API that is served */

struct aio_group;

enum {
    AIO_FORM = 1 << 20, /* the body is a form, and small: the handler finds it in http->body */
    AIO_RAW = 1,        /* the handler reads the body itself (multipart) */
    AIO_BODY = 2,       /* a DELETE with a body */
    AIO_FILE = 4,       /* file work: a failure is a 200 with FileOperationError in data */
    AIO_LIST = 8,       /* data is a list of `out` */
    AIO_BARE = 16,      /* `out` is the whole reply, without the envelope; NULL: any JSON */
    AIO_BYTES = 32,     /* the reply is of type out_name, such as application/gzip */
    AIO_BOX = 64,       /* the handler needs the box */
    AIO_LONG = 128,     /* the call may take as long as any call: the tool has clocks of its own */
    AIO_TOP = 256,      /* members of data are repeated beside it */
    AIO_TEXT = 512,     /* data is a string */
    AIO_QUIET = 1024,   /* not in openapi.json: our own addition or an alias */
    AIO_OBJECT = 2048   /* data is an object that nobody describes */
};

typedef void aio_ask(struct web *w, const void *in, struct jw *params); /* members of the tool's parameters */
/* Writes the value of data. data is the tool's result, parsed; NULL: it has none. False: it answered by itself. */
typedef bool aio_print(struct web *w, const struct call *c, const struct json *data, struct jw *out);

struct aio_op {
    const char *method, *path; /* "POST", "/v1/shell/exec" */
    const char *group, *name;  /* as the SDKs call it: shell, exec_command; also the operation's id */
    const char *help;
    const char *tool; /* "shell:exec"; NULL: handler */
    route_handler *handler;
    route_handler *stream; /* nullable: instead, if Accept names text/event-stream; as a handler with AIO_BOX */
    aio_ask *ask;          /* nullable */
    aio_print *print;      /* nullable */
    const struct field *in;
    const char *in_name;     /* name of its schema; NULL: inline */
    const char *in_query;    /* "version": taken from the query, although there is a body */
    const struct field *out; /* NULL: the tool's result if there is a tool and no print(), else any JSON */
    const char *out_name;
    unsigned flags;
    const struct aio_op *(*other)(struct web *w); /* nullable: another row that is to answer this request, or NULL */
    const char *tag;                              /* NULL: the group's name */
    const char *cut;                              /* nullable: the hint if output was left out; names the limits */
    const char *(*hint)(const struct json *data); /* nullable: the hint for this result, or NULL */
};

struct aio_group {
    const char *name;
    const struct aio_op *ops; /* ends with a zeroed row */
};
const char *aio_document_hint(const struct json *data); /* of util:convert */
extern const struct aio_group *const aio_groups[];      /* NULL-terminated */

#define SAYS(kind, name_, help_, ...)                                                                                  \
    {                                                                                                                  \
        .name = (name_), .type = FIELD_##kind, .help = (help_), ##__VA_ARGS__                                          \
    }

/* For surface.c */
const struct aio_op *aio_find(struct web *w); /* NULL: none; sets w->match */
void aio_handle(struct web *w);
bool aio_is_path(struct str path); /* one of /v1/...: an unknown one is answered in our shape */
void aio_not_found(struct web *w);
const char *aio_clash(void);
extern const struct field aio_file_error_fields[]; /* FileOperationError */

/* For handlers */
const void *aio_bound(const struct web *w);
const struct json *aio_given(const struct web *w); /* the members of `in` that were given, as an object */
struct box *aio_box(const struct web *w);
void aio_begin(struct web *w, struct buf *b, struct jw *j);                    /* {"success":true,...,"data": */
void aio_end(struct web *w, struct buf *take, struct jw *j, const char *hint); /* ,"hint":...} and out */
void aio_ok(struct web *w, const char *message);                               /* data: null */
void aio_error(struct web *w, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* 422 with both detail and errors; where: "body", "query" or "path". */
void aio_invalid(struct web *w, const char *where, const char *field, const char *type, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Calls a tool in the box of the request; the callback's arg is w. params: the members of an object, or empty. */
void aio_call(struct web *w, const char *tool, struct str params, on_call_done *cb);
/* Answers a call that did not succeed as this surface does it. */
void aio_call_failed(struct web *w, const struct call *c);
const struct json *aio_data(struct web *w, const struct call *c); /* parsed; NULL: none */
/* Seconds of a tool's row, as what OpenAPI calls date-time. */
void aio_time(struct jw *j, const char *key, const struct json *row, const char *name);

/* aio_openapi.c */
extern const struct aio_group aio_meta;
extern const struct aio_group aio_util;
extern const struct aio_group aio_skills, aio_proxy;
extern const struct aio_group aio_watch;
extern const struct aio_group aio_observe;
extern const struct aio_group aio_shell, aio_bash, aio_file, aio_transfer, aio_editor, aio_sandbox;
extern const struct aio_group aio_mcp;
extern const struct aio_group aio_code;
extern const struct aio_group aio_screen, aio_page, aio_browser;
bool aio_browser_failed(struct web *w, const struct call *c); /* aio_page.c: it is answered, then */
aio_print aio_print_list;                                     /* aio_page.c: the list that a browser tool told */
aio_print aio_print_picture;                                  /* aio_screen.c: the picture that a tool took, as bytes */
