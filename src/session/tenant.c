#include "session/tenant.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "session/node.h"

bool tenant_name_ok(struct str name)
{
    if (name.n == 0 || name.n >= sizeof((struct tenant *)0)->name || name.p[0] == '.')
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (!name.p[i] || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", name.p[i]))
            return false;
    return true;
}

struct tenant *tenant_get(struct node *n, struct str name, struct err *e)
{
    if (!name.n)
        name = STR(TENANT_DEFAULT);
    struct tenant *t = map_get(&n->tenants, name);
    if (t)
        return t;
    if (!tenant_name_ok(name)) {
        err_set(e, ERR_INVALID, "tenant: 1 to 63 letters, digits and . _ - are allowed, and no '.' in front");
        return NULL;
    }
    if (n->tenants.count >= LIMIT_TENANTS) {
        err_set(e, ERR_LIMIT, "tenant: there are LIMIT_TENANTS (%d) already", LIMIT_TENANTS);
        return NULL;
    }
    t = calloc(1, sizeof *t);
    if (!t)
        abort();
    memcpy(t->name, name.p, name.n);
    t->is_default = str_is(name, TENANT_DEFAULT);
    t->quota = n->quota;
    map_put(&n->tenants, str_of(t->name), t);
    return t;
}

size_t tenant_key_size(const struct tenant *t, struct str name)
{
    return strlen(t->name) + 1 + name.n;
}

void tenant_key_to(const struct tenant *t, struct str name, char *out)
{
    size_t n = strlen(t->name) + 1;

    memcpy(out, t->name, n);
    if (name.n)
        memcpy(out + n, name.p, name.n);
}

struct str tenant_key(const struct tenant *t, struct str name, struct arena *a)
{
    if (!name.p)
        return name;
    char *key = arena_alloc(a, tenant_key_size(t, name));
    tenant_key_to(t, name, key);
    return (struct str){ key, tenant_key_size(t, name) };
}
