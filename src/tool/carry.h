/* Parameters of tools in tool/carry.c for those who call them: carry:in for serve, the others between init and a driver. */
#pragma once

#include "base/str.h"

struct carry_in_params {
    struct str pieces;
};

struct carry_one_params {
    struct str path;
};
