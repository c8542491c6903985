/* What guard and the roles share. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct access_opts;
struct config;

/* The user that serve and recorder run as; our own where the server was not started as root. */
/* Who may come in, as the configuration and the environment say; borrows from both. */
struct access_opts serve_access(const struct config *c);
int serve_ids(const struct config *c, uid_t *ret_uid, gid_t *ret_gid, struct err *e);
