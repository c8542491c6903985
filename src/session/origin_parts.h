/* What origin.c and origin_make.c share; nobody else includes it. */
#pragma once

#include "session/origin.h"

struct origin_repo {
    struct str url, commit, bundle, state; /* bundle: base64 */
};
struct origin_ask {
    struct strs setup_commands;
    struct str test_command, language, work_dir;
    double timeout;
    struct pairs env;
    struct origin_repo at; /* behind the last field, which binding clears up to */
};
int origin_read(struct arena *a, const struct json *config, struct origin_ask *ret, struct err *e);
struct str origin_local(struct str url);
struct str origin_shown(struct arena *a, struct str url);
