/* Boxes for a replay: each box of the recording has its own in the world where it is replayed, made on first use from
 * the same settings if the old one is still there to be asked. */
#pragma once

#include "cli/cli.h"
#include "replay/trajectory.h"

struct world;
struct world *world_new(struct api *api, const char *on, const char *label); /* on: this box for everything, or NULL */
void world_free(struct world *w, bool keep); /* destroys the boxes that it made, unless they are to be kept */

/* 0 with the answer in got; else an exit code, with the message being out already. */
int world_call(struct world *w, const struct traj_step *s, struct arena *a, struct traj_step *got);
/* Steps that were recorded in the box `to` go where those of `from` went: a fast-forward moved there. In their order. */
void world_alias(struct world *w, struct str from, struct str to);
/* What t goes back to, and no step of it tells of: states that were taken over the API. The world takes them, too. */
void world_expect(struct world *w, const struct trajectory *t);
/* Rows of the difference between two states of the server; < 0: it is not to be had. */
int world_diff(struct api *api, struct str x, struct str y, struct arena *a, const struct json **ret);
const char *world_box(const struct world *w, size_t i); /* the i-th that was made, or `on`; NULL: no more */
