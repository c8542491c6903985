/* Where a request goes that is for a server inside a box: to a port that somebody there listens on, or to one of the
 * servers that we start there ourselves (an app). */
#pragma once

#include "surface/surface.h"

enum form { BY_PATH, BY_ABS_PATH, BY_HOST, BY_HEADER };

struct app {
    const char *name;          /* "/{name}/..." by path, "{name}-{box}.localhost" by host */
    const char *dial;          /* init's word for it: see struct wire_dial */
    const char *tool, *params; /* the call that starts it, if nobody answers */
    bool keeps_prefix;         /* it knows that it lives under /{name} */
    bool pages;                /* for people: they need an origin of their own. Else it is there by path only */
    bool urls;                 /* its JSON names addresses that are ours to name: see cdp_urls */
};

struct place {
    enum form form;
    const struct app *app; /* NULL: a port */
    struct str port;       /* digits; absent for an app */
    struct str box;        /* BY_HOST; absent: the default box of whoever asks */
    struct str domain;     /* BY_HOST without a box: "localhost:8080", what stands behind the port */
    struct str target;     /* path and query for the server */
    struct str prefix;     /* what was cut off in front of it, after "/box/{id}" */
};

bool place_is_below(struct str host,
                    const char *domain); /* "a.example.org" is below "example.org"; nothing is below "" */
/* "8000-sand.example:8080", where names, separated by spaces or commas, has sand.example; also "8000-localhost". A host
 * that is itself one of the names is not. */
bool place_is_port_of(struct str host, const char *names, struct place *ret);
bool place_is_named(struct str host, const char *names); /* host has no port */
bool place_find(const struct web *w, struct place *ret);
/* Does this host, the one of a page, lead to the same box as at does? */
bool place_is_same_box(const struct web *w, const struct place *at, struct str host);
void place_each(void (*cb)(void *arg, const char *pattern), void *arg); /* every path that leads into a box */
/* The address of an app's pages, on an origin of their own; absent: nobody could reach that under this Host. */
struct str place_own_origin(const struct web *w, const struct app *a, const char *box);

void place_add_query(struct buf *b, struct str target); /* its query, from '?' on, without what proves who asks */

/* cdp_urls.c: the addresses in what a browser's debugging port tells become those under which we relay them. */
void cdp_urls(const struct web *w, struct str text, struct buf *out);
/* "ws://HOST/box/ID/cdp/devtools/...": what the client of this request can dial, for a path of the browser's own */
struct str cdp_address(const struct web *w, struct str path);

/* app_page.c: what people see on the way to an app. */
void app_say(struct web *w, int status, const struct app *a, const char *text);
/* By path an app's pages would have our origin, so a browser is sent to theirs, with a ticket if need be; there the
 * ticket goes from the URL, which the page could read, to a cookie, which it cannot. True: answered. */
bool app_leads_on(struct web *w, const struct box *b, const struct place *at);
