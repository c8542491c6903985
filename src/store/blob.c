#include "store/blob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/loop.h"

enum { CHUNK = 256 * 1024 };

static int write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

/* One pass: each byte is hashed and written from the same memory, so a writer at the other end cannot make the
 * name and the content differ. */
static int copy(int from, int to, EVP_MD_CTX *md, uint64_t *ret_bytes, struct err *e)
{
    auto_free char *chunk = malloc(CHUNK);
    uint64_t total = 0;

    if (!chunk)
        abort();
    for (;;) {
        ssize_t n = pread(from, chunk, CHUNK, (off_t)total);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "read the blob's content");
        if (n == 0)
            break;
        total += (uint64_t)n;
        if (total > LIMIT_BLOB)
            return err_set(e, ERR_LIMIT, "the blob exceeds LIMIT_BLOB (%ld bytes)", (long)LIMIT_BLOB);
        if (EVP_DigestUpdate(md, chunk, (size_t)n) != 1)
            return err_set(e, ERR_SYSTEM, "libcrypto refused to hash");
        if (write_all(to, chunk, (size_t)n) < 0)
            return err_sys(e, "write a blob of %llu bytes or more", (unsigned long long)total);
    }
    *ret_bytes = total;
    return 0;
}

static int hash_into(int from, int to, struct blob_name *ret, uint64_t *ret_bytes, struct err *e)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();

    int r =
        md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 ? 0 : err_set(e, ERR_SYSTEM, "libcrypto has no SHA-256");
    if (r >= 0)
        r = copy(from, to, md, ret_bytes, e);
    if (r >= 0 && (EVP_DigestFinal_ex(md, digest, &n) != 1 || n != 32))
        r = err_set(e, ERR_SYSTEM, "libcrypto refused to hash");
    EVP_MD_CTX_free(md);
    if (r < 0)
        return r;
    memcpy(ret->z, "sha256:", 7);
    for (unsigned i = 0; i < n; i++)
        snprintf(ret->z + 7 + 2 * (size_t)i, 3, "%02x", digest[i]);
    return 0;
}

static int sync_dir(int dirfd, const char *name, struct err *e)
{
    auto_close int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return err_sys(e, "fsync directory '%s' of the blobs", name);
    return 0;
}

static int publish(int dirfd, const char *temp, const char *hex, bool sync, struct err *e)
{
    char sub[3] = { hex[0], hex[1], 0 };
    char path[80];

    snprintf(path, sizeof path, "%s/%s", sub, hex);
    if (mkdirat(dirfd, sub, 0700) == 0 && sync) {
        int r = sync_dir(dirfd, ".", e);
        if (r < 0)
            return r;
    } else if (errno != EEXIST && faccessat(dirfd, sub, F_OK, 0) < 0) {
        return err_sys(e, "make the blobs' directory '%s'", sub);
    }
    if (renameat(dirfd, temp, dirfd, path) < 0)
        return err_sys(e, "name blob %s", hex);
    return sync ? sync_dir(dirfd, sub, e) : 0;
}

int blob_put(const char *home, int fd, bool sync, struct blob_name *ret_name, uint64_t *ret_bytes, struct err *e)
{
    static unsigned serial;
    char dir[4200], temp[64];
    struct blob_name name;
    struct stat st;
    uint64_t bytes = 0;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) /* a pipe would block */
        return err_set(e, ERR_INVALID, "a blob must come as a memfd or a file");
    snprintf(dir, sizeof dir, "%s/blobs", home);
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "make '%s'", dir);
    auto_close int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return err_sys(e, "open '%s'", dir);
    snprintf(temp, sizeof temp, "new.%d.%u", (int)getpid(), serial++);
    auto_close int to = openat(dirfd, temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to < 0)
        return err_sys(e, "make a blob in '%s'", dir);

    int r = hash_into(fd, to, &name, &bytes, e);
    if (r >= 0 && sync && fdatasync(to) < 0)
        r = err_sys(e, "fdatasync of a blob");
    if (r >= 0)
        r = publish(dirfd, temp, name.z + 7, sync, e);
    if (r < 0) {
        (void)unlinkat(dirfd, temp, 0);
        return r;
    }
    *ret_name = name;
    *ret_bytes = bytes;
    return 0;
}

static int path_of(const char *home, struct str name, char out[4300], struct err *e)
{
    bool ok = name.n == 71 && memcmp(name.p, "sha256:", 7) == 0;

    for (size_t i = 7; ok && i < 71; i++)
        ok = (name.p[i] >= '0' && name.p[i] <= '9') || (name.p[i] >= 'a' && name.p[i] <= 'f');
    if (!ok)
        return err_set(e, ERR_INVALID, "a blob's name is 'sha256:' and 64 hex digits");
    snprintf(out, 4300, "%s/blobs/%.2s/%.64s", home, name.p + 7, name.p + 7);
    return 0;
}

static int each_in(const char *sub, int take_fd, blob_fn on_blob, void *arg, struct err *e)
{
    DIR *d = fdopendir(take_fd);
    struct blob_name name;
    int r = 0;

    if (!d) {
        close(take_fd);
        return err_sys(e, "list blobs/%s", sub);
    }
    for (struct dirent *f; r >= 0 && (f = readdir(d));) {
        if (strlen(f->d_name) != 64 || memcmp(f->d_name, sub, 2) != 0)
            continue;
        snprintf(name.z, sizeof name.z, "sha256:%.64s", f->d_name);
        r = on_blob(arg, str_of(name.z), e);
    }
    closedir(d);
    return r;
}

int blob_each(const char *home, blob_fn on_blob, void *arg, struct err *e)
{
    char dir[4200];
    int r = 0;

    snprintf(dir, sizeof dir, "%s/blobs", home);
    DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : err_sys(e, "list '%s'", dir);
    for (struct dirent *f; r >= 0 && (f = readdir(d));) {
        if (strncmp(f->d_name, "new.", 4) == 0)
            (void)unlinkat(dirfd(d), f->d_name, 0);
        if (strlen(f->d_name) != 2 || f->d_name[0] == '.')
            continue;
        int fd = openat(dirfd(d), f->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? err_sys(e, "open blobs/%s", f->d_name) : each_in(f->d_name, fd, on_blob, arg, e);
    }
    closedir(d);
    return r;
}

int blob_remove(const char *home, struct str name, int64_t grace_ms, struct err *e)
{
    char path[4300];
    struct stat st;

    int r = path_of(home, name, path, e);
    if (r < 0)
        return r;
    if (lstat(path, &st) < 0)
        return err_sys(e, "look at blob %.71s", name.p);
    if (wall_us() / 1000 - ((int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000) < grace_ms)
        return -EAGAIN; /* storing the same again makes it young: whoever did may not have recorded its name yet */
    return unlink(path) < 0 ? err_sys(e, "remove blob %.71s", name.p) : 0;
}

int blob_open(const char *home, struct str name, int *ret_fd, uint64_t *ret_bytes, struct err *e)
{
    char path[4300];
    struct stat st;

    int r = path_of(home, name, path, e);
    if (r < 0)
        return r;
    auto_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "no blob %.71s", name.p)
                               : err_sys(e, "open blob %.71s", name.p);
    if (fstat(fd, &st) < 0)
        return err_sys(e, "stat blob %.71s", name.p);
    *ret_bytes = (uint64_t)st.st_size;
    *ret_fd = TAKE_FD(fd);
    return 0;
}
