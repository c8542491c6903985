#include "cli/repo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"

/* The directory that a URL or a path names on this machine; NULL: none. */
static char *local_dir(struct api *a, const char *repo)
{
    const char *path = strncmp(repo, "file://", 7) == 0 ? repo + 7 : repo;
    auto_free char *real = realpath(path, NULL);
    struct stat st;

    if (!real || stat(real, &st) < 0 || !S_ISDIR(st.st_mode))
        return NULL;
    return arena_printf(&a->arena, "%s", real);
}

/* Git itself refuses a repository of somebody else; nothing that its configuration names is fetched or run for it. */
static _Noreturn void bundle_child(const char *dir, int out)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
        _exit(127);
    setenv("GIT_NO_LAZY_FETCH", "1", 1);
    setenv("GIT_ALLOW_PROTOCOL", "", 1);
    setenv("GIT_TERMINAL_PROMPT", "0", 1);
    execlp("git", "git", "-C", dir, "bundle", "create", "-q", "-", "--all", "HEAD", (char *)NULL);
    _exit(127);
}

static bool read_bundle(const char *dir, struct buf *out)
{
    int fds[2], status = -1;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return false;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        bundle_child(dir, fds[1]);
    close(fds[1]);
    auto_close int from = fds[0];
    for (char *room; pid > 0 && (room = buf_room(out, 65536));) {
        ssize_t n = read(from, room, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        buf_grew(out, (size_t)n);
    }
    close(TAKE_FD(from)); /* a bundle that is too large ends here */
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 && out->n && !out->full;
}

const char *repo_add(struct api *a, struct jw *w, const char *repo, const char *commit)
{
    const char *dir = local_dir(a, repo);
    struct buf bundle;

    buf_init(&bundle, LIMIT_REPO_BUNDLE);
    bool have = dir && read_bundle(dir, &bundle);
    jw_key(w, "repo");
    jw_obj(w);
    jw_kz(w, "url", dir ? arena_printf(&a->arena, "file://%s", dir) : repo);
    jw_kz(w, "commit", commit);
    if (have) {
        jw_key(w, "bundle");
        jw_base64(w, buf_view(&bundle));
    }
    jw_obj_end(w);
    const char *why = have          ? NULL
                      : !dir        ? "there is no such directory here"
                      : bundle.full ? "it is larger than LIMIT_REPO_BUNDLE"
                                    : "git bundle cannot read it";
    buf_done(&bundle);
    return why;
}
