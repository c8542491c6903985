/* The files of a box at a moment, by name: layers over an image, and the root that proves them.
 *
 * A state is a record in the log. It never changes; its root may follow later, because hashing takes as long as the
 * data is large. A box remembers its newest one, so that taking a state twice without a change costs nothing new. */
#pragma once

#include "session/node.h"

struct time_ask;

struct state {                   /* as read back from the log, or just taken */
    char id[40];                 /* "s-..." */
    const struct tenant *tenant; /* of one just taken */
    char box[BOX_ID_MAX], image[256], name[72], parent[40];
    char root[STATE_ROOT_MAX]; /* "" while it is being computed */
    char trajectory[LIMIT_TRAJECTORY_ID + 1];
    int64_t step;  /* after which it was taken; 0: none */
    uint64_t call; /* for which; 0: none */
    struct str at; /* it was asked for as that of this step, a JSON object: perhaps a later one, without a change */
    uint32_t layer_count;
    char layers[LIMIT_LAYERS][LAYER_ID_MAX];
    int64_t time_us, entries, bytes, frozen_us;
    bool changed;
    bool quarantined;     /* what is on disk was found to be something else */
    bool suspect;         /* it shares a layer with a quarantined one: to be proved before it is used */
    bool has_spec;        /* the settings of its box are known; of old records they are not */
    struct box_spec spec; /* these, but for image and layers */
    bool step_states;
    struct str origin;  /* of its box */
    struct str shell;   /* what a fresh shell must run to be where this one was; absent: files only */
    struct str carried; /* its interpreters: JSON, see carry.h; absent: there were none */
};

typedef void on_state(void *arg, const struct state *s, const struct err *e); /* s valid until return; e NULL: fine */

struct moment {             /* in a trajectory */
    const char *trajectory; /* NULL: none */
    int64_t step;
    uint64_t call; /* that is about the state itself; 0: none */
};

/* Takes the state of a running box. name may be absent. Sealed on disk and in the log when the callback comes. */
void state_take(struct box *b, struct str name, const struct moment *m, on_state *cb, void *arg);
/* Finds a recorded state: by id, by trajectory and step, or by the call that took it. */
void state_find(struct node *n, const struct tenant *t, struct str id, on_state *cb, void *arg);
struct step_of {
    struct str trajectory;
    int64_t step;
    struct str box; /* absent: the one in which it ran */
};
void state_find_step(struct node *n, const struct tenant *t, const struct step_of *at, on_state *cb, void *arg);
void state_find_call(struct node *n, const struct tenant *t, const struct moment *m, on_state *cb, void *arg);
/* What ask names, or b as it is now. A quarantined one comes with an error. b may be NULL if ask names one. */
void state_look_up(struct node *n, const struct tenant *t, struct box *b, const struct time_ask *ask, on_state *cb,
                   void *arg);
/* The spec of a box that begins with this state: image and layers, nothing else. */
void state_apply(const struct state *s, struct box_spec *spec);
void state_settings(const struct state *s, struct box_ask *ask); /* those of the box that it was taken of, if known */
/* Its layers are not what the log says: nothing is made of it any more. */
void state_quarantine(struct node *n, const char *id, const char *expected, const char *found);
const char *state_fidelity(const struct state *s);     /* what is made from it has: files, or shell and variables too */
void state_print(const struct state *s, struct jw *w); /* members of the API's object */

/* For garbage.c */
bool state_is_hashed_now(const char *id);
void state_read(const struct json *j, struct arena *a, struct state *ret); /* its record */
void state_set_root(struct node *n, struct state *s, const char *root);    /* found late */
void state_drop(struct node *n, const char *id, const char *why);          /* its layers are garbage now */
