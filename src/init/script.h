/* Programs in other languages that init carries in itself. They are written to BOX_RUN_DIR, where the box's user can
 * read but not change them, when they are first needed. */
#pragma once

#include "base/err.h"

struct init;

#define SCRIPT_PYTHON BOX_RUN_DIR "/python.py"
#define SCRIPT_CARRY  BOX_RUN_DIR "/carry.py"
#define SCRIPT_NODE   BOX_RUN_DIR "/node.js"
#define SCRIPT_DS     BOX_RUN_DIR "/ds.py"
#define SCRIPT_JWM    BOX_RUN_DIR "/jwm.xml"
#define BOX_USER_RUN  BOX_RUN_DIR "/user" /* of the box's user, who alone may enter it: sockets of kernels */

int scripts_write(struct err *e); /* and makes BOX_USER_RUN; once */
