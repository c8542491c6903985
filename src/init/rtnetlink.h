/* Sockets of rtnetlink for programs of a box that may make namespaces. The filter lets nobody make one there: in a network of
 * one's own it reaches the kernel's traffic control. It asks init instead, who makes one in the box's own network, over which
 * no program of the box has rights: getifaddrs and ip(8) can look, as in every other box. */
#pragma once

struct init;

void rtnetlink_open(struct init *in); /* boot.asked; the pass is out of boot afterwards */
