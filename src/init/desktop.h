/* The box's screen. A keeper process of the box's user runs the X server (which is its VNC server, too), a window manager
 * and the bus over which programs tell what is on their windows; it begins with the first call that needs a screen and
 * lives until the box ends, or the X server does.
 *
 *   DOWN --desktop_up--> STARTING --the sockets are there--> UP --the X server ends--> DOWN, told by the next call
 *
 * Who wants to see or touch it connects: the driver of the desktop tools below (rfb.h), serve for people who look on, a
 * browser with a window. */
#pragma once

#include "init/driver.h"
#include "wire/boot.h"

struct rfb;

#define DESKTOP_RFB     BOX_SCREEN
#define DESKTOP_BUS     BOX_USER_RUN "/bus"
#define DESKTOP_X11     "/tmp/.X11-unix/X0"
#define DESKTOP_DISPLAY ":0"

/* In init. Starts the keeper if there is none; width and height: of a new screen, 0: as configured. */
int desktop_up(struct init *in, int64_t width, int64_t height, struct err *e);
/* Runs a shell command on it, as soon as it is there; its pid. */
pid_t desktop_launch(struct init *in, const char *command, struct err *e);

/* In the driver. */
extern const struct driver_kind desktop_kind;
struct desktop {
    struct rfb *rfb;
    unsigned buttons;   /* that are held down */
    int x, y;           /* where the pointer was put last; -1: not by us */
    uint8_t spare[128]; /* keys that are lent to characters which no key makes, in turn */
    uint32_t lent[128]; /* 0: not yet */
    size_t spare_n, next;
    struct {
        uint32_t key, sent;
    } held[16];     /* keys that are down: which, and what was sent for it */
    bool gave_up;   /* vm:fail was the last thing done */
    bool trees;     /* answers tell what is on the windows */
    bool restarted; /* it is a new screen: the former one is gone with its windows */
    pid_t recorder; /* 0: none */
    int64_t since_ms, lasted_ms;
    char film[4096];
};
struct desktop *desktop_state(struct hand *h); /* connected or not */
/* Presses a key or lets it go. With shift down it makes what it makes on a keyboard then. */
int desktop_key(struct hand *h, struct desktop *d, uint32_t keysym, bool down, struct err *e);
/* For others who draw on it: until it is there. */
int desktop_wait(struct hand *h, struct err *e);
struct desktop *desktop_get(struct hand *h, struct err *e); /* connected, or NULL: e */
