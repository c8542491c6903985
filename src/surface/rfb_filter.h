/* What somebody who only looks on may say to a screen: that it wants pixels, and how. Keys, the pointer, the clipboard
 * and new sizes are left out of what a client of RFB sends; whatever is not understood ends the conversation. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct rfb_filter {
    size_t seen;  /* bytes of the greeting */
    size_t left;  /* of the message at hand */
    bool drop;    /* it */
    char head[9]; /* the first bytes of a message whose size is not known yet */
    size_t head_n;
};

/* Appends to out what may pass. False: nonsense. */
bool rfb_filter_feed(struct rfb_filter *f, struct str data, struct buf *out);
