/* What the server itself shows people: its front page, and in place of an error's JSON a page that says the same. */
#pragma once

#include "surface/surface.h"

extern const struct route page_routes[];

bool page_wanted(const struct web *w);  /* a browser that is shown what comes */
bool page_is_ours(const struct web *w); /* not of an origin that belongs to a box, where nothing of ours answers */
/* One message, under a title. */
void page_say(struct web *w, int status, const char *title, const char *text);
void page_html(struct web *w, int status, struct buf *take_html); /* a page without scripts */
void page_escape(struct buf *b, struct str s);
/* Whoever is not let in may show a key or a token here; the page gets a ticket for it and comes again. */
void page_login(struct web *w, const char *text);
/* A file of web/, with what a page of ours may do; empty: 404. */
void page_file(struct web *w, const char *type, struct str text);
void page_of_box(struct web *w, const char *file); /* a page that is about the request's box: 404 if there is none */
