/* What the files of the browser's driver share: browser.c (coming and going, navigation, scripts), browser_view.c (tabs
 * and frames, and what they tell), browser_network.c (requests), browser_route.c (what is done to them). */
#pragma once

#include "base/arena.h"
#include "base/limits.h"
#include "init/browser.h"

enum { VIEWS_MAX = 1024, CONTEXTS_MAX = 64 };

struct context { /* a document's own scripts run in it */
    int64_t id;
    char frame[64];
};

/* A tab, or a frame that lives in another process than the page around it. Each has a session of its own, made when the
 * target comes and gone with it. */
struct view {
    struct view *next;
    char target[64], session[64]; /* the target is also the id of its main frame */
    struct view *around;          /* of a frame: in whose document it is. NULL: a tab */
    bool worker; /* it has no document, only requests; a dedicated one is around's, others are nobody's */
    bool ours; /* not another tool's, which speaks to the browser by /cdp: its dialogs and its size are our business */
    bool loaded, content, navigating, crashed;
    bool went;             /* its document is another than when this was reset, or has another address */
    bool settled;          /* it has come to the end of what an action began: browser_settle() */
    bool asked;            /* to go somewhere, and has not answered: whatever ends now is what was before */
    int64_t status;        /* of the main document */
    int64_t first_request; /* of the record, after which its page began */
    int64_t quiet_since_ms;
    struct context contexts[CONTEXTS_MAX];
    size_t context_count;
    bool blank; /* whatever it asks for is answered with an empty page: see browser_visit() */
};

/* A request of the record. */
struct entry {
    struct entry *next;
    struct arena arena; /* of its strings */
    int64_t number;
    char id[64], session[64], frame[64]; /* the browser's */
    char tab[64];                        /* target of the one that it is in; "": of a worker that is in none */
    struct str method, url, type, headers, body, status_text, mime, protocol, answer_headers, address, timing, error,
        redirect; /* headers and timing: JSON objects */
    int64_t status, bytes, wire_bytes;
    double wall, begun, answered, ended; /* seconds; 0: not yet */
    bool mocked, page, sent_headers, got_headers;
};

/* A file that the browser fetched or fetches; what it is called comes from a site. */
struct download {
    char guid[64], state[16];
    char *url, *name, *path; /* owned; NULL: not known */
    double received, total;
    int64_t begun_us; /* wall */
    bool fresh;       /* how far it is was not told yet */
};

/* Something of the page that the mouse carries, which the browser leaves to us while a button is held. */
struct drag {
    char *data; /* JSON of Input.DragData, owned; NULL: nothing */
    bool entered;
};

struct network;
struct routes;
struct video;

struct browser {
    struct cdp *cdp;
    struct view *views, *at; /* in the order in which they came; the tab at hand */
    char context[64];        /* the browser's own, in which we work; other tools make theirs */
    char version[80];
    struct browser_wish wish; /* of how it is to be */
    bool was_crashed, restarted, opening, hung, warm;
    bool stirred; /* something was told since browser_stirs() */
    int64_t stirred_ms;
    int no_sandbox;                                 /* errno: its own sandbox cannot be had here. 0: it was asked for */
    bool sandboxed;                                 /* when it was last looked at */
    char sandbox_why[LIMIT_WIRE_WHY];               /* not */
    bool accept;                                    /* what confirm and prompt get */
    char answer[256];                               /* what prompt gets with it */
    struct buf dialogs, downloads, console;         /* members of arrays */
    struct download files[LIMIT_BROWSER_DOWNLOADS]; /* a ring */
    size_t file_count;                              /* that there ever were */
    size_t last_file;                               /* the newest that is complete, counted from 1; 0: none */
    int64_t downloads_done, downloads_before, downloads_at_call; /* see browser_mark() */
    struct pointer pointer;
    struct drag drag;
    struct network *network;
    struct routes *routes;
    struct video *video; /* NULL: nothing was ever filmed */
};

/* browser_view.c */
void view_event(void *arg, struct str session, struct str method, const struct json *params); /* an on_cdp_event */
void views_drop(struct browser *b);
struct view *view_of(struct browser *b, struct str session);
struct view *tab_of(struct view *v); /* NULL: it is in none */
static inline bool view_is_tab(const struct view *v)
{
    return !v->around && !v->worker;
}
int views_start(struct hand *h, struct browser *b, struct err *e); /* from here on all targets are ours */
int view_ready(struct hand *h, struct browser *b, struct err *e);  /* the one at hand */
bool view_is_dead(void *arg, struct str session);                  /* nobody will answer there */
int view_call(struct hand *h, struct browser *b, const struct view *v, const char *method, struct str params,
              const struct json **ret, struct err *e);
void view_post(struct browser *b, const struct view *v, const char *method, struct str params);

/* browser_network.c */
struct network *network_new(void);
const struct entry *network_first(const struct browser *b); /* oldest */
/* Requests of that tab, and of the frames in it, that nobody has answered; those of its former pages do not count. What
 * was answered but is never read by the page has no end that we would be told, so that ends are not what counts. */
size_t network_waiting(struct browser *b, const struct view *tab);
int64_t network_last(const struct browser *b);         /* number of the newest request */
void network_mocked(struct browser *b, struct str id); /* a route answered it */
/* True: it was one of the network's. */
bool network_event(struct browser *b, struct view *v, struct str method, const struct json *params);

/* browser_route.c */
struct routes *routes_new(void);
void routes_clear(struct browser *b);                                            /* all but the sites */
void routes_attach(struct browser *b, const struct view *v);                     /* a view that has just come */
void route_event(struct browser *b, const struct view *v, const struct json *p); /* a request stopped for us */

/* browser_input.c */
void drag_event(struct browser *b, const struct json *p); /* a page began a drag */
void drag_end(struct browser *b);

/* browser_sandbox.c */
int sandbox_try(void);                                /* 0, or the errno of why Chromium's sandbox cannot be made */
void sandbox_look(struct hand *h, struct browser *b); /* is it on? Told to init */

/* browser_video.c */
void video_event(struct browser *b, const struct view *from, const struct json *p);

/* browser_download.c */
void download_event(struct browser *b, const struct json *p, bool begins);
void downloads_tell(struct browser *b); /* how far those are that are under way */
void downloads_end(struct browser *b);  /* with the browser */
