/* That the image is still what was built. Its files are hashed once (by a worker), and again when their stamps tell
 * that somebody touched them: so a reset proves what it is made of without reading it each time. */
#pragma once

#include "daemon/seats.h"

struct stamps;
struct image_try { /* one proof under way; zeroed: none */
    bool wanted;
    bool with_sudo, bare; /* of a box that has it; that has no layers */
    struct stamps *root, *sudo;
};

/* Does it stand as it was last proved? For boxes of the image `host`; of directories nothing was built. */
bool image_proved(const struct seats *s, const struct box_spec *spec);
const char *image_root(const struct seats *s, const struct box_spec *spec); /* of a box without layers; "": not known */
void image_try(const struct seats *s, const struct box_spec *spec,
               struct image_try *ret); /* before a worker reads it */
/* It did; root is that of the box's files. t is zeroed. */
void image_tried(struct seats *s, struct image_try *t, bool proved, const char *root);
void image_proof_done(struct seats *s);
