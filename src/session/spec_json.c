#include "session/spec_json.h"

#include <stdio.h>

void spec_limits_print(const struct box_spec *s, struct jw *w)
{
    jw_kint(w, "memory_bytes", s->memory_bytes);
    jw_kint(w, "disk_bytes", s->disk_bytes);
    jw_kint(w, "shm_bytes", s->shm_bytes);
    jw_knum(w, "cpu", (double)s->cpu_milli / 1000);
    jw_kint(w, "pids", s->pids);
    jw_kint(w, "open_files", s->open_files);
}

static void print_mounts(const struct box_spec *s, struct jw *w)
{
    jw_key(w, "mounts");
    jw_arr(w);
    for (uint32_t i = 0; i < s->mount_count; i++) {
        jw_obj(w);
        jw_kz(w, "from", s->mounts[i].from);
        jw_kz(w, "to", s->mounts[i].to);
        jw_kbool(w, "writable", s->mounts[i].writable);
        jw_obj_end(w);
    }
    jw_arr_end(w);
}

void spec_print(const struct box_spec *s, struct jw *w)
{
    spec_limits_print(s, w);
    jw_kint(w, "cpu_milli", s->cpu_milli);
    jw_kint(w, "network", s->network);
    jw_kbool(w, "sudo", s->sudo);
    jw_kbool(w, "user_namespaces", s->user_namespaces);
    print_mounts(s, w);
}

static void read_mounts(const struct json *list, struct box_spec *s)
{
    if (list)
        s->mount_count = 0;
    for (const struct json *m = list ? list->first : NULL; m && s->mount_count < LIMIT_MOUNTS; m = m->next) {
        struct box_mount *to = &s->mounts[s->mount_count++];
        struct str from = json_get_str(m, "from"), at = json_get_str(m, "to");
        snprintf(to->from, sizeof to->from, "%.*s", STR_ARG(from));
        snprintf(to->to, sizeof to->to, "%.*s", STR_ARG(at));
        to->writable = json_get_bool(m, "writable", false);
    }
}

void spec_read(const struct json *j, struct box_spec *s)
{
    s->memory_bytes = json_get_int(j, "memory_bytes", s->memory_bytes);
    s->disk_bytes = json_get_int(j, "disk_bytes", s->disk_bytes);
    s->shm_bytes = json_get_int(j, "shm_bytes", s->shm_bytes);
    s->cpu_milli = json_get_int(j, "cpu_milli", s->cpu_milli);
    s->pids = json_get_int(j, "pids", s->pids);
    s->open_files = json_get_int(j, "open_files", s->open_files);
    s->network = (uint32_t)json_get_int(j, "network", s->network);
    s->sudo = json_get_bool(j, "sudo", s->sudo);
    s->user_namespaces = json_get_bool(j, "user_namespaces", s->user_namespaces);
    read_mounts(json_get(j, "mounts"), s);
}
