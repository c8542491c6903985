/* `sandglass role NAME PARENT`: what guard starts. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "access/access.h"
#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/fdstore.h"
#include "daemon/recorder.h"
#include "daemon/role.h"
#include "daemon/serve.h"
#include "daemon/supervise.h"
#include "tool/tool.h"

int serve_ids(const struct config *c, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
    *ret_uid = getuid();
    *ret_gid = getgid();
    if (getuid() != 0 || !c->serve_user[0])
        return 0;
    struct passwd *p = getpwnam(c->serve_user);
    if (!p)
        return err_set(e, ERR_NOT_FOUND, "serve.user: no user '%s' on this machine", c->serve_user);
    *ret_uid = p->pw_uid;
    *ret_gid = p->pw_gid;
    return 0;
}

static bool is_loopback(const char *listen)
{
    return strncmp(listen, "127.", 4) == 0 || strncmp(listen, "localhost:", 10) == 0 ||
           strncmp(listen, "[::1]:", 6) == 0 || strncmp(listen, "unix:", 5) == 0;
}

struct access_opts serve_access(const struct config *c)
{
    static const enum who_role jwt_roles[] = { ROLE_VIEWER, ROLE_OPERATOR, ROLE_ADMIN };

    return (struct access_opts){
        .home = c->home,
        .mode = (enum access_mode)c->auth,
        .loopback = is_loopback(c->listen),
        .jwt_key = getenv("JWT_PUBLIC_KEY"),
        .jwt_file = c->auth_jwt_key_file,
        .jwt_audience = c->auth_jwt_audience,
        .jwt_issuer = c->auth_jwt_issuer,
        .jwt_skew_s = c->auth_jwt_skew_ms / 1000,
        .jwt_role = jwt_roles[c->auth_jwt_role],
        .token_file = c->auth_token_file,
        .ticket_ttl_ms = c->auth_ticket_ttl_ms,
    };
}

static int drop_to(uid_t uid, gid_t gid, struct err *e)
{
    if (getuid() != 0 || uid == 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return err_sys(e, "become user %d", (int)uid);
    uid_t r, ef, s;
    if (getresuid(&r, &ef, &s) < 0 || r != uid || ef != uid || s != uid || setuid(0) == 0)
        return err_set(e, ERR_SYSTEM, "privileges could not be dropped");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, "no_new_privs");
    return 0;
}

static struct box_spec default_spec(const struct config *c)
{
    struct box_spec s = {
        .memory_bytes = c->box_memory_bytes,
        .disk_bytes = c->box_disk_bytes,
        .shm_bytes = c->box_shm_bytes,
        .cpu_milli = c->box_cpu_milli,
        .pids = c->box_pids,
        .open_files = c->box_open_files,
        .network = c->box_network,
        .sudo = c->box_sudo,
        .user_namespaces = c->box_user_namespaces == NESTING_YES,
        .allow_unenforced = c->box_allow_unenforced,
    };
    snprintf(s.image, sizeof s.image, "%s", c->box_image);
    return s;
}

static struct boot_habits habits_of(const struct config *c)
{
    struct boot_habits h = { 0 }; /* the table of settings has their lengths */

    strcpy(h.workspace, c->box_workspace);
    strcpy(h.timezone, c->box_timezone);
    strcpy(h.browser_args, c->browser_args);
    strcpy(h.homepage, c->browser_homepage);
    strcpy(h.dns_over_https, c->browser_dns_over_https);
    h.browser_record = c->browser_record;
    h.screen_width = c->desktop_width;
    h.browser_headed = c->browser_headed;
    h.screen_height = c->desktop_height;
    return h;
}

static int run_supervise(const struct config *c, uid_t uid, gid_t gid)
{
    char init[4096];

    ssize_t n = readlink("/proc/self/exe", init, sizeof init - 8);
    if (n < 0) {
        log_error("cannot start", "error=\"/proc/self/exe: errno %d\"", errno);
        return 1;
    }
    memcpy(init + n, "-init", 6); /* it is installed beside this program */
    struct supervise_opts o = {
        .home = c->home,
        .init_path = init,
        .cgroup_root = c->cgroup_name,
        .mount_roots = c->mount_roots,
        .image_roots = c->image_roots,
        .pool_size = (int)c->pool_size,
        .python_preload = c->python_preload,
        .python_fork = c->python_fork,
        .python_warm = c->python_warm,
        .browser_warm = c->browser_warm,
        .serve_uid = uid,
        .serve_gid = gid,
        .habits = habits_of(c),
        .orphan_ms = c->orphan_timeout_ms,
        .pool_spec = default_spec(c),
        .may_nest = c->box_user_namespaces != NESTING_NO,
        .faults = getenv("SANDGLASS_FAULTS") != NULL,
        .store = fdstore_inherited(GUARD_STORE_FD),
    };
    return supervise_main(&o);
}

/* Files that the administrator may read, and serve's own user perhaps not. */
struct opened {
    int extensions, mcp_servers; /* -1: none */
};

static int open_file(const char *key, const char *path, int *ret, struct err *e)
{
    *ret = path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    return path[0] && *ret < 0 ? err_sys(e, "%s: cannot read %s", key, path) : 0;
}

static int open_files(const struct config *c, struct opened *ret, struct err *e)
{
    int r = open_file("extensions", c->extensions, &ret->extensions, e);

    return r < 0 ? r : open_file("mcp.servers", c->mcp_servers, &ret->mcp_servers, e);
}

static int refuse(const struct err *e, int status)
{
    log_error("cannot start", "error=\"%s\"", e->msg);
    return status;
}

static int run_serve(const struct config *c, const struct opened *files)
{
    struct err e;

    if (config_check_files(c, &e) < 0)
        return refuse(&e, SERVE_EXIT_SETTING);
    struct serve_opts o = {
        .node = { .home = c->home,
                  .spec = default_spec(c),
                  .box_ttl_ms = c->box_ttl_ms,
                  .state_budget = c->state_budget_bytes,
                  .gc_interval_ms = c->gc_interval_ms,
                  .retention_age_ms = c->retention_age_ms,
                  .retention_count = c->retention_count,
                  .retention_keep_tags = c->retention_keep_tags,
                  .gc_grace_ms = c->gc_grace_ms,
                  .box_max = c->box_max,
                  .box_workspace = c->box_workspace[0] ? c->box_workspace : BOX_HOME,
                  .box_proxy = c->box_proxy,
                  .box_mounts = c->box_mounts,
                  .ready_ports = c->ready_ports,
                  .session_ttl_ms = c->session_ttl_ms,
                  .call_timeout_ms = c->call_timeout_ms,
                  .call_timeout_max_ms = c->call_timeout_max_ms,
                  .repo_timeout_ms = c->repo_timeout_ms,
                  .output_head = c->output_head_bytes,
                  .output_tail = c->output_tail_bytes,
                  .output_kept = c->output_kept_bytes,
                  .durability = (enum durability)c->durability,
                  .test_backends = c->test_backends,
                  .quota_file = c->quota_file,
                  .secret_key_file = c->secret_key_file,
                  .agentflow_config_dir = c->agentflow_config_dir,
                  .mcp_profile = c->mcp_profile,
                  .browser_headed = c->browser_headed,
                  .mcp_bare = c->mcp_bare },
        .access = serve_access(c),
        .cors_origins = c->cors_origins,
        .host_names = c->host_names,
        .host_boxes = c->host_boxes,
        .socket = c->listen_socket,
        .tls_cert = c->tls_cert,
        .tls_key = c->tls_key,
        .otlp_url = c->trace_otlp_url,
        .log_requests = c->log_requests,
        .audit = c->audit,
        .listen_fd = GUARD_LISTEN_FD,
        .grace_ms = c->shutdown_grace_ms,
        .kill = c->shutdown_kill,
        .extensions = c->extensions,
        .plugins = c->plugins,
        .mcp_servers = c->mcp_servers,
        .extensions_fd = files->extensions,
        .mcp_servers_fd = files->mcp_servers,
    };
    if (!c->vm_engine)
        backend_drop("vm");
    return serve_main(&o);
}

static int run_recorder(const struct config *c, uid_t uid, gid_t gid)
{
    if (c->durability !=
        DURABILITY_STEP) /* under load the index may lag; callers, who do not wait for it, should not */
        (void)setpriority(PRIO_PROCESS, 0, 5);
    struct recorder_opts o = {
        .home = c->home,
        .sync_ms = c->durability == DURABILITY_NONE ? 0 : c->sync_interval_ms,
        .grace_ms = c->gc_grace_ms,
        .uid = uid,
        .gid = gid,
    };
    return recorder_main(&o);
}

/* The roles are guard's: without it nobody would restart them, and a new guard needs the port, the log and the lock that
 * they hold. They end at once, which each of them can stand; boxes are not bound to anyone. The parent is asked for by its
 * number, since in a container guard itself may be process 1. */
static int end_with(pid_t parent, struct err *e)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return err_sys(e, "end with process %d", (int)parent);
    pid_t now = getppid();
    return now == parent ? 0 : err_set(e, ERR_SYSTEM, "the parent is process %d, not %d", (int)now, (int)parent);
}

int role_main(const char *role, pid_t parent, const struct config *c)
{
    struct err e;
    uid_t uid;
    gid_t gid;

    log_max = c->log_level;
    log_role(role);
    if (end_with(parent, &e) < 0 || serve_ids(c, &uid, &gid, &e) < 0)
        return refuse(&e, 2);
    if (strcmp(role, "supervise") == 0)
        return run_supervise(c, uid, gid);
    bool serve = strcmp(role, "serve") == 0;
    struct opened files;
    if (serve && open_files(c, &files, &e) < 0)
        return refuse(&e, SERVE_EXIT_SETTING);
    if (drop_to(uid, gid, &e) < 0 || end_with(parent, &e) < 0) /* again: a change of user clears it */
        return refuse(&e, 2);
    if (serve)
        return run_serve(c, &files);
    if (strcmp(role, "recorder") == 0)
        return run_recorder(c, uid, gid);
    fprintf(stderr, "sandglass role: no role '%s'\n", role);
    return 2;
}
