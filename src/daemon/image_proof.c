#include "daemon/image_proof.h"

#include <stdio.h>
#include <string.h>

#include "image/stamps.h"

static bool is_host(const struct box_spec *spec)
{
    return strcmp(spec->image, "host") == 0;
}

bool image_proved(const struct seats *s, const struct box_spec *spec)
{
    const struct image_proof *p = &s->proof;

    return is_host(spec) && p->root && stamps_hold(p->root) && (!spec->sudo || (p->sudo && stamps_hold(p->sudo))) &&
           host_image_packages(&s->host);
}

const char *image_root(const struct seats *s, const struct box_spec *spec)
{
    return is_host(spec) ? s->proof.bare : "";
}

void image_try(const struct seats *s, const struct box_spec *spec, struct image_try *ret)
{
    if (!is_host(spec))
        return;
    *ret = (struct image_try){ .wanted = true,
                               .with_sudo = spec->sudo,
                               .bare = spec->layer_count == 0,
                               .root = stamps_take(s->host.root, NULL),
                               .sudo = spec->sudo ? stamps_take(s->host.sudo, NULL) : NULL };
}

static void put(struct stamps **at, struct stamps **take)
{
    stamps_free(*at);
    *at = *take;
    *take = NULL;
}

void image_tried(struct seats *s, struct image_try *t, bool proved, const char *root)
{
    if (proved && t->wanted) {
        put(&s->proof.root, &t->root);
        if (t->with_sudo)
            put(&s->proof.sudo, &t->sudo);
        if (t->bare)
            snprintf(s->proof.bare, sizeof s->proof.bare, "%s", root);
    }
    stamps_free(t->root);
    stamps_free(t->sudo);
    *t = (struct image_try){ 0 };
}

void image_proof_done(struct seats *s)
{
    stamps_free(s->proof.root);
    stamps_free(s->proof.sudo);
    s->proof = (struct image_proof){ 0 };
}
