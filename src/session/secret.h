/* Named secrets of tenants: what a box or a tool is given by name and nobody reads in the log.
 *
 *   HOME/secrets      a line of JSON for each that was set or removed; the value in AES-256-GCM, bound to its tenant
 * and name HOME/secret.key   32 bytes, made at first use, unless the setting secret.key_file names another file
 *
 * In the parameters of a call, "${secret:NAME}" stands for the value: it is put in on the way into the box, so that the
 * log has the name. On the way out of a box, every text in which a value appears verbatim has the name in its place: in
 * results, in stored outputs, in the variables of a saved shell. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "session/tenant.h"

struct jw;
struct secrets;

/* What kind of text it stands in: as it is; as a terminal shows it (its lines end in CR LF); with JSON's escapes; these
 * three inside of a JSON string; inside of a shell's double quotes; of its $'...'. */
enum secret_form {
    SECRET_PLAIN,
    SECRET_CRLF,
    SECRET_ESCAPED,
    SECRET_JSON,
    SECRET_JSON_CRLF,
    SECRET_JSON_ESCAPED,
    SECRET_SHELL,
    SECRET_ANSI,
    SECRET_FORMS
};

struct secret {
    char tenant[64], name[64];
    char box[32];    /* only for this one; "": any */
    char tools[256]; /* only for these, separated by commas; "": any, and for environments */
    int64_t set_us;
    char *value; /* NULL: removed */
    size_t value_n;
    struct str forms[SECRET_FORMS]; /* the same by enum secret_form, but for SECRET_PLAIN */
};

enum { SECRET_MIN = 8, SECRET_MAX = 8192 }; /* a short one would be found everywhere */

int secrets_open(const char *home, const char *key_file, struct secrets **ret, struct err *e);
void secrets_free(struct secrets *s);
int secrets_set(struct secrets *s, const struct secret *ask, struct str value,
                struct err *e); /* tenant to tools of ask */
int secrets_remove(struct secrets *s, const struct tenant *t, struct str name, struct err *e);
const struct secret *secrets_find(const struct secrets *s, const struct tenant *t, struct str name);
const struct secret *secrets_next(const struct secrets *s, const struct tenant *t, size_t *i);
void secret_print(const struct secret *x, struct jw *w); /* members; not the value */
bool secret_name_ok(struct str name);

struct str secret_as(const struct secret *x, int form); /* empty: it has no such form of its own */

/* Where a value may go: tool NULL: into an environment. */
struct secret_use {
    const struct tenant *tenant;
    const char *tool, *box;
};
/* text with the values in place of "${secret:NAME}"; itself if there is none. */
int secrets_expand(const struct secrets *s, const struct secret_use *use, struct str text, enum secret_form form,
                   struct arena *a, struct str *ret, struct err *e);
/* text with the names in place of values; itself if there is none. Plain text and JSON are looked through for all
 * three forms of theirs. */
struct str secrets_redact(const struct secrets *s, const struct tenant *t, struct str text, enum secret_form form,
                          struct arena *a);
int secret_may(const struct secret *x, const struct secret_use *use, struct err *e);
