/* file/upload and file/download of AIO, and its second generation's file/tree: whole files as streams. */
#include <errno.h>

#include "base/limits.h"
#include "base/path.h"
#include "surface/aio.h"
#include "surface/transfer.h"

/* --- upload --- */

static const struct field upload_in[] = {
    SAYS(BYTES, "file", "the file", .required = true),
    SAYS(STR, "path", "where it goes; without it, /tmp and the file's own name"),
    { 0 },
};
static const struct field upload_out[] = {
    SAYS(STR, "file_path", "where it is", .required = true),
    SAYS(INT, "file_size", "in bytes", .required = true),
    SAYS(BOOL, "success", "it is there", .required = true),
    { 0 },
};

static void on_uploaded(struct web *w, const struct call *c)
{
    const struct json *data = aio_data(w, c);
    struct buf b;
    struct jw j;

    if (c->outcome != OUTCOME_OK) {
        aio_call_failed(w, c);
        return;
    }
    struct str path = json_get_str(data, "path");
    bool moved = !path.p;
    if (moved)
        path = json_get_str(data, "destination");
    aio_begin(w, &b, &j);
    jw_obj(&j);
    jw_kstr(&j, "file_path", path);
    jw_kint(&j, "file_size", moved ? w->bytes : json_get_int(data, "bytes", 0));
    jw_kbool(&j, "success", true);
    struct str sum = moved ? w->sha256 : json_get_str(data, "sha256");
    if (sum.p)
        jw_kstr(&j, "sha256", sum);
    jw_obj_end(&j);
    aio_end(w, &b, &j, NULL);
}

static void on_wrong_form(struct web *w, const char *field, const char *why)
{
    aio_invalid(w, "body", field, "missing", "%s", why);
}

static void upload(struct web *w)
{
    transfer_form(w, aio_box(w), on_uploaded, on_wrong_form);
}

/* --- download --- */

struct download_in {
    struct str path, change_policy;
};
static const struct field download_in[] = {
    FIELD(STR, struct download_in, path, "file", .required = true, .max = LIMIT_PATH, .path = true),
    FIELD(STR, struct download_in, change_policy, "if the file changes meanwhile", .def_str = "ignore",
          .choices = "ignore|abort"),
    { 0 },
};

/* Not the envelope's 200: whoever saves the body must see that it is no file. */
static void on_no_download(struct web *w, const struct call *c)
{
    int status = c->outcome == OUTCOME_INFRA_ERROR || c->outcome == OUTCOME_BOX_LOST ? 503
                 : c->error == ERR_SYSTEM && c->outcome != OUTCOME_OK                ? 400
                                                                                     : web_status_of(c->error);

    if (c->sys == EACCES || c->sys == EPERM)
        status = 403;
    aio_error(w, status == 200 ? 500 : status, "%.*s", STR_ARG(c->message));
}

static void download(struct web *w)
{
    const struct download_in *in = aio_bound(w);
    struct buf text;
    struct jw j = { .out = &text };

    buf_init(&text, 64 * KiB);
    jw_obj(&j);
    jw_key(&j, "path");
    jw_path(&j, in->path);
    jw_kstr(&j, "on_change", in->change_policy);
    transfer_range(w, &j);
    jw_obj_end(&j);
    transfer_out(w, aio_box(w),
                 &(struct transfer_ask){ .tool = "file:download", .params = buf_view(&text), .done = on_no_download },
                 true);
    buf_done(&text);
}

/* --- a directory as a tar --- */

struct tree_in {
    struct str path, links;
};
static const struct field tree_in[] = {
    FIELD(STR, struct tree_in, path, "directory", .required = true, .max = LIMIT_PATH),
    FIELD(STR, struct tree_in, links, "PUT: symbolic links that lead out of it", .def_str = "inside",
          .choices = "inside|any"),
    { 0 },
};

static void on_unpacked(struct web *w, const struct call *c)
{
    struct buf b;
    struct jw j;

    if (c->outcome != OUTCOME_OK) {
        aio_call_failed(w, c);
        return;
    }
    aio_begin(w, &b, &j);
    jw_raw(&j, c->data);
    aio_end(w, &b, &j, NULL);
}

static void tree(struct web *w)
{
    struct str path = http_query(w->http, "path"), links = http_query(w->http, "links");
    struct buf text;
    struct jw j = { .out = &text };
    bool in = str_is(w->http->method, "PUT");

    buf_init(&text, 64 * KiB);
    jw_obj(&j);
    if (path.p) {
        jw_key(&j, "path");
        jw_given_path(&j, path);
    }
    if (in && links.p)
        jw_kstr(&j, "links", links);
    jw_obj_end(&j);
    struct transfer_ask ask = { .tool = in ? "file:upload_tar" : "file:download_tar",
                                .params = buf_view(&text),
                                .done = in ? on_unpacked : on_no_download };
    if (in)
        transfer_in(w, aio_box(w), &ask);
    else
        transfer_out(w, aio_box(w), &ask, false);
    buf_done(&text);
}

static const struct aio_op ops[] = {
    { "POST", "/v1/file/upload", "file", "upload_file", "Upload a file", .handler = upload, .in = upload_in,
      .in_name = "Body_upload_file", .out = upload_out, .out_name = "FileUploadResult",
      .flags = AIO_RAW | AIO_BOX | AIO_FILE },
    { "GET", "/v1/file/download", "file", "download_file", "Download a file", .handler = download, .in = download_in,
      .out_name = "application/octet-stream", .flags = AIO_BOX | AIO_BYTES },
    { "HEAD", "/v1/file/download", "file", "head_file", "What a download would be", .handler = download,
      .in = download_in, .in_query = "path change_policy", .out_name = "application/octet-stream",
      .flags = AIO_BOX | AIO_BYTES | AIO_QUIET },
    { "GET", "/v1/file/tree", "file", "download_tree", "A directory as a tar", .handler = tree, .in = tree_in,
      .out_name = "application/x-tar", .flags = AIO_BOX | AIO_BYTES | AIO_QUIET },
    { "PUT", "/v1/file/tree", "file", "upload_tree", "Unpack a tar into a directory", .handler = tree,
      .flags = AIO_RAW | AIO_BOX | AIO_FILE | AIO_QUIET },
    { 0 },
};
const struct aio_group aio_transfer = { "file", ops };
