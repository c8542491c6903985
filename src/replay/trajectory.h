/* A trajectory in memory, whatever file or server it came from: who did what, and what was seen.
 *
 * Everything points into the text that was read and into one arena; both must outlive it. Parameters and observations
 * stay the bytes that were recorded. */
#pragma once

#include <stdint.h>

#include "base/json.h"

enum traj_expect {
    EXPECT_NOTHING, /* nothing was recorded that could be compared */
    EXPECT_TEXT,    /* one text, as the model saw it; how it was made of the streams is not known */
    EXPECT_RESULT,  /* all of it: outcome, exit code, observation */
};

struct traj_step {
    int64_t step;                  /* number where it was recorded, from 1 */
    struct str tool;               /* ours ("bash:run"), or the file's own name if it is none of ours */
    struct str params;             /* a JSON object; absent if it cannot be sent */
    struct str as_tool, as_params; /* name and arguments as the file has them; absent: the same as above */
    const char *refused;           /* why it cannot be sent; NULL: it can */
    bool ends;                     /* the file's way to say "done" (submit, finish): nothing to run */
    bool emulated;                 /* our tool has the same effect but speaks other words: texts are not compared */

    enum traj_expect expect;
    struct str outcome, message, code;
    int64_t exit_code;       /* FIELD_ABSENT: none */
    struct str observation;  /* JSON, verbatim */
    const struct json *data; /* the same, read; NULL: none */
    struct str out, err;     /* views of it: stdout and stderr, or a file's content */
    struct str text;         /* EXPECT_TEXT */
    struct str thought;

    struct str time; /* ISO 8601 */
    int64_t time_us, queued_us, run_us, total_us, dropped_bytes;
    struct str worker, session, box, blobs;
    struct str picture;    /* that it answered with, as a data: URL; only if it was asked for */
    struct str state_root; /* absent: the box keeps no state per step */
    struct str state_id;
    bool trainable, temporary, open;
    bool ours; /* not the agent's: a fast-forward put another box into the last state */
};

struct trajectory {
    struct str id, worker;
    struct str metadata; /* a JSON object, or absent */
    struct str boxes;    /* the settings of those that it used, a JSON object by their ids, or absent */
    struct str task, agent, model, answer;
    /* what people and graders said of it */
    bool has_reward;
    double reward;
    const struct json *tags; /* array of strings, or NULL */
    struct str note;
    struct str group;   /* it is an attempt at the same thing as others of this name: forks of one step */
    int64_t group_step; /* steps before that point are the same; 0: none */
    struct traj_step *steps;
    size_t n, room;
};

void traj_init(struct trajectory *t);
struct traj_step *traj_add(struct arena *a, struct trajectory *t); /* a new last step, with its defaults */

/* Sets observation and its views. value NULL or null: there is none. */
void traj_observe(struct traj_step *s, const struct json *value);
void traj_expect_text(struct traj_step *s, struct str text); /* absent: EXPECT_NOTHING */
/* outcome, message, observation, times ... of a row of .../steps or of an answer of .../execute */
void traj_result(struct traj_step *s, const struct json *row);
/* task, agent, model, answer from the usual names in a metadata object; also keeps the object. */
void traj_metadata(struct trajectory *t, const struct json *metadata);

struct str traj_name(const struct traj_step *s); /* as the file calls the tool */
struct str traj_args(const struct traj_step *s); /* as the file has them */
bool traj_args_ok(const struct traj_step *s);    /* they are a JSON object */
bool traj_failed(const struct traj_step *s);     /* outcome other than ok, or an exit code other than 0 */

/* What a model is shown of a step: the streams, or a file's content, else the observation; then how it ended if that
 * was not well. docs/export.md. */
struct str traj_shown(struct arena *a, const struct traj_step *s);
struct str traj_streams(struct arena *a, const struct traj_step *s); /* stdout, then stderr */
struct str str_trim(struct str s);                                   /* without white space at both ends */
struct str str_join(struct arena *a, const struct str *parts, size_t n);

/* "2026-01-02", "2026-01-02T03:04:05[.678][Z|+01:00]"; -1: neither */
int64_t traj_time_us(struct str text);
struct str traj_time_text(struct arena *a, int64_t us);
