/* `sandglass key`: API keys of a server's home. Works on the file itself, so that the first key can be made before the
 * server runs; a running one sees the change within a moment. */
#include <string.h>

#include "access/key.h"
#include "base/json.h"
#include "base/loop.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "daemon/config.h"
#include "daemon/units.h"

struct flags {
    const char *home, *role, *tenant, *name, *box, *scopes, *ttl;
};

static int fail(const struct err *e)
{
    complain("%s", e->msg);
    return e->code == ERR_NOT_FOUND ? EXIT_NOT_FOUND : EXIT_REFUSED;
}

static void print_json(const struct api_key *k, const char *text)
{
    struct buf b;
    struct jw w = { .out = &b };

    buf_init(&b, 8192);
    jw_obj(&w);
    api_key_print(k, &w);
    if (text)
        jw_kz(&w, "key", text);
    jw_obj_end(&w);
    printf("%.*s\n", (int)b.n, b.p);
    buf_done(&b);
}

static bool plain_name(const char *s)
{
    size_t n = strlen(s);
    return n && n < 64 && s[0] != '.' &&
           strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

static int create(const struct command *cmd, struct key_store *store, const struct flags *f, bool json)
{
    struct api_key ask = { .role = role_find(f->role, strlen(f->role)) };
    const struct api_key *k;
    char text[API_KEY_TEXT];
    int64_t ttl_ms = 0;
    struct err e;

    if (ask.role == ROLE_NONE)
        return usage_error(cmd, "--role: must be viewer, agent, operator or admin");
    if (!plain_name(f->tenant))
        return usage_error(cmd, "--tenant: 1 to 63 letters, digits and . _ - are allowed");
    if ((ask.role == ROLE_AGENT) != (f->box != NULL))
        return usage_error(cmd, "--box: the role agent needs one, and no other role has one");
    if (f->ttl && (units_duration(f->ttl, &ttl_ms) < 0 || ttl_ms <= 0))
        return usage_error(cmd, "--ttl: '%s' is not a time such as 12h or 30d", f->ttl);
    if (f->scopes && !(ask.may = scopes_read(str_of(f->scopes))))
        return usage_error(cmd, "--scopes: a list of read, execute, manage, admin, with commas");
    snprintf(ask.name, sizeof ask.name, "%s", f->name);
    snprintf(ask.tenant, sizeof ask.tenant, "%s", f->tenant);
    snprintf(ask.box, sizeof ask.box, "%s", f->box ? f->box : "");
    ask.expires_us = ttl_ms ? wall_us() + ttl_ms * 1000 : 0;
    if (key_store_add(store, &ask, true, text, &k, &e) < 0)
        return fail(&e);
    if (json) {
        print_json(k, text);
    } else {
        printf("%s\n", text);
        fprintf(stderr, "key %s of tenant %s, role %s; it is shown only now\n", k->id, k->tenant, role_name(k->role));
    }
    return EXIT_FINE;
}

static int list(struct key_store *store, bool json)
{
    static const char *const head[] = { "ID", "TENANT", "ROLE", "BOX", "NAME", "STATE" };
    struct arena a = { 0 };
    struct table t;
    const struct api_key *k;

    table_init(&t, &a, 6);
    table_row(&t, head);
    for (size_t i = 0; (k = key_store_next(store, &i));) {
        const char *state = k->revoked ? "revoked" : k->expires_us && k->expires_us <= wall_us() ? "expired" : "valid";
        const char *cells[] = { k->id,
                                k->tenant[0] ? k->tenant : "default",
                                role_name(k->role),
                                k->box[0] ? k->box : "-",
                                k->name[0] ? k->name : "-",
                                state };
        if (json)
            print_json(k, NULL);
        else
            table_row(&t, cells);
    }
    if (!json)
        table_print(&t, stdout);
    arena_done(&a);
    return EXIT_FINE;
}

static int run_with(const struct command *cmd, const struct words *w, const struct flags *f)
{
    struct key_store *store = key_store_new(f->home);
    struct err e;
    int code;

    if (key_store_refresh(store, &e) < 0)
        code = fail(&e);
    else if (strcmp(w->v[0], "create") == 0 && w->n == 1)
        code = create(cmd, store, f, w->json);
    else if (strcmp(w->v[0], "list") == 0 && w->n == 1)
        code = list(store, w->json);
    else if (strcmp(w->v[0], "revoke") == 0 && w->n == 2)
        code = key_store_revoke(store, str_of(w->v[1]), true, &e) < 0 ? fail(&e) : EXIT_FINE;
    else
        code = usage_error(cmd, "'%s': create, list, or revoke with a key's id", w->v[0]);
    key_store_free(store);
    return code;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct flags f = { .role = "operator", .tenant = "default", .name = "" };
    const struct option rows[] = {
        { "role", 0, OPTION_TEXT, &f.role, "ROLE", "viewer, agent, operator (default) or admin" },
        { "tenant", 0, OPTION_TEXT, &f.tenant, "NAME", "whose boxes and trajectories it is for (default: default)" },
        { "name", 0, OPTION_TEXT, &f.name, "TEXT", "what it is for" },
        { "box", 0, OPTION_TEXT, &f.box, "BOX", "role agent: the only box that it is for" },
        { "scopes", 0, OPTION_TEXT, &f.scopes, "LIST", "fewer than the role's: read,execute,manage,admin" },
        { "ttl", 0, OPTION_TEXT, &f.ttl, "TIME", "it expires after so long, such as 12h or 30d" },
        { "home", 0, OPTION_TEXT, &f.home, "DIR", "the server's home (default: as for serve)" },
        { 0 },
    };
    struct config c;
    struct words w;
    struct err e;
    int first, r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n == 0)
        return usage_error(cmd, "create, list or revoke");
    if (config_load(1, argv, &c, &first, &e) < 0)
        return fail(&e);
    if (!f.home)
        f.home = c.home;
    r = run_with(cmd, &w, &f);
    config_done(&c);
    return r;
}

const struct command command_key = {
    .name = "key",
    .words = "create|list|revoke [KEY] [--role ROLE] [--tenant NAME] [--ttl TIME] [--home DIR]",
    .about = "Make, list and revoke API keys of a server's home.",
    .more = "A key is printed once, when it is made; the home has only its hash. A running server takes changes up at\n"
            "once. Clients send it as 'Authorization: Bearer KEY'; this program, from SANDGLASS_API_KEY.",
    .examples = "  sandglass key create --role operator --tenant acme --name ci --ttl 30d\n"
                "  sandglass key list\n"
                "  sandglass key revoke k-3f9a01c2d4e5\n",
    .run = run,
};
