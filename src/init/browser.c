#include "init/browser_parts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "base/word.h"
#include "init/desktop.h"
#include "init/init.h"
#include "init/script.h"
#include "wire/boot.h"

__asm__(".section .rodata\nscript_page:\n.incbin \"src/init/script/page.js\"\nscript_page_end:\n.byte 0\n.previous\n");
extern const char script_page[], script_page_end[];

enum {
    NEWS_BYTES = 64 * 1024,
    SETTLE_MS = 500,
    FRAME_MS = 16, /* nobody looks oftener than a screen shows something */
    IDLE_NET_MS = 500,
    HISTORY_MS = 5000,
    RESPONSE_MS = 10000,
    WARM_MS = 120000,
    HOMEPAGE_MS = 10000
};

#define DOWNLOADS BOX_HOME "/Downloads"

static size_t watch(struct hand *h, struct pollfd *fds, size_t max);
static void idle(struct hand *h);
static void warm(struct hand *h);
const struct driver_kind browser_kind = {
    .name = "browser", .watch = watch, .idle = idle, .warm = warm, .before = browser_before, .after = browser_after
};

/* --- the page at hand --- */

int browser_page(struct hand *h, struct browser *b, const char *method, struct str params, const struct json **ret,
                 struct err *e)
{
    if (!b->at)
        return err_set(e, ERR_SYSTEM, "the tab is gone; the next call opens a new one");
    return view_call(h, b, b->at, method, params, ret, e);
}

int browser_ask(struct hand *h, struct browser *b, const char *method, struct str params, const struct json **ret,
                struct err *e)
{
    return cdp_call(h, b->cdp, (struct str){ 0 }, method, params, ret, e);
}

int browser_call_in(struct hand *h, struct browser *b, const struct frame *f, const char *method, struct str params,
                    const struct json **ret, struct err *e)
{
    return f ? cdp_call(h, b->cdp, str_of(f->session), method, params, ret, e)
             : browser_page(h, b, method, params, ret, e);
}

static bool has_tab(void *arg)
{
    struct browser *b = arg;

    for (struct view *v = b->views; v && !b->at; v = v->next)
        b->at = view_is_tab(v) ? v : NULL;
    return b->at;
}

/* --- coming and going --- */

static const char *program(bool headed, bool *ret_shell)
{
    static const char shell[] = "/usr/lib/chromium/chromium-headless-shell", full[] = "/usr/lib/chromium/chromium";

    *ret_shell = !headed && access(shell, X_OK) == 0;
    return *ret_shell ? shell : full;
}

/* The box's own proxy, if somebody has set it up and it listens (tool/proxy.c). */
static bool proxy_listens(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(8118), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return access(BOX_HOME "/.config/sandglass/proxy.json", R_OK) == 0 && fd >= 0 &&
           connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
}

enum { FLAGS_MAX = 128 };

/* What was wished for, what the administrator adds, and the proxy, in front of the page to begin with. */
static void add_flags(struct hand *h, const struct browser *b, const char **argv, size_t n)
{
    const struct boot_habits *set = &h->init->boot.habits;
    char *rest = arena_z(h->arena, str_of(set->browser_args)), *word;

    if (b->wish.locale[0]) {
        argv[n++] = arena_printf(h->arena, "--lang=%s", b->wish.locale);
        argv[n++] = arena_printf(h->arena, "--accept-lang=%s", b->wish.locale);
    }
    if (proxy_listens())
        argv[n++] = "--proxy-server=http://127.0.0.1:8118";
    if (set->dns_over_https[0]) {
        argv[n++] = "--dns-over-https-mode=secure";
        argv[n++] = arena_printf(h->arena, "--dns-over-https-templates=%s", set->dns_over_https);
    }
    while (n < FLAGS_MAX - 2 && (word = word_next(&rest)))
        argv[n++] = word;
    argv[n++] = "about:blank"; /* we go to the homepage ourselves, and know when it is there */
    argv[n] = NULL;
}

/* What the first call does must not be overtaken by it. One that does not come is shown as every page that does not. */
static void go_home(struct hand *h, struct browser *b)
{
    const char *home = h->init->boot.habits.homepage;
    const char *colon = home + strcspn(home, ":./");
    int64_t status, end = now_ms() + HOMEPAGE_MS;
    struct err ignored;

    if (home[0] && (*colon != ':' || isdigit((unsigned char)colon[1]))) /* example.com, localhost:3000 */
        home = arena_printf(h->arena, "http://%s", home);
    if (home[0])
        (void)browser_goto(h, b, str_of(home), "load", h->deadline_ms && h->deadline_ms < end ? h->deadline_ms : end,
                           &status, &ignored);
}

static int start(struct hand *h, struct browser *b, struct err *e)
{
    char size[60];
    bool shell;
    const char *path = program(b->wish.screen, &shell);

    b->no_sandbox = sandbox_try();
    snprintf(size, sizeof size, "--window-size=%d,%d", (int)b->wish.width, (int)b->wish.height);
    const char *argv[FLAGS_MAX] = { path,
                                    shell || b->wish.screen ? "--no-first-run" : "--headless=new",
                                    "--remote-debugging-pipe", /* ours; the port is for other tools: docs/browser.md */
                                    "--remote-debugging-port=0",
                                    b->no_sandbox ? "--no-sandbox" : "--disable-setuid-sandbox",
                                    "--user-data-dir=" BROWSER_PROFILE,
                                    size,
                                    "--disable-gpu",
                                    "--no-default-browser-check",
                                    "--disable-background-networking",
                                    "--disable-component-update",
                                    "--disable-sync",
                                    "--disable-quic",
                                    "--disable-breakpad",
                                    "--disable-dev-shm-usage",
                                    "--mute-audio",
                                    "--deny-permission-prompts", /* asks.js tells of them */
                                    "--test-type", /* no bar in the window about --no-sandbox: the box contains it */
                                    "--renderer-process-limit=24", /* more tabs than that share processes */
                                    b->wish.screen ? "--start-maximized" : "--hide-scrollbars",
                                    "--disable-features=Translate,MediaRouter,OptimizationHints" };
    const struct json *r;
    size_t fixed = 0;

    if (b->wish.screen && desktop_wait(h, e) < 0)
        return -EIO;
    while (argv[fixed])
        fixed++;
    (void)unlink(BROWSER_PORT_FILE); /* a former browser's: somebody else may listen there now */
    add_flags(h, b, argv, fixed);
    b->cdp = cdp_start(h, &(struct cdp_opts){ .argv = argv, .event = view_event, .dead = view_is_dead, .arg = b }, e);
    if (!b->cdp)
        return -ENOENT;
    int n = cdp_call(h, b->cdp, (struct str){ 0 }, "Browser.getVersion", (struct str){ 0 }, &r, e);
    if (n < 0)
        return n;
    snprintf(b->version, sizeof b->version, "%.*s", STR_ARG(json_get_str(r, "product")));
    (void)mkdir(DOWNLOADS, 0755);
    n = cdp_call(h, b->cdp, (struct str){ 0 }, "Browser.setDownloadBehavior",
                 STR("{\"behavior\":\"allow\",\"downloadPath\":\"" DOWNLOADS "\",\"eventsEnabled\":true}"), NULL, e);
    if (n >= 0)
        n = views_start(h, b, e);
    if (n < 0)
        return n;
    n = cdp_wait(h, b->cdp, has_tab, b, h->deadline_ms, e);
    if (n == 0)
        return err_set(e, ERR_SYSTEM, "the browser opened no page in time");
    n = n < 0 ? n : view_ready(h, b, e);
    if (n >= 0) {
        sandbox_look(h, b);
        go_home(h, b);
    }
    return n;
}

static void stop(struct hand *h, struct browser *b)
{
    cdp_end(h, b->cdp);
    b->cdp = NULL;
    b->at = NULL;
    b->pointer = (struct pointer){ 0 };
    views_drop(b);
}

void browser_end(struct hand *h, struct browser *b, const struct browser_wish *w)
{
    stop(h, b);
    b->wish = *w;
}

const struct browser_wish *browser_wishes(const struct browser *b)
{
    return &b->wish;
}

/* It may be dying, which the kernel tells late, or be stopped: better found out now than in the middle of the call. */
static bool responds(struct hand *h, struct browser *b)
{
    struct err ignored;
    int64_t deadline = h->deadline_ms;

    h->deadline_ms = now_ms() + RESPONSE_MS;
    int n = cdp_alive(b->cdp)
                ? cdp_call(h, b->cdp, (struct str){ 0 }, "Browser.getVersion", (struct str){ 0 }, NULL, &ignored)
                : -EPIPE;
    h->deadline_ms = deadline;
    return n != -EPIPE && n != -ETIMEDOUT;
}

bool browser_headed(const struct init *in)
{
    return in->headed ? in->headed > 0 : in->boot.habits.browser_headed;
}

void browser_display(struct init *in, bool headed)
{
    struct driver *d = headed == browser_headed(in) ? NULL : driver_find(in, &browser_kind, STR("browser"));

    in->headed = headed ? 1 : -1;
    if (d) /* one that waited, started the other way */
        driver_end(d);
}

struct browser *browser_get(struct hand *h, const struct browser_wish *w, struct err *e)
{
    struct browser *b = h->self->state;

    if (!b) {
        b = calloc(1, sizeof *b);
        if (!b)
            abort();
        buf_init(&b->dialogs, NEWS_BYTES + 4096);
        buf_init(&b->downloads, NEWS_BYTES + 4096);
        buf_init(&b->console, NEWS_BYTES + 4096);
        b->wish.screen = browser_headed(h->init);
        b->wish.width = w && w->width ? w->width : 1280;
        b->wish.height = w && w->height ? w->height : 800;
        b->network = network_new();
        b->routes = routes_new();
        b->restarted = h->self->restarts > 0;
        h->self->state = b;
    }
    if (b->cdp && !responds(h, b)) {
        stop(h, b);
        b->restarted = !b->warm; /* nobody has seen one that ended in the pool */
    }
    if (!b->cdp && start(h, b, e) < 0) {
        stop(h, b);
        return NULL;
    }
    if (b->cdp)
        cdp_take(b->cdp);
    if (!b->at || b->at->crashed) { /* the renderer is gone, the browser is not: a new page in its place */
        char *gone = b->at ? arena_printf(h->arena, "{\"targetId\":\"%s\"}", b->at->target) : NULL;
        if (browser_tab_open(h, b, STR("about:blank"), e) < 0)
            return NULL;
        if (gone)
            cdp_post(b->cdp, (struct str){ 0 }, "Target.closeTarget", str_of(gone));
        b->was_crashed |= gone != NULL;
    }
    if (b->warm && !h->self->warming) {
        b->warm = false;
        if (w && (w->width || w->height))
            (void)browser_resize(h, b, w->width ? w->width : b->wish.width, w->height ? w->height : b->wish.height, e);
    }
    return b;
}

struct browser *browser_at_hand(struct hand *h)
{
    struct browser *b = h->self->state;

    return b && b->cdp && b->at && cdp_alive(b->cdp) ? b : NULL;
}

/* In a parked seat: the first call of whoever gets it finds a page. If it does not come, that call tries for itself. */
static void warm(struct hand *h)
{
    const struct json *ignored;
    struct err e;

    h->deadline_ms = now_ms() + WARM_MS;
    struct browser *b = browser_get(h, NULL, &e);
    if (!b)
        return;
    b->warm = true;
    (void)browser_page(h, b, "Page.captureScreenshot", (struct str){ 0 }, &ignored, &e); /* so that it has drawn once */
}

static size_t watch(struct hand *h, struct pollfd *fds, size_t max)
{
    struct browser *b = h->self->state;

    if (!b || !b->cdp || !max)
        return 0;
    fds[0] = (struct pollfd){ cdp_fd(b->cdp), POLLIN, 0 };
    return 1;
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void idle(struct hand *h)
{
    struct browser *b = h->self->state;

    if (b && b->cdp)
        cdp_take(b->cdp);
}

/* --- waiting --- */

struct waiting {
    struct browser *b;
    const char *until;
};

static bool reached(void *arg)
{
    struct waiting *w = arg;
    struct view *v = w->b->at;

    if (!v || v->crashed)
        return true;
    if (strcmp(w->until, "domcontentloaded") == 0)
        return v->content;
    if (strcmp(w->until, "networkidle") == 0)
        return v->loaded && network_waiting(w->b, v) == 0 && now_ms() - v->quiet_since_ms >= IDLE_NET_MS;
    return v->loaded;
}

int browser_until(struct hand *h, struct browser *b, const char *until, int64_t deadline_ms, struct err *e)
{
    struct waiting w = { b, until };
    bool idle_too = strcmp(until, "networkidle") == 0;

    for (;;) {
        int64_t now = now_ms();
        int64_t quiet = idle_too && b->at ? b->at->quiet_since_ms + IDLE_NET_MS : 0;
        int64_t slice = quiet > now && (!deadline_ms || quiet < deadline_ms) ? quiet : deadline_ms;
        int r = cdp_wait(h, b->cdp, reached, &w, slice, e);
        if (r < 0)
            return r;
        if (!b->at || b->at->crashed)
            return err_set(e, ERR_SYSTEM, b->at ? "the page crashed" : "the tab is gone");
        if (r == 1)
            return 1;
        if (deadline_ms && now_ms() >= deadline_ms)
            return 0;
    }
}

static bool has_started(void *arg)
{
    struct browser *b = arg;
    return !b->at || b->at->navigating || b->at->crashed;
}

int browser_pause(struct hand *h, struct browser *b, int64_t until_ms, struct err *e)
{
    return cdp_wait(h, b->cdp, never, NULL, until_ms, e);
}

static bool has_stirred(void *arg)
{
    return ((struct browser *)arg)->stirred;
}

int browser_stirs(struct hand *h, struct browser *b, int64_t until_ms, struct err *e)
{
    int r = cdp_wait(h, b->cdp, has_stirred, b, until_ms, e);
    int64_t frame = b->stirred_ms + FRAME_MS;

    if (r == 1 && now_ms() < frame)
        r = browser_pause(h, b, frame < until_ms ? frame : until_ms, e);
    b->stirred = false;
    b->stirred_ms = now_ms();
    return r;
}

static bool has_settled(void *arg)
{
    return has_started(arg) || ((struct browser *)arg)->at->settled;
}

/* What an action begins by itself (a link, a form, a script) was told when the page speaks from behind the tasks that it
 * had then. A page that is busy is not waited for long. */
int browser_settle(struct hand *h, struct browser *b, struct err *e)
{
    int64_t soon = now_ms() + SETTLE_MS;

    if (!has_started(b)) {
        b->at->settled = false;
        view_post(b, b->at, "Runtime.evaluate",
                  STR("{\"expression\":\"setTimeout(() => setTimeout(() => __sandglass_stir('settled')))\"}"));
    }
    int r = cdp_wait(h, b->cdp, has_settled, b, h->deadline_ms && h->deadline_ms < soon ? h->deadline_ms : soon, e);
    if (r >= 0 && b->at && b->at->navigating)
        r = browser_until(h, b, "domcontentloaded", h->deadline_ms ? h->deadline_ms - 50 : now_ms() + 10000, e);
    return r < 0 ? r : 0;
}

/* --- navigation --- */

static int check_wait(int r, const char *until, struct err *e)
{
    if (r == 0) {
        err_set(e, ERR_NONE, "the page did not reach '%s' in time", until);
        return -ETIMEDOUT;
    }
    return r < 0 ? r : 0;
}

int browser_goto(struct hand *h, struct browser *b, struct str url, const char *until, int64_t deadline_ms,
                 int64_t *ret_status, struct err *e)
{
    const struct json *r;
    struct buf p;
    struct jw j = { .out = &p };

    buf_init(&p, 4 * MiB);
    jw_obj(&j);
    jw_kstr(&j, "url", url);
    jw_obj_end(&j);
    int n = browser_unhang(h, b, e);
    struct view *v = b->at;
    if (v) {
        v->status = 0;
        v->loaded = v->content = false;
        v->navigating = v->asked = true;
        v->quiet_since_ms = now_ms();
        v->first_request = network_last(b);
    }
    if (n >= 0)
        n = browser_page(h, b, "Page.navigate", buf_view(&p), &r, e);
    buf_done(&p);
    if (b->at)
        b->at->asked = false;
    if (n < 0)
        return n;
    struct str error = json_get_str(r, "errorText");
    v = b->at;
    if (v && (error.n || !json_get_str(r, "loaderId").p)) { /* within the document: nothing is loaded */
        v->navigating = false;
        v->loaded = v->content = true;
    }
    if (error.n)
        return err_set(e, ERR_NOT_FOUND, "%.*s: %.*s", (int)(url.n < 150 ? url.n : 150), url.p, STR_ARG(error));
    if (strcmp(until, "commit") != 0)
        n = check_wait(browser_until(h, b, until, deadline_ms, e), until, e);
    *ret_status = b->at ? b->at->status : 0;
    return n;
}

static bool has_gone(void *arg)
{
    struct browser *b = arg;
    return !b->at || b->at->went || b->at->crashed;
}

int browser_history(struct hand *h, struct browser *b, int by, const char *until, int64_t deadline_ms, struct err *e)
{
    const struct json *r;
    char params[80];
    int n = browser_unhang(h, b, e);

    if (n < 0)
        return n;
    if (by == 0) {
        if (b->at)
            b->at->loaded = b->at->content = false;
        n = browser_page(h, b, "Page.reload", (struct str){ 0 }, NULL, e);
        return n < 0 ? n : check_wait(browser_until(h, b, until, deadline_ms, e), until, e);
    }
    n = browser_page(h, b, "Page.getNavigationHistory", (struct str){ 0 }, &r, e);
    if (n < 0)
        return n;
    int64_t at = json_get_int(r, "currentIndex", 0) + by, i = 0;
    const struct json *entries = json_get(r, "entries"), *k = entries ? entries->first : NULL;
    while (k && i++ < at)
        k = k->next;
    if (at < 0 || !k)
        return err_set(e, ERR_NOT_FOUND, "there is no page %s this one", by < 0 ? "before" : "after");
    snprintf(params, sizeof params, "{\"entryId\":%lld}", (long long)json_get_int(k, "id", 0));
    if (b->at)
        b->at->went = false;
    n = browser_page(h, b, "Page.navigateToHistoryEntry", str_of(params), NULL, e);
    if (n >= 0)
        n = cdp_wait(h, b->cdp, has_gone, b, now_ms() + HISTORY_MS, e);
    return n < 0 ? n : browser_settle(h, b, e);
}

/* --- scripts --- */

/* In the console's mode a script may await and declare names again, but a promise that it returns is not awaited. */
static int evaluate(struct hand *h, struct browser *b, const struct frame *f, struct str expression, bool console,
                    const struct json **ret, struct err *e)
{
    const struct json *r;
    struct buf p;
    struct jw j = { .out = &p };

    buf_init(&p, 32 * MiB);
    jw_obj(&j);
    jw_kstr(&j, "expression", expression);
    jw_kbool(&j, "awaitPromise", true);
    jw_kbool(&j, "returnByValue", true);
    jw_kbool(&j, "userGesture", true);
    jw_kbool(&j, "replMode", console);
    if (h->deadline_ms) /* a script that never ends is ended with the call that ran it */
        jw_kint(&j, "timeout", h->deadline_ms > now_ms() + 100 ? h->deadline_ms - now_ms() - 50 : 50);
    if (f)
        jw_kint(&j, "contextId", f->context);
    jw_obj_end(&j);
    int n = browser_call_in(h, b, f, "Runtime.evaluate", buf_view(&p), &r, e);
    buf_done(&p);
    if (n == -EINVAL && h->deadline_ms && now_ms() + 60 >= h->deadline_ms) { /* "Internal error", says the browser */
        err_set(e, ERR_NONE, "the script did not end in time");
        return -ETIMEDOUT;
    }
    if (n < 0)
        return n;
    const struct json *thrown = json_get(r, "exceptionDetails");
    if (thrown) {
        struct str text = json_get_str(json_get(thrown, "exception"), "description");
        if (!text.p)
            text = json_get_str(thrown, "text");
        return err_set(e, ERR_INVALID, "%.*s", (int)(text.n < 230 ? text.n : 230),
                       text.p ? text.p : "the page threw something");
    }
    *ret = json_get(r, "result");
    return 0;
}

int browser_evaluate(struct hand *h, struct browser *b, struct str expression, const struct json **ret, struct err *e)
{
    int n = evaluate(h, b, NULL, expression, false, ret, e);

    if (n == -EINVAL && strstr(e->msg, "already been declared")) /* by an earlier script: a block has its own names */
        n = evaluate(h, b, NULL, str_of(arena_printf(h->arena, "{%.*s\n}", STR_ARG(expression))), false, ret, e);
    if (n == -EINVAL && strstr(e->msg, "await is only valid"))
        n = evaluate(h, b, NULL, expression, true, ret, e);
    return n;
}

int browser_evaluate_in(struct hand *h, struct browser *b, const struct frame *f, struct str expression,
                        const struct json **ret, struct err *e)
{
    return evaluate(h, b, f, expression, false, ret, e);
}

int browser_object(struct hand *h, struct browser *b, const struct frame *f, struct str expression,
                   const struct json **ret_id, struct err *e)
{
    const struct json *r = NULL;
    AUTO(buf_done) struct buf o = { .cap = 1 * MiB };
    struct jw j = { .out = &o };

    jw_obj(&j);
    jw_kstr(&j, "expression", expression);
    if (f)
        jw_kint(&j, "contextId", f->context);
    jw_obj_end(&j);
    int n = browser_call_in(h, b, f, "Runtime.evaluate", buf_view(&o), &r, e);
    *ret_id = n < 0 ? NULL : json_get(json_get(r, "result"), "objectId");
    return n < 0 || *ret_id ? n : err_set(e, ERR_NOT_FOUND, "the element is gone");
}

int browser_act_in(struct hand *h, struct browser *b, const struct frame *f, const char *act, struct str how,
                   const struct json **ret, struct err *e)
{
    const struct json *r = NULL;
    struct json *value = NULL;
    struct buf x;

    buf_init(&x, 16 * MiB);
    buf_add(&x, script_page, (size_t)(script_page_end - script_page));
    buf_printf(&x, "\n__sandglass(\"%s\", %.*s)", act, STR_ARG(how));
    int n = evaluate(h, b, f, buf_view(&x), false, &r, e);
    buf_done(&x);
    if (n < 0)
        return n;
    struct str text = json_get_str(r, "value");
    if (!text.p || json_parse(h->arena, text, &value, e) < 0)
        return err_set(e, ERR_SYSTEM, "the page answered with something else");
    *ret = value->type == JSON_NULL ? NULL : value;
    return 0;
}

int browser_act(struct hand *h, struct browser *b, const char *act, struct str how, const struct json **ret,
                struct err *e)
{
    return browser_act_in(h, b, NULL, act, how, ret, e);
}

/* --- news --- */

static struct str array_of(struct hand *h, struct buf *b)
{
    struct str s = str_of(arena_printf(h->arena, "[%.*s]", STR_ARG(buf_view(b))));

    buf_reset(b);
    return s;
}

bool browser_has_crashed(const struct browser *b)
{
    return !b->at || b->at->crashed;
}

void browser_news(struct hand *h, struct browser *b, struct browser_news *ret)
{
    *ret = (struct browser_news){ .restarted = b->restarted, .crashed = (b->at && b->at->crashed) || b->was_crashed };
    downloads_tell(b);
    if (b->dialogs.n)
        ret->dialogs = array_of(h, &b->dialogs);
    if (b->downloads.n)
        ret->downloads = array_of(h, &b->downloads);
    ret->hung = b->hung;
    b->restarted = b->was_crashed = b->hung = false;
}

struct str browser_console(struct hand *h, struct browser *b, bool clear)
{
    struct str s = str_of(arena_printf(h->arena, "[%.*s]", STR_ARG(buf_view(&b->console))));

    if (clear)
        buf_reset(&b->console);
    return s;
}

void browser_dialogs(struct browser *b, bool accept, struct str answer)
{
    b->accept = accept;
    snprintf(b->answer, sizeof b->answer, "%.*s", STR_ARG(answer));
}

struct str browser_version(const struct browser *b)
{
    return str_of(b->version);
}

struct pointer *browser_pointer(struct browser *b)
{
    return &b->pointer;
}

void browser_size(const struct browser *b, int64_t *ret_width, int64_t *ret_height)
{
    *ret_width = b->wish.width;
    *ret_height = b->wish.height;
}

struct str browser_cdp_path(struct hand *h)
{
    auto_close int fd = open(BROWSER_PORT_FILE, O_RDONLY | O_CLOEXEC);
    char text[200];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    text[n < 0 ? 0 : n] = 0;
    char *line = strchr(text, '\n');
    return line ? str_of(arena_printf(h->arena, "%s", line + 1)) : STR("");
}
