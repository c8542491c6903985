/* Tabs and frames. The browser tells of each target when it comes, and holds it until we have looked: so no request, no
 * dialog and no script of it is missed. All that is done in answer to an event is posted, never waited for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/browser_parts.h"

enum { NEWS_BYTES = 64 * 1024 };

__asm__(".section .rodata\nscript_asks:\n.incbin \"src/init/script/asks.js\"\nscript_asks_end:\n.byte 0\n.previous\n");
extern const char script_asks[], script_asks_end[];

#define AUTO_ATTACH                                                                                                    \
    "{\"autoAttach\":true,\"waitForDebuggerOnStart\":true,\"flatten\":true,"                                           \
    "\"filter\":[{\"type\":\"page\"},{\"type\":\"iframe\"},{\"type\":\"worker\"},{\"type\":\"shared_worker\"},"        \
    "{\"type\":\"service_worker\"}]}"

int view_call(struct hand *h, struct browser *b, const struct view *v, const char *method, struct str params,
              const struct json **ret, struct err *e)
{
    return cdp_call(h, b->cdp, str_of(v->session), method, params, ret, e);
}

void view_post(struct browser *b, const struct view *v, const char *method, struct str params)
{
    cdp_post(b->cdp, str_of(v->session), method, params);
}

struct view *view_of(struct browser *b, struct str session)
{
    for (struct view *v = b->views; v; v = v->next)
        if (session.n && str_is(session, v->session))
            return v;
    return NULL;
}

static struct view *view_by_target(struct browser *b, struct str target)
{
    for (struct view *v = b->views; v; v = v->next)
        if (str_is(target, v->target))
            return v;
    return NULL;
}

struct view *tab_of(struct view *v)
{
    while (v && v->around)
        v = v->around;
    return v && !v->worker ? v : NULL; /* shared and service workers are in no tab */
}

/* --- coming and going --- */

static void post_size(struct browser *b, const struct view *v)
{
    char params[200];

    snprintf(params, sizeof params, "{\"width\":%d,\"height\":%d,\"deviceScaleFactor\":1,\"mobile\":false}",
             (int)b->wish.width, (int)b->wish.height);
    view_post(b, v, "Emulation.setDeviceMetricsOverride", str_of(params));
}

/* Its scripts find what asks.js leaves them, in all its frames. */
static void post_asks(struct browser *b, const struct view *v)
{
    struct buf p;
    struct jw j = { .out = &p };

    buf_init(&p, NEWS_BYTES);
    jw_obj(&j);
    jw_kstr(&j, "source", (struct str){ script_asks, (size_t)(script_asks_end - script_asks) });
    jw_kbool(&j, "runImmediately", true);
    jw_obj_end(&j);
    view_post(b, v, "Page.addScriptToEvaluateOnNewDocument", buf_view(&p));
    buf_done(&p);
}

static void on_attached(struct browser *b, struct str session, const struct json *p)
{
    static const char *const on[] = { "Network.enable", "Runtime.enable", "Page.enable", "Inspector.enable" };
    enum { OF_WORKERS = 2 }; /* which have no page */
    const struct json *info = json_get(p, "targetInfo");
    struct str context = json_get_str(info, "browserContextId");
    struct view *v = calloc(1, sizeof *v), **end = &b->views;
    struct arena scratch = { 0 };
    size_t count = 0;

    if (!v)
        abort();
    snprintf(v->target, sizeof v->target, "%.*s", STR_ARG(json_get_str(info, "targetId")));
    snprintf(v->session, sizeof v->session, "%.*s", STR_ARG(json_get_str(p, "sessionId")));
    struct str type = json_get_str(info, "type");
    v->worker = type.n >= 6 && memcmp(type.p + type.n - 6, "worker", 6) == 0;
    v->around = v->worker || str_is(type, "iframe") ? view_of(b, session) : NULL;
    v->loaded = v->content = true;
    struct view *opener = view_by_target(b, json_get_str(info, "openerId"));
    v->ours = v->around ? v->around->ours : b->opening || !b->views || (opener && opener->ours);
    for (; *end; end = &(*end)->next)
        count++;
    if (!b->views && !b->context[0])
        snprintf(b->context, sizeof b->context, "%.*s", STR_ARG(context));
    if (count >= VIEWS_MAX || view_by_target(b, str_of(v->target)) || !str_is(context, b->context)) {
        /* enough of it, or another tool's own (it speaks to the browser by /cdp): it runs, unseen by us */
        view_post(b, v, "Runtime.runIfWaitingForDebugger", (struct str){ 0 });
        cdp_post(b->cdp, session, "Target.detachFromTarget",
                 str_of(arena_printf(&scratch, "{\"sessionId\":\"%s\"}", v->session)));
        arena_done(&scratch);
        free(v);
        return;
    }
    *end = v;
    for (size_t i = 0; i < (v->worker ? OF_WORKERS : ARRAY_LEN(on)); i++)
        view_post(b, v, on[i], (struct str){ 0 });
    if (!v->worker)
        view_post(b, v, "Runtime.addBinding", STR("{\"name\":\"__sandglass_stir\"}"));
    view_post(b, v, "Target.setAutoAttach", STR(AUTO_ATTACH));
    if (v->ours && !v->worker)
        post_asks(b, v);
    if (view_is_tab(v) && v->ours && !b->wish.screen)
        post_size(b, v);
    if (b->wish.no_file_dialogs && !v->worker)
        view_post(b, v, "Page.setInterceptFileChooserDialog", STR("{\"enabled\":true}"));
    routes_attach(b, v);
    view_post(b, v, "Runtime.runIfWaitingForDebugger", (struct str){ 0 });
}

static void drop(struct browser *b, struct view *gone)
{
    for (struct view **at = &b->views; *at;) {
        if (*at != gone && (*at)->around != gone) {
            at = &(*at)->next;
        } else if (*at != gone) { /* a frame in it; look again from the start, there may be frames in that */
            drop(b, *at);
            at = &b->views;
        } else {
            *at = gone->next;
        }
    }
    if (b->at == gone) { /* the page closed itself: its neighbour is at hand */
        b->at = NULL;
        for (struct view *v = b->views; v; v = v->next)
            if (view_is_tab(v))
                b->at = v;
        drag_end(b);
    }
    free(gone);
}

void views_drop(struct browser *b)
{
    while (b->views)
        drop(b, b->views);
    b->context[0] = 0;
    downloads_end(b);
}

int views_start(struct hand *h, struct browser *b, struct err *e)
{
    return cdp_call(h, b->cdp, (struct str){ 0 }, "Target.setAutoAttach", STR(AUTO_ATTACH), NULL, e);
}

/* All that was posted to a new view is in effect: a page that goes elsewhere before would forget it. */
int view_ready(struct hand *h, struct browser *b, struct err *e)
{
    return browser_page(h, b, "Page.enable", (struct str){ 0 }, NULL, e);
}

bool view_is_dead(void *arg, struct str session)
{
    struct browser *b = arg;
    const struct view *v = view_of(b, session);

    return session.n && (!v || v->crashed);
}

/* --- what pages tell --- */

/* Each begins with its type. Where there is no room the older half goes: what is looked for is what was said last. */
static void add_row(struct buf *b, struct buf *row)
{
    static const char next[] = "},{\"type\":\""; /* in no string: its quotes would have a backslash */

    if (b->n + row->n >= NEWS_BYTES) {
        const char *half = b->p + b->n / 2, *at = b->n ? memmem(half, b->n - b->n / 2, next, sizeof next - 1) : NULL;
        buf_eat(b, at ? (size_t)(at - b->p) + 2 : b->n);
    }
    if (b->n + row->n < NEWS_BYTES) {
        if (b->n)
            buf_char(b, ',');
        buf_str(b, buf_view(row));
    }
    buf_done(row);
}

static struct jw row(struct buf *b)
{
    struct jw j = { .out = b };

    buf_init(b, NEWS_BYTES);
    jw_obj(&j);
    return j;
}

static void on_console(struct browser *b, const struct view *v, const struct json *p)
{
    const struct json *args = json_get(p, "args"), *stack = json_get(json_get(p, "stackTrace"), "callFrames"),
                      *from = stack ? stack->first : NULL, *at = json_get(p, "timestamp");
    struct buf r, text;

    buf_init(&text, 8192);
    for (const struct json *a = args ? args->first : NULL; a; a = a->next) {
        const struct json *x = json_get(a, "value");
        struct str s = x && x->type == JSON_STR ? x->s : x ? x->raw : json_get_str(a, "description");
        if (text.n)
            buf_char(&text, ' ');
        buf_add(&text, s.p ? s.p : "", s.n < 2000 ? s.n : 2000);
    }
    struct jw j = row(&r);
    jw_kstr(&j, "type", json_get_str(p, "type"));
    jw_kstr(&j, "text", buf_view(&text));
    if (from) {
        jw_kstr(&j, "url", json_get_str(from, "url"));
        jw_kint(&j, "line", json_get_int(from, "lineNumber", 0) + 1);
    }
    if (at)
        jw_knum(&j, "timestamp", at->num);
    if (v->worker)
        jw_kbool(&j, "worker", true);
    jw_obj_end(&j);
    buf_done(&text);
    add_row(&b->console, &r);
}

static void on_exception(struct browser *b, const struct view *v, const struct json *p)
{
    const struct json *d = json_get(p, "exceptionDetails"), *at = json_get(p, "timestamp");
    struct str text = json_get_str(json_get(d, "exception"), "description");
    struct buf r;
    struct jw j = row(&r);

    jw_kz(&j, "type", "exception");
    jw_kstr(&j, "text", text.p ? (struct str){ text.p, text.n < 4000 ? text.n : 4000 } : json_get_str(d, "text"));
    jw_kstr(&j, "url", json_get_str(d, "url"));
    jw_kint(&j, "line", json_get_int(d, "lineNumber", 0) + 1);
    if (at)
        jw_knum(&j, "timestamp", at->num);
    if (v->worker)
        jw_kbool(&j, "worker", true);
    jw_obj_end(&j);
    add_row(&b->console, &r);
}

static void on_dialog(struct browser *b, const struct view *v, const struct json *p)
{
    struct str type = json_get_str(p, "type");

    if (!v->ours)
        return;
    bool accept = b->accept || str_is(type, "alert") || str_is(type, "beforeunload");
    struct buf r;
    struct jw j = row(&r);

    jw_kstr(&j, "type", type);
    jw_kstr(&j, "message", json_get_str(p, "message"));
    jw_kbool(&j, "accepted", accept);
    jw_obj_end(&j);
    add_row(&b->dialogs, &r);
    /* At once: nothing in the page goes on before, not even the command that led here. */
    j = row(&r);
    jw_kbool(&j, "accept", accept);
    if (b->answer[0])
        jw_kz(&j, "promptText", b->answer);
    jw_obj_end(&j);
    view_post(b, v, "Page.handleJavaScriptDialog", buf_view(&r));
    buf_done(&r);
}

/* A page wanted something that a person is asked for, and did not get it; or it has come to the end of its tasks. */
static void on_binding(struct browser *b, struct view *v, struct str said)
{
    struct buf r;

    if (str_is(said, "settled"))
        v->settled = true;
    if (!v->ours || said.n < 6 || said.n > 300 || memcmp(said.p, "asks ", 5) != 0)
        return;
    struct jw j = row(&r);
    jw_kz(&j, "type", "permission");
    jw_kstr(&j, "message", (struct str){ said.p + 5, said.n - 5 });
    jw_kbool(&j, "accepted", false);
    jw_obj_end(&j);
    add_row(&b->dialogs, &r);
}

static void on_context(struct view *v, const struct json *p)
{
    const struct json *c = json_get(p, "context"), *aux = json_get(c, "auxData");

    if (v->worker || !json_get_bool(aux, "isDefault", false) || v->context_count == CONTEXTS_MAX)
        return;
    struct context *x = &v->contexts[v->context_count++];
    x->id = json_get_int(c, "id", 0);
    snprintf(x->frame, sizeof x->frame, "%.*s", STR_ARG(json_get_str(aux, "frameId")));
}

static void off_context(struct view *v, int64_t id)
{
    for (size_t i = 0; i < v->context_count; i++)
        if (v->contexts[i].id == id) {
            v->contexts[i] = v->contexts[--v->context_count];
            return;
        }
}

static void on_view_event(struct browser *b, struct view *v, struct str method, const struct json *p)
{
    bool main_frame = str_is(json_get_str(p, "frameId"), v->target);

    if (str_is(method, "Page.frameNavigated") ? str_is(json_get_str(json_get(p, "frame"), "id"), v->target)
                                              : main_frame && str_is(method, "Page.navigatedWithinDocument"))
        v->went = true;
    if (str_is(method, "Page.loadEventFired")) {
        v->loaded = v->content = true;
        v->navigating = false;
    } else if (str_is(method, "Page.domContentEventFired")) {
        v->content = true;
    } else if (str_is(method, "Page.frameStartedNavigating") || str_is(method, "Page.frameRequestedNavigation") ||
               str_is(method, "Page.frameStartedLoading")) {
        struct str how = json_get_str(p, "navigationType");
        if (main_frame && !(how.p && memmem(how.p, how.n, "ameDocument", 11))) {
            v->navigating = true;
            v->loaded = v->content = false;
        }
    } else if (str_is(method, "Page.frameStoppedLoading")) {
        if (main_frame && !v->asked) { /* also what came to nothing: a download, an answer without content */
            v->navigating = false;
            v->loaded = v->content = true;
        }
    } else if (str_is(method, "Input.dragIntercepted")) {
        drag_event(b, p);
    } else if (str_is(method, "Page.screencastFrame")) {
        video_event(b, v, p);
    } else if (str_is(method, "Page.javascriptDialogOpening")) {
        on_dialog(b, v, p);
    } else if (str_is(method, "Runtime.consoleAPICalled")) {
        on_console(b, v, p);
    } else if (str_is(method, "Runtime.exceptionThrown")) {
        on_exception(b, v, p);
    } else if (str_is(method, "Runtime.executionContextCreated")) {
        on_context(v, p);
    } else if (str_is(method, "Runtime.executionContextDestroyed")) {
        off_context(v, json_get_int(p, "executionContextId", 0));
    } else if (str_is(method, "Runtime.executionContextsCleared")) {
        v->context_count = 0;
    } else if (str_is(method, "Runtime.bindingCalled")) {
        on_binding(b, v, json_get_str(p, "payload"));
    } else if (str_is(method, "Inspector.targetCrashed")) {
        v->crashed = true;
    } else if (str_is(method, "Network.responseReceived")) {
        if (str_is(json_get_str(p, "type"), "Document") && main_frame)
            v->status = json_get_int(json_get(p, "response"), "status", 0);
    }
}

void view_event(void *arg, struct str session, struct str method, const struct json *p)
{
    struct browser *b = arg;
    struct view *v = view_of(b, session);

    b->stirred = true;
    if (str_is(method, "Browser.downloadWillBegin")) {
        download_event(b, p, true);
    } else if (str_is(method, "Browser.downloadProgress")) {
        download_event(b, p, false);
    } else if (str_is(method, "Target.attachedToTarget")) {
        on_attached(b, session, p);
    } else if (str_is(method, "Target.detachedFromTarget")) {
        struct view *gone = view_of(b, json_get_str(p, "sessionId"));
        if (gone)
            drop(b, gone);
    } else if (str_is(method, "Target.targetCrashed")) {
        struct view *sick = view_by_target(b, json_get_str(p, "targetId"));
        if (sick)
            sick->crashed = true;
    } else if (v) {
        if (network_event(b, v, method, p) && tab_of(v))
            tab_of(v)->quiet_since_ms = now_ms();
        on_view_event(b, v, method, p);
    }
}

/* --- frames --- */

static void frame_set(struct frame *f, const struct view *v, const struct context *c)
{
    *f = (struct frame){ .context = c->id };
    memcpy(f->session, v->session, sizeof f->session);
    memcpy(f->id, c->frame, sizeof f->id);
}

size_t browser_frames(struct browser *b, struct frame *frames, size_t max)
{
    size_t n = 0;

    for (int tabs_own = 1; tabs_own >= 0; tabs_own--) /* the page's own document first */
        for (struct view *v = b->views; v; v = v->next)
            for (size_t i = 0; i < v->context_count && n < max && tab_of(v) == b->at; i++)
                if ((v == b->at && strcmp(v->contexts[i].frame, v->target) == 0) == tabs_own)
                    frame_set(&frames[n++], v, &v->contexts[i]);
    return n;
}

/* Where the element is that holds a frame, in the document of that session. */
static int frame_box(struct hand *h, struct browser *b, const char *session, const char *frame, double at[2],
                     struct err *e)
{
    const struct json *owner = NULL, *box = NULL;
    struct str in = str_of(arena_printf(h->arena, "%s", session));
    int n = cdp_call(h, b->cdp, in, "DOM.getFrameOwner", str_of(arena_printf(h->arena, "{\"frameId\":\"%s\"}", frame)),
                     &owner, e);
    if (n >= 0)
        n = cdp_call(h, b->cdp, in, "DOM.getBoxModel",
                     str_of(arena_printf(h->arena, "{\"backendNodeId\":%lld}",
                                         (long long)json_get_int(owner, "backendNodeId", 0))),
                     &box, e);
    if (n < 0)
        return n;
    const struct json *quad = json_get(json_get(box, "model"), "content"), *x = quad ? quad->first : NULL;
    if (!x || !x->next)
        return err_set(e, ERR_SYSTEM, "a frame without a place");
    at[0] += x->num;
    at[1] += x->next->num;
    return 0;
}

int browser_frame_place(struct hand *h, struct browser *b, const struct frame *f, double *ret_x, double *ret_y,
                        struct err *e)
{
    double at[2] = { 0, 0 };
    char frame[64];
    struct view *v = view_of(b, str_of(f->session));
    int n = 0;

    memcpy(frame, f->id, sizeof frame);
    while (n >= 0 && v) { /* from the inside to the outside; any of them may go while we ask */
        bool whole = strcmp(frame, v->target) == 0;
        if (whole && !v->around)
            break;
        char target[64];
        memcpy(target, v->target, sizeof target);
        struct view *in = whole ? v->around : v;
        char session[64];
        memcpy(session, in->session, sizeof session);
        n = frame_box(h, b, session, frame, at, e);
        v = view_of(b, str_of(session));
        memcpy(frame, whole && v ? v->target : target, sizeof frame);
    }
    *ret_x = at[0];
    *ret_y = at[1];
    return n < 0 ? n : v ? 0 : err_set(e, ERR_NOT_FOUND, "the frame is gone");
}

/* --- tabs --- */

static bool has_come(void *arg)
{
    void **x = arg;
    return view_by_target(x[0], str_of(x[1])) != NULL;
}

/* The tab of this target, which may not have told of itself yet. */
static int tab_wait(struct hand *h, struct browser *b, const char *target, struct view **ret, struct err *e)
{
    void *x[2] = { b, (char *)(uintptr_t)target };
    int n = cdp_wait(h, b->cdp, has_come, x, h->deadline_ms, e);

    if (n == 0) {
        err_set(e, ERR_NONE, "the tab did not come in time");
        return -ETIMEDOUT;
    }
    *ret = n < 0 ? NULL : view_by_target(b, str_of(target));
    return n < 0 ? n : 0;
}

int browser_tabs(struct hand *h, struct browser *b, struct tab *tabs, size_t *ret_n, struct err *e)
{
    const struct json *r;
    int n = cdp_call(h, b->cdp, (struct str){ 0 }, "Target.getTargets", (struct str){ 0 }, &r, e);

    *ret_n = 0;
    if (n < 0)
        return n;
    const struct json *list = json_get(r, "targetInfos");
    for (struct view *v = b->views; v && *ret_n < TABS_MAX; v = v->next) {
        if (!view_is_tab(v))
            continue;
        struct tab *tab = &tabs[(*ret_n)++];
        *tab = (struct tab){ .active = v == b->at };
        snprintf(tab->target, sizeof tab->target, "%s", v->target);
        for (const struct json *t = list ? list->first : NULL; t; t = t->next)
            if (str_is(json_get_str(t, "targetId"), v->target)) {
                tab->url = json_get_str(t, "url");
                tab->title = json_get_str(t, "title");
            }
    }
    return 0;
}

int browser_tab_open(struct hand *h, struct browser *b, struct str url, struct err *e)
{
    const struct json *r;
    struct view *v = NULL;
    int64_t status;

    b->opening = true;
    int n = cdp_call(h, b->cdp, (struct str){ 0 }, "Target.createTarget", STR("{\"url\":\"about:blank\"}"), &r, e);
    b->opening = false;
    if (n >= 0)
        n = tab_wait(h, b, arena_z(h->arena, json_get_str(r, "targetId")), &v, e);
    if (n < 0)
        return n;
    b->at = v;
    v->ours = true;
    n = view_ready(h, b, e);
    if (n < 0 || !url.n || str_is(url, "about:blank"))
        return n;
    return browser_goto(h, b, url, "load", h->deadline_ms, &status, e);
}

int browser_tab_go(struct hand *h, struct browser *b, const char *target, struct err *e)
{
    struct view *v = view_by_target(b, str_of(target));
    char params[120];

    if (!v)
        return err_set(e, ERR_NOT_FOUND, "index: that tab is gone");
    snprintf(params, sizeof params, "{\"targetId\":\"%.60s\"}", target);
    int n = cdp_call(h, b->cdp, (struct str){ 0 }, "Target.activateTarget", str_of(params), NULL, e);
    v = view_by_target(b, str_of(target));
    if (n >= 0 && v) {
        b->at = v;
        if (!v->ours) /* whatever it asked was not ours to answer until now */
            view_post(b, v, "Page.handleJavaScriptDialog", STR("{\"accept\":false}"));
        v->ours = true;
    }
    return n;
}

static bool has_gone(void *arg)
{
    return !has_come(arg);
}

int browser_tab_close(struct hand *h, struct browser *b, const char *target, struct err *e)
{
    char params[120], *kept = arena_printf(h->arena, "%s", target);
    void *x[2] = { b, kept };
    size_t tabs = 0;
    struct view *beside = NULL;
    int r = 0;

    for (struct view *v = b->views; v; v = v->next) {
        tabs += view_is_tab(v);
        if (view_is_tab(v) && strcmp(v->target, target) != 0)
            beside = v;
    }
    if (tabs == 1) /* the last one: a browser without a page would end */
        r = browser_tab_open(h, b, STR("about:blank"), e);
    else if (b->at && strcmp(b->at->target, target) == 0)
        r = browser_tab_go(h, b, arena_printf(h->arena, "%s", beside->target), e);
    snprintf(params, sizeof params, "{\"targetId\":\"%.60s\"}", kept);
    if (r >= 0)
        r = cdp_call(h, b->cdp, (struct str){ 0 }, "Target.closeTarget", str_of(params), NULL, e);
    if (r >= 0) /* a page that does not want to go is not waited for long */
        r = cdp_wait(h, b->cdp, has_gone, x, now_ms() + 2000, e);
    return r < 0 ? r : 0;
}

int browser_resize(struct hand *h, struct browser *b, int64_t width, int64_t height, struct err *e)
{
    b->wish.width = width;
    b->wish.height = height;
    for (struct view *v = b->views; v; v = v->next)
        if (view_is_tab(v) && !b->wish.screen)
            post_size(b, v);
    if (b->wish.screen)
        return err_set(e, ERR_INVALID,
                       "width, height: the window on the desktop has the screen's size: desktop:screen");
    return browser_page(h, b, "Page.getLayoutMetrics", (struct str){ 0 }, NULL, e); /* comes after it */
}
