#include "image/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/fingerprint.h"
#include "image/tree.h"
#include "wire/boot.h"

enum { FORMAT = 3 }; /* of the skeleton; raise it when what is built changes */

/* What programs read from /etc and what is the same for everybody. Anything that could hold a password, a key, a token
 * or this machine's own settings is not in the list. */
static const char *const from_etc[] = {
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ca-certificates.conf",
    "ca-certificates",
    "alternatives",
    "localtime",
    "timezone",
    "mime.types",
    "mailcap",
    "protocols",
    "services",
    "rpc",
    "ethertypes",
    "os-release",
    "debian_version",
    "lsb-release",
    "issue",
    "bash.bashrc",
    "bash_completion.d",
    "profile",
    "profile.d",
    "skel",
    "inputrc",
    "terminfo",
    "fonts",
    "matplotlibrc",
    "python3*",
    "java-*",
    "magic",
    "magic.mime",
    "chromium",
    "perl",
    "gai.conf",
    "host.conf",
    "locale.alias",
    "login.defs",
    "shells",
    "groff",
    "glvnd",
    "ImageMagick-*",
    "xattr.conf",
    "manpath.config",
    "maven",
    "vim",
    "wgetrc",
    "zsh",
};

static const char passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
                             "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                             "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                             "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
                             "man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
                             "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
                             "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
                             "gem:x:1000:1000:gem:" BOX_HOME ":/bin/bash\n"
                             "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
static const char group[] = "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\n"
                            "man:x:12:\nsudo:x:27:gem\nwww-data:x:33:\nutmp:x:43:\nvideo:x:44:\naudio:x:29:\n"
                            "staff:x:50:\nusers:x:100:\ngem:x:1000:\nnogroup:x:65534:\n";
static const char hosts[] = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";
static const char nsswitch[] = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
                               "protocols: files\nservices: files\nethers: files\nrpc: files\n";

/* For su and runuser, which root of the box may use as anywhere; nobody has a password here. */
static const char pam[] = "auth sufficient pam_rootok.so\nauth required pam_deny.so\naccount required pam_permit.so\n"
                          "password required pam_deny.so\nsession required pam_permit.so\n";

/* --- which generation is this? --- */

static uint64_t hash(uint64_t h, const void *p, size_t n)
{
    const unsigned char *b = p;
    while (n--)
        h = (h ^ *b++) * 0x100000001b3ULL; /* FNV-1a: names a directory, guards nothing */
    return h;
}

static uint64_t hash_stat(uint64_t h, const char *path)
{
    struct stat st;
    int64_t v[3] = { 0 };

    if (stat(path, &st) == 0) {
        v[0] = st.st_mtim.tv_sec;
        v[1] = st.st_mtim.tv_nsec;
        v[2] = st.st_size;
    }
    return hash(h, v, sizeof v);
}

static uint64_t hash_packages(void)
{
    uint64_t h = 0xcbf29ce484222325ULL;

    h = hash(h, &(int){ FORMAT }, sizeof(int));
    h = hash_stat(h, "/var/lib/dpkg/status");
    return hash_stat(h, "/etc/ld.so.cache");
}

static int name_generation(uint64_t h, const char *init_path, char *out, size_t size, struct err *e)
{
    char block[16384];
    ssize_t n;

    auto_close int fd = open(init_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "open '%s'", init_path);
    while ((n = read(fd, block, sizeof block)) > 0)
        h = hash(h, block, (size_t)n);
    if (n < 0)
        return err_sys(e, "read '%s'", init_path);
    snprintf(out, size, "%012llx", (unsigned long long)(h & 0xffffffffffffULL));
    return 0;
}

/* --- building --- */

static int copy_etc(int etc, struct err *e)
{
    auto_close int host = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = host < 0 ? NULL : fdopendir(dup(host));
    int r = d ? 0 : err_sys(e, "open /etc");

    for (struct dirent *x; r >= 0 && (x = readdir(d));)
        for (size_t i = 0; r >= 0 && i < ARRAY_LEN(from_etc); i++)
            if (fnmatch(from_etc[i], x->d_name, FNM_PERIOD) == 0) {
                r = tree_copy(host, x->d_name, etc, e);
                break;
            }
    if (d)
        closedir(d);
    if (r < 0)
        return r;
    auto_close int ssl = open("/etc/ssl", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ssl < 0)
        return 0;
    r = tree_mkdir(etc, "ssl", 0755, 0, e);
    if (r < 0)
        return r;
    auto_close int to = openat(etc, "ssl", O_PATH | O_DIRECTORY | O_CLOEXEC);
    r = tree_copy(ssl, "certs", to, e); /* never "private" */
    return r < 0 ? r : tree_copy(ssl, "openssl.cnf", to, e);
}

static int make_etc(int root, struct err *e)
{
    static const struct {
        const char *name, *text;
    } files[] = { { "passwd", passwd },    { "group", group },    { "hosts", hosts },
                  { "hostname", "box\n" }, { "resolv.conf", "" }, { "nsswitch.conf", nsswitch },
                  { "environment", "" },   { "pam.d/other", pam } };

    int r = tree_mkdir(root, "etc", 0755, 0, e);
    if (r >= 0)
        r = tree_mkdir(root, "etc/pam.d", 0755, 0, e);
    if (r < 0)
        return r;
    auto_close int etc = openat(root, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    r = copy_etc(etc, e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        r = tree_write(etc, files[i].name, files[i].text, 0644, e);
        if (r < 0)
            return r;
    }
    if (symlinkat("/proc/mounts", etc, "mtab") < 0)
        return err_sys(e, "link mtab");
    return 0;
}

static int make_home(int root, struct err *e)
{
    int r = tree_mkdir(root, "home", 0755, 0, e);
    if (r < 0)
        return r;
    r = tree_mkdir(root, "home/gem", 0755, BOX_UID, e);
    if (r < 0)
        return r;
    auto_close int home = openat(root, "home/gem", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int skel = open("/etc/skel", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    static const char *const files[] = { ".bashrc", ".profile", ".bash_logout" };
    for (size_t i = 0; skel >= 0 && i < ARRAY_LEN(files); i++) {
        r = tree_copy(skel, files[i], home, e);
        if (r < 0)
            return r;
        (void)fchownat(home, files[i], BOX_UID, BOX_GID, AT_SYMLINK_NOFOLLOW);
    }
    return 0;
}

static int make_links(int root, struct err *e)
{
    static const char *const merged[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

    for (size_t i = 0; i < ARRAY_LEN(merged); i++) {
        char path[32], target[32];
        struct stat st;
        snprintf(path, sizeof path, "/%s", merged[i]);
        snprintf(target, sizeof target, "usr/%s", merged[i]);
        if (lstat(path, &st) < 0)
            continue;
        if (!S_ISLNK(st.st_mode))
            return err_set(e, ERR_SYSTEM, "this host has a %s apart from /usr; use an image directory", path);
        if (symlinkat(target, root, merged[i]) < 0)
            return err_sys(e, "link %s", path);
    }
    if (symlinkat("/run", root, "var/run") < 0 || symlinkat("/run/lock", root, "var/lock") < 0)
        return err_sys(e, "link /var/run");
    return 0;
}

static int make_root(int root, struct err *e)
{
    static const struct {
        const char *path;
        mode_t mode;
        uid_t owner;
    } dirs[] = {
        { "root", 0700, 0 },      { "opt", 0755, 0 },       { "srv", 0755, 0 },
        { "mnt", 0755, 0 },       { "media", 0755, 0 },     { "var", 0755, 0 },
        { "var/tmp", 01777, 0 },  { "var/log", 0755, 0 },   { "var/lib", 0755, 0 },
        { "var/cache", 0755, 0 }, { "var/spool", 0755, 0 }, { "run", 0755, 0 },
        { "tmp", 01777, 0 },      { "proc", 0555, 0 },      { "sys", 0555, 0 },
        { "dev", 0755, 0 },       { "usr", 0755, 0 },       { "workspace", 0755, BOX_UID },
    };

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        int r = tree_mkdir(root, dirs[i].path, dirs[i].mode, dirs[i].owner, e);
        if (r < 0)
            return r;
    }
    int r = make_links(root, e);
    if (r < 0)
        return r;
    r = make_home(root, e);
    return r < 0 ? r : make_etc(root, e);
}

/* sudo in a box is a face of init, which is static and talks to the running init; see wire/boot.h */
static int make_sudo(int dir, const char *init_path, struct err *e)
{
    int r = tree_mkdir(dir, "bin", 0755, 0, e);
    if (r < 0)
        return r;
    auto_close int bin = openat(dir, "bin", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return tree_copy_file(AT_FDCWD, init_path, bin, "sudo", 0755, e);
}

/* --- what was built --- */

/* The file `proof` beside the trees: two hashes in hex, a line each. */
static int read_proof(int top, struct host_image *h, struct err *e)
{
    char text[2 * SHA_HEX + 1] = "";
    auto_close int fd = openat(top, "proof", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        return 0;
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (n < 0)
        return err_sys(e, "read the image's proof");
    if (n == 0) /* the machine went down before it was on disk */
        return 0;
    if (n != 2 * SHA_HEX || !sha_parse((struct str){ text, SHA_HEX - 1 }, &h->root_proof) ||
        !sha_parse((struct str){ text + SHA_HEX, SHA_HEX - 1 }, &h->sudo_proof))
        return err_set(e, ERR_SYSTEM, "images/host-%s/proof is damaged; remove that directory, it is made again",
                       h->generation);
    return 1;
}

static int write_proof(int top, const struct host_image *h, struct err *e)
{
    char root[SHA_HEX], sudo[SHA_HEX], text[2 * SHA_HEX + 1];

    sha_print(&h->root_proof, root);
    sha_print(&h->sudo_proof, sudo);
    snprintf(text, sizeof text, "%s\n%s\n", root, sudo);
    (void)unlinkat(top, "proof.new", 0);
    int r = tree_write(top, "proof.new", text, 0644, e);
    if (r >= 0 && renameat(top, "proof.new", top, "proof") < 0)
        r = err_sys(e, "rename the image's proof");
    return r;
}

/* Known from when it was built; of one that an earlier version built, from now on. */
static int know_proof(int images, const char *name, struct host_image *h, struct err *e)
{
    auto_close int top = openat(images, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0)
        return err_sys(e, "open '%s'", name);
    int r = read_proof(top, h, e);
    if (r != 0)
        return r;
    r = fingerprint_of(h->root, &h->root_proof, e);
    if (r >= 0)
        r = fingerprint_of(h->sudo, &h->sudo_proof, e);
    return r < 0 ? r : write_proof(top, h, e);
}

static int prove(const char *path, const struct sha *expected, struct err *e)
{
    struct sha found;

    int r = fingerprint_of(path, &found, e);
    if (r < 0)
        return r;
    if (sha_eq(&found, expected))
        return 0;
    (void)err_set(e, ERR_DENIED, "the image's files in '%s' are not as they were built", path);
    return -ESTALE;
}

bool host_image_packages(const struct host_image *h)
{
    return hash_packages() == h->packages;
}

int host_image_prove(const struct host_image *h, bool sudo, struct err *e)
{
    if (!host_image_packages(h)) {
        (void)err_set(e, ERR_DENIED, "the host's packages have changed since the server began; restart it");
        return -ESTALE;
    }
    int r = prove(h->root, &h->root_proof, e);
    return r < 0 || !sudo ? r : prove(h->sudo, &h->sudo_proof, e);
}

/* --- opening --- */

static int build(int images, const char *name, const char *init_path, struct err *e)
{
    int r = tree_mkdir(images, name, 0755, 0, e);
    if (r < 0)
        return r;
    auto_close int top = openat(images, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0)
        return err_sys(e, "open '%s'", name);
    r = tree_mkdir(top, "root", 0755, 0, e);
    if (r < 0)
        return r;
    r = tree_mkdir(top, "usr-sudo", 0755, 0, e);
    if (r < 0)
        return r;
    auto_close int root = openat(top, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int sudo = openat(top, "usr-sudo", O_PATH | O_DIRECTORY | O_CLOEXEC);
    r = make_root(root, e);
    return r < 0 ? r : make_sudo(sudo, init_path, e);
}

static int open_images(const char *home, struct err *e)
{
    char path[HOST_PATH];

    snprintf(path, sizeof path, "%s/images", home);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return err_sys(e, "mkdir '%s'", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, "open '%s'", path) : fd;
}

int host_image_open(const char *home, const char *init_path, struct host_image *ret, struct err *e)
{
    struct host_image h = { 0 };
    char name[48], temp[64];

    h.packages = hash_packages();
    int r = name_generation(h.packages, init_path, h.generation, sizeof h.generation, e);
    if (r < 0)
        return err_wrap(e, r, "image host");
    snprintf(name, sizeof name, "host-%s", h.generation);
    snprintf(temp, sizeof temp, "%s.new", name);
    if ((size_t)snprintf(h.root, sizeof h.root, "%s/images/%s/root", home, name) >= sizeof h.root ||
        (size_t)snprintf(h.sudo, sizeof h.sudo, "%s/images/%s/usr-sudo", home, name) >= sizeof h.sudo)
        return err_set(e, ERR_INVALID, "image host: the path of '%s' is too long", home);

    auto_close int images = open_images(home, e);
    if (images < 0)
        return images;
    struct stat st;
    if (fstatat(images, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        mode_t old = umask(022);
        tree_remove(images, temp); /* of an earlier life that was cut short */
        r = build(images, temp, init_path, e);
        umask(old);
        if (r >= 0 && renameat(images, temp, images, name) < 0)
            r = err_sys(e, "rename '%s'", name);
        if (r < 0) {
            tree_remove(images, temp);
            return err_wrap(e, r, "build image host");
        }
    }
    r = know_proof(images, name, &h, e);
    if (r < 0)
        return err_wrap(e, r, "image host");
    *ret = h;
    return 0;
}

void host_image_prune(const char *home, const struct host_image *keep)
{
    char name[48];

    snprintf(name, sizeof name, "host-%s", keep->generation);
    auto_close int images = open_images(home, NULL);
    DIR *d = images < 0 ? NULL : fdopendir(dup(images));
    for (struct dirent *x; d && (x = readdir(d));)
        if (strncmp(x->d_name, "host-", 5) == 0 && strcmp(x->d_name, name) != 0)
            tree_remove(images, x->d_name);
    if (d)
        closedir(d);
}
