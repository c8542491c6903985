/* Reading and writing as root of the box. A hand is the box's user for good, so programs do it, by the box's sudo. */
#include "tool/file_internal.h"

#ifdef IN_BOX

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "init/hand.h"
#include "init/program.h"

/* "cat: /x: Permission denied" is errno again. */
static int fail(struct err *e, const char *verb, const char *path, struct str said)
{
    static const int known[] = { ENOENT, EACCES, EPERM, EISDIR, ENOTDIR, EROFS, ENOSPC, ENAMETOOLONG, ELOOP };

    while (said.n && said.p[said.n - 1] == '\n')
        said.n--;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *text = strerror(known[i]);
        if (said.n && memmem(said.p, said.n, text, strlen(text))) {
            errno = known[i];
            return file_fail(e, verb, path);
        }
    }
    return err_set(e, ERR_DENIED, "%s %s with sudo: %.*s", verb, path, STR_ARG(said));
}

static int run(struct hand *h, const char *const *argv, struct str input, const char *verb, const char *path,
               struct str *ret, struct err *e)
{
    struct program_end end;
    int r = program_run(
        h,
        &(struct program_opts){
            .argv = argv, .cwd = "/", .input = input, .deadline_ms = h->deadline_ms, .head_max = LIMIT_FILE_IO },
        &end, e);

    if (r == -ENOENT)
        return err_set(e, ERR_DENIED, "%s %s: this box has no sudo", verb, path);
    if (r < 0)
        return r;
    if (end.exit_code)
        return fail(e, verb, path, end.err);
    if (end.out_bytes > LIMIT_FILE_IO)
        return err_set(e, ERR_LIMIT, "%s %s: its %lld bytes exceed LIMIT_FILE_IO (%ld)", verb, path,
                       (long long)end.out_bytes, LIMIT_FILE_IO);
    if (ret)
        *ret = end.out.p ? end.out : STR("");
    return 0;
}

int file_sudo_read(struct hand *h, const char *path, struct str *ret, struct err *e)
{
    const char *const argv[] = { "sudo", "cat", "--", path, NULL };

    return run(h, argv, (struct str){ 0 }, "read", path, ret, e);
}

int file_sudo_write(struct hand *h, const char *path, struct str s, bool append, bool mkdirs, struct err *e)
{
    static const char script[] = "[ \"$3\" ] && mkdir -p -- \"$(dirname -- \"$1\")\"; "
                                 "if [ \"$2\" ]; then exec cat >>\"$1\"; else exec cat >\"$1\"; fi";
    const char *const argv[] = {
        "sudo", "/bin/sh", "-c", script, "sh", path, append ? "1" : "", mkdirs ? "1" : "", NULL
    };

    return run(h, argv, s.p ? s : STR(""), "write", path, NULL, e);
}

#endif
