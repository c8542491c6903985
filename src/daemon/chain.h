/* A recorded state as the functions of image/ want it: the image's directories and layers, opened from what came over
 * the wire. For workers. */
#pragma once

#include "daemon/seats.h"
#include "image/layer.h"
#include "image/manifest.h"

struct chain { /* a layer_chain and what it points to; must not move */
    struct layer_chain c;
    struct layer_image image;
    const char *ids[LIMIT_LAYERS];
};

/* layers: oldest first, as the wire has them; they must outlive ret */
int chain_keep(struct seats *s, struct err *e); /* once, before any worker is forked */
int chain_open(const struct seats *s, const struct box_spec *spec, uint32_t n, char layers[][LAYER_ID_MAX],
               struct chain *ret, struct err *e);
void chain_close(struct chain *c); /* also after a failure */
/* "sha256:..." as image/ has it, in room. NULL: it is not known. */
const struct state_root *chain_root(const char *text, struct state_root *room);
