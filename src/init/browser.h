/* One browser with its tabs, in a driver's process: what the tools of src/tool/browser.c work on. */
#pragma once

#include "init/cdp.h"
#include "init/driver.h"
#include "init/script.h"

extern const struct driver_kind browser_kind;
/* In init: has a browser of this box a window on its desktop? And: it shall, or shall not, before the first call. */
struct init;
bool browser_headed(const struct init *in);
void browser_display(struct init *in, bool headed);

enum { TABS_MAX = 256 };

/* Where the browser says on which port of the box's loopback other tools find it, and under which path. */
#define BROWSER_PROFILE   BOX_USER_RUN "/browser-browser"
#define BROWSER_PORT_FILE BROWSER_PROFILE "/DevToolsActivePort"

struct browser;

struct browser_wish { /* of a new one */
    int64_t width, height;
    bool screen;          /* its size is that of a window on a screen, not ours to set */
    bool no_file_dialogs; /* pages cannot open them */
    char locale[32];      /* "": as it comes */
};

/* The browser of this driver, started if need be. NULL: e. */
struct browser *browser_get(struct hand *h, const struct browser_wish *w, struct err *e);
struct browser *browser_at_hand(struct hand *h); /* the same if it runs already, else NULL */
/* browser_hung.c */
int browser_unhang(struct hand *h, struct browser *b, struct err *e); /* the page at hand can be left */
/* Where it is, as the browser knows it, without asking the page. */
int browser_place(struct hand *h, struct browser *b, struct str *ret_url, struct str *ret_title, struct err *e);
/* browser_sandbox.c: Chromium's own sandbox really is on; why is "" then, and the browser's as long as it lives */
bool browser_sandboxed(struct hand *h, struct browser *b, struct str *ret_why);
/* browser_record.c: driver_kind.before and after */
void browser_before(struct hand *h, const struct tool *t);
void browser_after(struct hand *h, const struct tool *t, int result);
/* Ends it; the next call starts another, with what the wish says. */
void browser_end(struct hand *h, struct browser *b, const struct browser_wish *w);
const struct browser_wish *browser_wishes(const struct browser *b);
/* A command to the browser itself; to the page at hand. */
int browser_ask(struct hand *h, struct browser *b, const char *method, struct str params, const struct json **ret,
                struct err *e);
int browser_page(struct hand *h, struct browser *b, const char *method, struct str params, const struct json **ret,
                 struct err *e);
/* A function of script/page.js with its argument; *ret is its result, NULL if it found nothing. */
int browser_act(struct hand *h, struct browser *b, const char *act, struct str how, const struct json **ret,
                struct err *e);
/* The documents of the page at hand: its own first, then those of all frames in it. */
enum { FRAMES_MAX = 64 };
struct frame {
    char session[64], id[64];
    int64_t context;
};
size_t browser_frames(struct browser *b, struct frame *frames, size_t max);
int browser_frame_place(struct hand *h, struct browser *b, const struct frame *f, double *ret_x, double *ret_y,
                        struct err *e); /* its upper left corner in the viewport */
int browser_act_in(struct hand *h, struct browser *b, const struct frame *f, const char *act, struct str how,
                   const struct json **ret, struct err *e);
/* A command to the document of a frame, NULL: to the page; and the id of the object that an expression gives there. */
int browser_call_in(struct hand *h, struct browser *b, const struct frame *f, const char *method, struct str params,
                    const struct json **ret, struct err *e);
int browser_object(struct hand *h, struct browser *b, const struct frame *f, struct str expression,
                   const struct json **ret_id, struct err *e);
int browser_evaluate_in(struct hand *h, struct browser *b, const struct frame *f, struct str expression,
                        const struct json **ret, struct err *e);
/* Evaluates; *ret is {value, type, ...} as the browser describes it. An exception of the page is ERR_INVALID. */
int browser_evaluate(struct hand *h, struct browser *b, struct str expression, const struct json **ret, struct err *e);
int browser_goto(struct hand *h, struct browser *b, struct str url, const char *until, int64_t deadline_ms,
                 int64_t *ret_status, struct err *e);
int browser_history(struct hand *h, struct browser *b, int by, const char *until, int64_t deadline_ms,
                    struct err *e); /* 0: reload */
/* until: load, domcontentloaded, networkidle. 1: reached, 0: not in time. */
int browser_until(struct hand *h, struct browser *b, const char *until, int64_t deadline_ms, struct err *e);
int browser_pause(struct hand *h, struct browser *b, int64_t until_ms, struct err *e); /* meanwhile events are taken */
/* Waits until the browser told something (a page does of its changes, once they are watched for: page.js), or until_ms. */
int browser_stirs(struct hand *h, struct browser *b, int64_t until_ms, struct err *e);
/* After an action: if it began a navigation, waits for the new page. */
int browser_settle(struct hand *h, struct browser *b, struct err *e);

/* browser_input.c */
struct pointer { /* what the hands hold */
    double x, y;
    int buttons, modifiers; /* as the browser counts them */
};
struct pointer *browser_pointer(struct browser *b);
int browser_move(struct hand *h, struct browser *b, double x, double y, struct err *e);
int browser_button(struct hand *h, struct browser *b, bool down, const char *button, int64_t clicks, struct err *e);
int browser_click(struct hand *h, struct browser *b, const char *button, int64_t clicks, struct err *e);
int browser_drag(struct hand *h, struct browser *b, double x, double y, struct err *e); /* from where the mouse is */
int browser_wheel(struct hand *h, struct browser *b, double dx, double dy, struct err *e);
int browser_key(struct hand *h, struct browser *b, struct str name, bool down, struct err *e);
int browser_chord(struct hand *h, struct browser *b, const struct str *names, size_t count, struct err *e);
int browser_press(struct hand *h, struct browser *b, struct str spelt, struct err *e); /* "Control+a" */
/* keys: each character by itself, as keys where there is one; else all at once, as if pasted */
int browser_type(struct hand *h, struct browser *b, struct str text, bool keys, double delay, struct err *e);

/* browser_route.c, browser_network.c: of all tabs, from their first request on. Patterns are globs: * is anything but a slash, ** is
 * anything, {a,b} is one of these. */
struct route {
    struct str pattern, body, content_type;
    struct pairs headers;
    int64_t status;
    bool abort;
};
int browser_route(struct browser *b, const struct route *r, struct err *e); /* the newest one that fits is used */
size_t browser_unroute(struct browser *b, struct str pattern);              /* how many there were; absent: all */
size_t browser_routes(const struct browser *b);
/* Sent with every request, or with those to an origin; instead of those that were sent before. */
int browser_headers(struct browser *b, struct str origin, const struct pairs *headers, struct err *e);
int browser_sites(struct browser *b, const struct strs *blocked, const struct strs *allowed, struct err *e);
struct str browser_requests(struct hand *h, struct browser *b, struct str filter,
                            int64_t limit);                                                /* JSON, oldest first */
struct str browser_har(struct hand *h, struct browser *b, bool bodies, size_t *ret_count); /* JSON */
void browser_forget(struct browser *b, bool rules_too);
void browser_mark(struct browser *b); /* a call begins: see the next one */
/* Has a request been sent, or answered, since the call before this one began? Its JSON, or absent. */
struct str browser_seen(struct hand *h, struct browser *b, struct str pattern, bool answered);
bool browser_glob(struct str pattern, struct str text);
/* The tab at hand shows an empty page of that origin; nothing is asked of the network. */
int browser_visit(struct hand *h, struct browser *b, struct str origin, struct err *e);

/* browser_video.c: one recording at a time, of the tab that was at hand when it began. */
struct film {
    const char *state; /* idle, recording, paused, stopped */
    double seconds;
    size_t frames;
};
int browser_film(struct hand *h, struct browser *b, int64_t fps, int64_t quality, struct err *e);
void browser_film_pause(struct browser *b, bool pause);
void browser_film_state(const struct browser *b, struct film *ret);
int browser_film_end(struct hand *h, struct browser *b, const char *path, struct film *ret, struct err *e);

struct tab {
    char target[64];
    struct str url, title; /* in the hand's arena */
    bool active;
};
int browser_tabs(struct hand *h, struct browser *b, struct tab *tabs, size_t *ret_n, struct err *e);
int browser_tab_open(struct hand *h, struct browser *b, struct str url, struct err *e);
int browser_tab_go(struct hand *h, struct browser *b, const char *target, struct err *e);
int browser_tab_close(struct hand *h, struct browser *b, const char *target, struct err *e);

/* What happened since the last call, and is told with its result. */
struct browser_news {
    struct str dialogs;   /* JSON array of {type, message, accepted} */
    struct str downloads; /* JSON array of {url, path, state, received, total} */
    bool restarted;       /* it is a new one: the former one is gone */
    bool crashed;         /* the page crashed and was loaded again */
    bool hung;            /* the page before this one did not answer, and was left by force */
};
struct str browser_downloads(struct hand *h, const struct browser *b); /* JSON array, oldest first */
/* Has a download ended since the call before this one began? Its path, or absent. */
struct str browser_downloaded(struct hand *h, struct browser *b);
bool browser_has_crashed(const struct browser *b); /* its page */
void browser_news(struct hand *h, struct browser *b, struct browser_news *ret);
struct str browser_console(struct hand *h, struct browser *b, bool clear); /* JSON array */
void browser_dialogs(struct browser *b, bool accept, struct str answer);   /* what confirm and prompt get from now on */
int browser_resize(struct hand *h, struct browser *b, int64_t width, int64_t height, struct err *e);
void browser_size(const struct browser *b, int64_t *ret_width, int64_t *ret_height);
struct str browser_version(const struct browser *b);
struct str browser_cdp_path(struct hand *h); /* "/devtools/browser/..." for other tools; "": not to be had */
