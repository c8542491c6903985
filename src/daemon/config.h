/* The settings of the server. One table in config.c is the truth: it gives the file's keys, the environment
 * variables, the flags, the help text, the sample file and docs/configuration.md.
 *
 * default < file < environment < flag. Whatever is unknown or out of range is an error that says where it stands. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "wire/seat.h"

enum nesting { NESTING_NO, NESTING_ASK, NESTING_YES };

struct config { /* strings are owned by it and never NULL */
    char *file; /* the file that was read; "" if none */
    char *listen;
    char *home; /* absolute */
    enum log_level log_level;
    int durability; /* enum durability of session/node.h: none, batch, step */
    int64_t sync_interval_ms;
    int64_t pool_size;
    char *python_preload;
    bool python_fork;
    int python_warm; /* none, context, kernel, both: a bit each */
    char *cgroup_name;
    char *serve_user; /* "" unless started as root */

    char *box_image;
    int64_t box_memory_bytes, box_disk_bytes, box_shm_bytes;
    int64_t box_cpu_milli;
    int64_t box_pids;
    int64_t box_open_files;
    enum box_network box_network;
    bool box_sudo;
    enum nesting box_user_namespaces;
    int64_t box_ttl_ms; /* 0: until destroyed */
    bool box_allow_unenforced;
    int64_t box_max;
    char *box_timezone, *box_workspace, *box_proxy, *box_mounts; /* "": none */
    char *browser_args, *browser_homepage, *browser_dns_over_https;
    int browser_record; /* off, after, both */
    bool browser_warm;
    bool browser_headed;
    int64_t desktop_width, desktop_height;
    int vm_engine; /* none, desktop */
    char *ready_ports;
    char *mount_roots, *image_roots; /* colon lists of absolute directories */

    int64_t session_ttl_ms;
    int64_t call_timeout_ms, call_timeout_max_ms, repo_timeout_ms;
    int64_t output_head_bytes, output_tail_bytes, output_kept_bytes;
    int64_t orphan_timeout_ms;
    int64_t state_budget_bytes, gc_interval_ms, gc_grace_ms;
    int64_t retention_age_ms, retention_count;
    char *retention_keep_tags;
    int64_t shutdown_grace_ms;
    bool shutdown_kill;
    bool test_backends;
    int auth; /* enum access_mode: auto, required, open-to-everyone */
    char *auth_jwt_key_file, *auth_jwt_audience, *auth_jwt_issuer, *auth_token_file;
    int auth_jwt_role; /* 0: viewer, 1: operator, 2: admin */
    int64_t auth_jwt_skew_ms, auth_ticket_ttl_ms;
    char *cors_origins, *host_names, *host_boxes;
    bool listen_socket;
    char *tls_cert, *tls_key, *secret_key_file;
    char *quota_file, *trace_otlp_url;
    bool log_requests, audit;
    char *agentflow_config_dir; /* "": none */
    int mcp_profile;            /* as mcp_profiles of surface/mcp_tools.c */
    bool mcp_bare;
    char *extensions, *plugins, *mcp_servers; /* "": none */
};

/* argv[0] is the command's name and is skipped. Flags end at "--" or at the first word without dashes, whose
 * index goes to ret_first_arg. */
int config_load(int argc, char **argv, struct config *ret, int *ret_first_arg, struct err *e);
void config_done(struct config *c);
/* Can we read the files that serve reads as its own user? The message names the setting. */
int config_check_files(const struct config *c, struct err *e);
/* Are the directories that boxes are to have where boxes may have them? Asked once, at the start: later it is a box that
 * fails, not the server. */
int config_check_places(const struct config *c, struct err *e);

/* head (NULL-terminated), then one "--key=value" for every key: a program that is started with these words has
 * exactly this configuration, whatever happened to the file since. The caller frees with config_argv_free. */
char **config_argv(const struct config *c, const char *const *head);
void config_argv_free(char **argv);

void config_print_help(FILE *out); /* the flags */
void config_dump(FILE *out);       /* a commented sample file */
void config_markdown(FILE *out);   /* docs/configuration.md */
