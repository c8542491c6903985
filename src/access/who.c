#include "access/who.h"

#include <string.h>

static const struct {
    const char *name;
    unsigned may;
} roles[ROLE_COUNT] = {
    [ROLE_NONE] = { "none", 0 },
    [ROLE_VIEWER] = { "viewer", MAY_READ },
    [ROLE_AGENT] = { "agent", MAY_READ | MAY_EXECUTE },
    [ROLE_OPERATOR] = { "operator", MAY_READ | MAY_EXECUTE | MAY_MANAGE },
    [ROLE_ADMIN] = { "admin", MAY_READ | MAY_EXECUTE | MAY_MANAGE | MAY_ADMIN },
};

const char *role_name(enum who_role r)
{
    return roles[r].name;
}

enum who_role role_find(const char *name, unsigned long n)
{
    for (int r = ROLE_VIEWER; r < ROLE_COUNT; r++)
        if (strlen(roles[r].name) == n && memcmp(roles[r].name, name, n) == 0)
            return (enum who_role)r;
    return ROLE_NONE;
}

unsigned role_may(enum who_role r)
{
    return roles[r].may;
}
