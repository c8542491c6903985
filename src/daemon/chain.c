#include "daemon/chain.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "isolate/mountfd.h"

/* Directories as they lie on disk, without what is mounted below them: clones of mounts, kept, because to close one
 * takes a grace period of the kernel (up to milliseconds), which every snapshot would wait for. */
int chain_keep(struct seats *s, struct err *e)
{
    const char *const paths[HOST_DIRS] = {
        [HOST_ROOT] = s->host.root, [HOST_SUDO] = s->host.sudo, [HOST_USR] = "/usr"
    };

    for (int i = 0; i < HOST_DIRS; i++) {
        s->host_dirs[i] = mountfd_clone(AT_FDCWD, paths[i], 0, -1, e);
        if (s->host_dirs[i] < 0)
            return s->host_dirs[i];
    }
    return 0;
}

/* A worker's own: a directory that is read through a descriptor has one position for all who share it. */
static int open_lower(int dir, struct err *e)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, "open the image") : fd;
}

static int open_root(const struct seats *s, const struct box_spec *spec, bool host, struct err *e)
{
    if (host)
        return open_lower(s->host_dirs[HOST_ROOT], e);
    auto_close int dir = mountfd_allowed("image.roots", s->opts->image_roots, spec->image, e);
    return dir < 0 ? dir : open_lower(dir, e);
}

static int open_image(const struct seats *s, const struct box_spec *spec, struct layer_image *ret, struct err *e)
{
    bool host = strcmp(spec->image, "host") == 0;

    *ret = (struct layer_image){ .digest = host ? s->host.generation : spec->image };
    int r = ret->root[ret->root_n++] = open_root(s, spec, host, e);
    if (r >= 0 && host && spec->sudo)
        r = ret->usr[ret->usr_n++] = open_lower(s->host_dirs[HOST_SUDO], e);
    if (r >= 0 && host)
        r = ret->usr[ret->usr_n++] = open_lower(s->host_dirs[HOST_USR], e);
    return r < 0 ? r : 0;
}

int chain_open(const struct seats *s, const struct box_spec *spec, uint32_t n, char layers[][LAYER_ID_MAX],
               struct chain *ret, struct err *e)
{
    for (uint32_t i = 0; i < n; i++)
        ret->ids[i] = layers[n - 1 - i];
    ret->c = (struct layer_chain){ .home = s->opts->home, .image = &ret->image, .ids = ret->ids, .n = n };
    return open_image(s, spec, &ret->image, e);
}

void chain_close(struct chain *c)
{
    for (size_t i = 0; i < c->image.root_n; i++)
        if (c->image.root[i] >= 0)
            close(c->image.root[i]);
    for (size_t i = 0; i < c->image.usr_n; i++)
        if (c->image.usr[i] >= 0)
            close(c->image.usr[i]);
    c->image = (struct layer_image){ 0 };
}

const struct state_root *chain_root(const char *text, struct state_root *room)
{
    if (strncmp(text, "sha256:", 7) != 0 || strlen(text) != 7 + SHA_HEX - 1)
        return NULL;
    memcpy(room->hex, text + 7, SHA_HEX);
    return room;
}
