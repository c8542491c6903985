/* Idempotency keys of boxes: see box_key.c. */
#pragma once

#include "base/err.h"

struct box;
struct box_ask;
struct json;
struct jw;
struct node;

/* 1: the box that was asked for with this key. 0: there is none, or no key. */
int box_key_find(struct node *n, const struct box_ask *ask, struct box **ret_box, struct err *e);
void box_key_take(struct box *b, const struct box_ask *ask);
void box_key_adopt(struct box *b, const struct json *record);
void box_key_record(const struct box *b, struct jw *w);
void box_key_drop(struct box *b);
