/* The programs that boxes of image `host` offer: each is executed, with the search path of a box, because a program
 * that only the caller's own PATH finds is not in a box. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/loop.h"
#include "daemon/doctor.h"
#include "wire/boot.h"

enum { TRY_MS = 30000, ANSWER_MAX = 2048 };

struct program {
    const char *name, *off, *fix;
    const char *argv[5];
    int major; /* the least major version; 0: any */
    bool needed;
};

#define APT "apt-get install "

static const struct program programs[] = {
    { "bash", "bash:run, and with it nearly everything", APT "bash", { "bash", "--version" }, .needed = true },
    { "python3", "Python in boxes", APT "python3", { "python3", "--version" } },
    { "pip", "pip install in boxes", APT "python3-pip", { "python3", "-m", "pip", "--version" } },
    { "node", "JavaScript in boxes (20 or newer)", "tools/deps.sh", { "node", "--version" }, .major = 20 },
    { "npm", "npm install in boxes", APT "npm", { "npm", "--version" } },
    { "git", "git in boxes, and boxes from a repository", APT "git", { "git", "--version" } },
    { "rg", "fast search in boxes", APT "ripgrep", { "rg", "--version" } },
    { "curl", "curl in boxes", APT "curl", { "curl", "--version" } },
    { "cc", "compiling in boxes", APT "build-essential", { "cc", "--version" } },
    { "make", "make in boxes", APT "build-essential", { "make", "--version" } },
    { "ip", "network: full (virtual links)", APT "iproute2", { "ip", "-V" } },
    { "nft", "network: full (packet filter)", APT "nftables", { "nft", "--version" } },
    { "faketime", "determinism.start_time in boxes", APT "faketime", { "faketime", "--version" } },
    { "chromium", "browser tools", APT "chromium", { "chromium", "--version" } },
    { "Xtigervnc", "desktop:*, vm:*, /vnc/", APT "tigervnc-standalone-server", { "Xtigervnc", "-version" } },
    { "jwm", "desktop:*, vm:*, /vnc/ (window manager)", APT "jwm", { "jwm", "-v" } },
    { "xterm", "a terminal on the desktop", APT "xterm", { "xterm", "-version" } },
    { "ffmpeg", "desktop:record, /v1/display/record", APT "ffmpeg", { "ffmpeg", "-version" } },
    { "jupyter", "the page /jupyter", APT "jupyter-notebook", { "jupyter-notebook", "--version" } },
    { "jupyterlab",
      "JupyterLab at /jupyter, instead of the notebook",
      "make jupyterlab",
      { BOX_JUPYTERLAB_PYTHON, "-c", "import jupyterlab; print(jupyterlab.__version__)" } },
    { "code-server",
      "the page /code-server/",
      "make code-server",
      { "node", BOX_CODE_SERVER, "--version", "--config=/dev/null" } },
};

/* One interpreter for all: each import is tried by itself. */
static const char *const modules[][2] = {
    { "numpy", "python3-numpy" },       { "pandas", "python3-pandas" },   { "matplotlib", "python3-matplotlib" },
    { "requests", "python3-requests" }, { "sklearn", "python3-sklearn" }, { "ipykernel", "python3-ipykernel" },
};
static const char import_script[] = "import sys, importlib\n"
                                    "for name in sys.argv[1:]:\n"
                                    "    try:\n"
                                    "        m = importlib.import_module(name)\n"
                                    "        print(name, getattr(m, '__version__', 'ok'), flush=True)\n"
                                    "    except BaseException as e:\n"
                                    "        print(name, '!', str(e).split('\\n')[0], flush=True)\n";

/* ---- running one ---- */

static char home[] = "HOME=/tmp/sandglass-doctor-XXXXXX"; /* some write there, and would make what is not there */
static char *const box_environment[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
    home,
    NULL,
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* posix_spawnp searches our own PATH, so the search is done here. */
static bool find_program(const char *name, char path[256])
{
    static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin" };

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        snprintf(path, 256, "%s/%s", name[0] == '/' ? "" : dirs[i], name + (name[0] == '/'));
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

static int start(const char *const *argv, int *ret_fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    char path[256];
    int ends[2];

    if (!find_program(argv[0], path) || (argv[1] && argv[1][0] == '/' && access(argv[1], F_OK) < 0))
        return -ENOENT;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawn_file_actions_addchdir_np(&actions, "/");
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP); /* so that its children end with it */
    int r = posix_spawn(ret_pid, path, &actions, &attr, (char *const *)argv, box_environment);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (r != 0) {
        close(ends[0]);
        return -r;
    }
    *ret_fd = ends[0];
    return 0;
}

/* Runs it and keeps the beginning of what it says; 0 if it ended with 0 in time. */
static int try_program(const char *const *argv, char answer[ANSWER_MAX])
{
    auto_close int fd = -1;
    pid_t pid;
    size_t n = 0;
    int status, r = start(argv, &fd, &pid);
    int64_t end = now_ms() + TRY_MS;

    answer[0] = '\0';
    if (r < 0) {
        snprintf(answer, ANSWER_MAX, "%s", r == -ENOENT ? "not installed" : strerror(-r));
        return r;
    }
    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        char rest[512];
        int64_t left = end - now_ms();
        if (left <= 0 || poll(&p, 1, (int)left) <= 0) {
            (void)kill(-pid, SIGKILL); /* not reaped yet, so the number is still its own */
            r = -ETIMEDOUT;
            break;
        }
        bool room = n < ANSWER_MAX - 1;
        ssize_t got = read(fd, room ? answer + n : rest, room ? ANSWER_MAX - 1 - n : sizeof rest);
        if (got <= 0)
            break;
        n += room ? (size_t)got : 0;
    }
    answer[n] = '\0';
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (r == -ETIMEDOUT)
        snprintf(answer, ANSWER_MAX, "did not answer within %d s", TRY_MS / 1000);
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        r = -EIO;
    return r;
}

/* A line that begins with a path is a complaint of the shell script around the program. */
static void keep_first_line(char *text)
{
    for (char *next; *text == '/' && (next = strchr(text, '\n')) && next[1];)
        memmove(text, next + 1, strlen(next + 1) + 1);
    text[strcspn(text, "\r\n")] = '\0';
    if (strlen(text) > 100)
        strcpy(text + 97, "...");
}

static int major_version(const char *text)
{
    text += strcspn(text, "0123456789");
    return atoi(text);
}

/* ---- the rows ---- */

static bool check_program(const struct program *p, on_doctor_row *report, void *arg)
{
    char answer[ANSWER_MAX], detail[160];
    bool ok = try_program(p->argv, answer) == 0;

    keep_first_line(answer);
    snprintf(detail, sizeof detail, "%.120s", *answer ? answer : ok ? "works" : "failed");
    if (ok && p->major && major_version(answer) < p->major) {
        snprintf(detail, sizeof detail, "%.60s is too old: %d or newer is needed", answer, p->major);
        ok = false;
    }
    report(arg, &(struct doctor_row){ .group = "programs",
                                      .name = p->name,
                                      .ok = ok,
                                      .needed = p->needed,
                                      .detail = detail,
                                      .off = p->off,
                                      .fix = p->fix });
    return ok || !p->needed;
}

static void check_modules(on_doctor_row *report, void *arg)
{
    const char *argv[4 + ARRAY_LEN(modules)] = { "python3", "-c", import_script };
    char answer[ANSWER_MAX];

    for (size_t i = 0; i < ARRAY_LEN(modules); i++)
        argv[3 + i] = modules[i][0];
    (void)try_program(argv, answer);
    for (size_t i = 0; i < ARRAY_LEN(modules); i++) {
        size_t n = strlen(modules[i][0]);
        char name[48], fix[80], off[80], detail[120] = "cannot be imported";
        const char *line = answer;
        while (line && !(strncmp(line, modules[i][0], n) == 0 && line[n] == ' '))
            line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
        bool ok = line && line[n + 1] != '!';
        if (line)
            snprintf(detail, sizeof detail, "%.*s", (int)strcspn(line + n + 1, "\n"), line + n + 1 + (ok ? 0 : 2));
        snprintf(name, sizeof name, "python3: %s", modules[i][0]);
        snprintf(fix, sizeof fix, APT "%s", modules[i][1]);
        snprintf(off, sizeof off,
                 strcmp(modules[i][0], "ipykernel") == 0 ? "Jupyter kernels (code tools)" : "import %s in boxes",
                 modules[i][0]);
        detail[strcspn(detail, "\n")] = '\0';
        report(arg, &(struct doctor_row){
                        .group = "programs", .name = name, .ok = ok, .detail = detail, .off = off, .fix = fix });
    }
}

bool doctor_programs(on_doctor_row *report, void *arg)
{
    char *dir = mkdtemp(home + strlen("HOME="));
    bool fine = true;

    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        fine &= check_program(&programs[i], report, arg);
    check_modules(report, arg);
    if (dir)
        (void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return fine;
}
