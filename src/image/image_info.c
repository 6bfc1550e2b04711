/* SPDX-License-Identifier: Apache-2.0 */
/* image.json. */
#include "image/image_info.h"

#include <errno.h>

#include "base/err.h"
#include "base/json.h"
#include "proto/oci.h"

static const struct json_field info_fields[] = {
    JSON_VERSION("version", 1),
    JSON_STRING_OF("id", struct image_info, id, 0),
    JSON_STRING_OF("manifest", struct image_info, manifest, 0),
    JSON_STRING_OF("name", struct image_info, name, 0),
    JSON_STRINGS("layers", struct image_info, layers, 0, OCI_LAYERS_MAX),
    JSON_U64("bytes", struct image_info, bytes),
    JSON_U64("entries", struct image_info, entries),
    JSON_STRINGS("env", struct image_info, env, 0, OCI_LIST_MAX),
    JSON_STRINGS("entrypoint", struct image_info, entrypoint, 0, OCI_LIST_MAX),
    JSON_STRINGS("cmd", struct image_info, cmd, 0, OCI_LIST_MAX),
    JSON_STRING_OF("workdir", struct image_info, workdir, 0),
    JSON_STRING_OF("user", struct image_info, user, 0),
    JSON_STRING_OF("arch", struct image_info, arch, 0),
    JSON_U64("uid", struct image_info, uid),
    JSON_U64("gid", struct image_info, gid),
    JSON_STRING_OF("passwd", struct image_info, passwd, 0),
    JSON_STRING_OF("group", struct image_info, group, 0),
};
static const struct json_table info_table = {info_fields, ARRAY_LEN(info_fields)};

void image_info_done(struct image_info *i) {
    free(i->id);
    free(i->manifest);
    free(i->name);
    strv_done(&i->layers);
    strv_done(&i->env);
    strv_done(&i->entrypoint);
    strv_done(&i->cmd);
    free(i->workdir);
    free(i->user);
    free(i->arch);
    free(i->passwd);
    free(i->group);
    *i = (struct image_info){0};
}

static int info_check(const struct image_info *i, struct err *err) {
    bool ok = oci_digest_ok(i->id) && (!i->manifest[0] || oci_digest_ok(i->manifest)) && i->layers.len > 0 &&
              i->uid < UINT32_MAX && i->gid < UINT32_MAX;

    for (size_t k = 0; ok && k < i->layers.len; k++)
        ok = oci_digest_ok(i->layers.v[k]);
    return ok ? 0 : err_set(err, -EBADMSG, "a digest or id in it is none");
}

int image_info_read(const char *text, size_t len, struct image_info *ret, struct err *err) {
    CLEANUP(image_info_done) struct image_info i = {0};
    int r = json_table_parse(&info_table, text, len, IMAGE_INFO_MAX, &i, err);

    r = r < 0 ? r : info_check(&i, err);
    if (r < 0)
        return r;
    *ret = TAKE(i, (struct image_info){0});
    return 0;
}

int image_info_write(const struct image_info *i, struct buf *out, struct err *err) {
    return json_table_write(&info_table, i, JSON_COMPACT, out, err);
}
