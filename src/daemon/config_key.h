/* The rows of the settings' table; only config.c, config_key.c and config_print.c look at it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct config;

enum key_type {
    KEY_STR,      /* char * */
    KEY_BOOL,     /* bool */
    KEY_ENUM,     /* an enum whose values are 0, 1, ... in the order of .choices */
    KEY_INT,      /* int64_t, as are the rest */
    KEY_SIZE,     /* bytes */
    KEY_DURATION, /* milliseconds */
    KEY_MILLI,    /* thousandths of a decimal */
};

enum key_form {
    FORM_ANY,
    FORM_LISTEN,
    FORM_DIR,
    FORM_DIRS,
    FORM_NAME,
    FORM_IMAGE,
    FORM_FILE,
    FORM_PATH,
    FORM_WORD,
    FORM_PORTS,
    FORM_WORKSPACE,
    FORM_ZONE,
    FORM_PROXY,
    FORM_FLAGS,
    FORM_TEMPLATES
};

struct config_key {
    const char *name; /* "box.memory" */
    enum key_type type;
    size_t offset;
    const char *help;
    const char *def;
    char *(*def_fn)(void); /* where the default depends on who asks; then def_text says it in words */
    const char *def_text;
    int64_t min, max;    /* of a string, max: its bytes; 0: any */
    const char *choices; /* "a|b|c" */
    enum key_form form;
    const char *aio; /* the container's variable that becomes this setting (docs/aio.md), for messages */
};
extern const struct config_key config_keys[]; /* ends with an empty row */

enum key_spelling {
    KEY_SPELT_NAME, /* box.memory */
    KEY_SPELT_ENV,  /* SANDGLASS_BOX_MEMORY */
    KEY_SPELT_FLAG, /* --box-memory */
};
enum { KEY_TEXT = 64 };

void config_key_spell(const struct config_key *k, enum key_spelling how, char text[KEY_TEXT]);
const struct config_key *config_key_find(const char *word, enum key_spelling how);
/* Always an error; it names the nearest key if one is near. */
int config_key_unknown(const char *where, const char *what, const char *word, enum key_spelling how, struct err *e);
void config_key_allowed(const struct config_key *k, char *text,
                        size_t size); /* "a size from 16m to 1t, such as 512m" */

char *config_form(enum key_form form, const char *value); /* the normal form of value, or NULL: not of this form */
char *config_default_home(void);
char *config_default_user(void);
char *config_default_ticket_ttl(void);

static inline void *config_field(const struct config *c, const struct config_key *k)
{
    return (char *)c + k->offset;
}
