/* The role that answers: one loop, no privilege, the only writer of the log. */
#pragma once

#include "access/access.h"
#include "session/node.h"

enum { GUARD_LISTEN_FD = 3 }; /* inherited from guard, so that clients never meet a closed port while serve restarts */

enum { SERVE_KILL_MS = 10000 }; /* how long destroying all boxes may take, after the grace */

enum {
    SERVE_EXIT_SHUTDOWN = 42, /* an administrator asked: guard ends everything */
    SERVE_EXIT_SETTING = 43,  /* a setting or its file is wrong, and will be when it is tried again */
};

struct serve_opts {
    struct node_opts node;
    struct access_opts access;
    const char *cors_origins, *host_names, *host_boxes;
    bool socket;                    /* HOME/run/api.sock, too */
    const char *tls_cert, *tls_key; /* "": plain HTTP */
    const char *otlp_url;
    bool log_requests, audit;
    int listen_fd;
    int64_t grace_ms; /* SIGTERM: how long running calls may take to end */
    bool kill;        /* then destroy all boxes */
    const char *extensions, *plugins, *mcp_servers;
    int extensions_fd, mcp_servers_fd; /* those files, opened while we still might */
};
int serve_main(const struct serve_opts *o);
