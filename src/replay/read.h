/* What the readers share, and the halves of formats that are written in other files. */
#pragma once

#include "replay/truth.h"

struct str content_text(struct arena *a, const struct json *content); /* p NULL: there is none */

typedef bool traj_sniff(const struct json *v);
typedef int traj_reader(struct arena *a, const struct json *v, struct trajectory *t, struct err *e);
traj_sniff atif_sniff, openai_sniff, agentflow_sniff, rollout_sniff, knowlyr_sniff, recorder_sniff, swe_sniff,
    sharegpt_sniff;
traj_reader atif_read, openai_read, agentflow_read, rollout_read, knowlyr_read, recorder_read, swe_read, sharegpt_read;
