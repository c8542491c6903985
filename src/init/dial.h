/* Connections into the box that serve asks for. Init connects, as the box's user where that matters, and passes the
 * descriptor out; what is said over it is none of its business.
 *
 *   tcp:PORT       on the box's own loopback, IPv4, then IPv6
 *   unix:PATH      a stream socket that the box's user may connect to
 *   views          the terminals that init keeps, all of them (view.h)
 *   job:ID, command:NAME  the output of a command (tail.h)
 */
#pragma once

#include "wire/frame.h"

struct init;

void dial_begin(struct init *in, uint64_t id, const struct wire_dial *w); /* borrows w; ends with link_dialed */
