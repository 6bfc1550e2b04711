/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests, indexes and configurations: JSON of strangers. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "proto/oci.h"

/* Keys that are there twice are refused (json_parse_object()): what one reader takes another would not. */
static int doc_parse(const char *what, const char *text, size_t len, json_t **ret, struct err *err) {
    int r = json_parse_object(text, len, OCI_TEXT_MAX, ret, err);

    return r < 0 ? err_ctx(err, r, "the image's %s", what) : 0;
}

static void doc_done(json_t **j) {
    json_decref(*j);
}

static int part_read(const json_t *v, struct oci_part *ret, struct err *err) {
    const json_t *platform = json_object_get(v, "platform");
    const char *digest = json_get_text(v, "digest");
    int64_t size = json_get_int(v, "size", -1);

    if (!oci_digest_ok(digest))
        return err_set(err, -EBADMSG, "the image's manifest has a digest that is not SHA-256: '%.100s'", digest);
    if (size < 0)
        return err_set(err, -EBADMSG, "the image's manifest has a part without a size");
    *ret = (struct oci_part){.size = (uint64_t)size};
    snprintf(ret->digest, sizeof ret->digest, "%s", digest);
    snprintf(ret->os, sizeof ret->os, "%s", json_get_text(platform, "os"));
    snprintf(ret->arch, sizeof ret->arch, "%s", json_get_text(platform, "architecture"));
    snprintf(ret->variant, sizeof ret->variant, "%s", json_get_text(platform, "variant"));
    return 0;
}

static int parts_read(const json_t *list, size_t max, struct oci_manifest *m, struct err *err) {
    size_t i;
    json_t *v;
    int r = 0;

    if (!json_is_array(list))
        return err_set(err, -EBADMSG, "the image's manifest has neither layers nor manifests");
    if (json_array_size(list) > max)
        return err_set(err, -E2BIG, "the image's manifest lists %zu parts, more than %zu", json_array_size(list), max);
    json_array_foreach(list, i, v) {
        struct oci_part part;

        r = part_read(v, &part, err);
        if (r < 0)
            return r;
        if (VEC_ADD(m->parts, m->n, part) < 0)
            return err_oom(err);
    }
    return 0;
}

int oci_manifest_parse(const char *text, size_t len, struct oci_manifest *ret, struct err *err) {
    CLEANUP(oci_manifest_done) struct oci_manifest m = {0};
    CLEANUP(doc_done) json_t *doc = NULL;
    int r = doc_parse("manifest", text, len, &doc, err);

    if (r < 0)
        return r;
    if (json_get_int(doc, "schemaVersion", 2) != 2)
        return err_set(err, -EPROTO, "the image has a manifest of schema 1, which registries gave up in 2017; push it again");
    m.index = json_is_array(json_object_get(doc, "manifests"));
    if (m.index && json_object_get(doc, "layers")) /* one document with two meanings (CVE-2021-41190) */
        return err_set(err, -EBADMSG, "the image's manifest is a manifest and an index at once");
    r = parts_read(json_object_get(doc, m.index ? "manifests" : "layers"), m.index ? OCI_INDEX_MAX : OCI_LAYERS_MAX, &m, err);
    if (r == 0 && !m.index)
        r = part_read(json_object_get(doc, "config"), &m.config, err);
    if (r < 0)
        return r;
    *ret = TAKE(m, (struct oci_manifest){0});
    return 0;
}

void oci_manifest_done(struct oci_manifest *m) {
    free(m->parts);
    *m = (struct oci_manifest){0};
}

static bool is_platform(const struct oci_part *p, const char *arch) {
    const char *variant = strchr(arch, '/');
    size_t n = variant ? (size_t)(variant - arch) : strlen(arch);

    return str_eq(p->os, "linux") && strlen(p->arch) == n && strncmp(p->arch, arch, n) == 0 &&
           (!variant || str_eq(variant + 1, p->variant));
}

int oci_manifest_pick(const struct oci_manifest *m, const char *arch, size_t *ret, struct err *err) {
    CLEANUP(buf_done) struct buf there = BUF_INIT(400);

    for (size_t i = 0; i < m->n; i++)
        if (is_platform(&m->parts[i], arch)) {
            *ret = i;
            return 0;
        }
    if (m->n == 1 && !m->parts[0].os[0] && !m->parts[0].arch[0]) { /* of a layout: nothing to choose from */
        *ret = 0;
        return 0;
    }
    for (size_t i = 0; i < m->n && there.len < 200; i++) {
        buf_adds(&there, i ? ", " : "");
        buf_add_printable(&there, m->parts[i].os);
        buf_addc(&there, '/');
        buf_add_printable(&there, m->parts[i].arch);
    }
    return err_set(err, -ENOENT, "the image is not there for linux/%s, only for %s", arch, m->n ? buf_str(&there) : "nothing");
}

/* null is what Docker writes for an empty list. */
static int words_read(const json_t *object, const char *key, struct strv *ret, struct err *err) {
    const json_t *list = json_object_get(object, key);
    size_t i;
    json_t *v;

    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list) || json_array_size(list) > OCI_LIST_MAX)
        return err_set(err, -EBADMSG, "the image's configuration: '%s' is not a list of at most %d texts", key, OCI_LIST_MAX);
    json_array_foreach(list, i, v) {
        if (!json_is_string(v))
            return err_set(err, -EBADMSG, "the image's configuration: '%s' has something else than texts", key);
        if (strv_add(ret, json_string_value(v)) < 0)
            return err_oom(err);
    }
    return 0;
}

static int config_fill(const json_t *doc, struct oci_config *c, struct err *err) {
    const json_t *how = json_object_get(doc, "config");
    int r = words_read(json_object_get(doc, "rootfs"), "diff_ids", &c->diff_ids, err);

    r = r < 0 ? r : words_read(how, "Env", &c->env, err);
    r = r < 0 ? r : words_read(how, "Entrypoint", &c->entrypoint, err);
    r = r < 0 ? r : words_read(how, "Cmd", &c->cmd, err);
    if (r < 0)
        return r;
    if (c->diff_ids.len == 0 || c->diff_ids.len > OCI_LAYERS_MAX)
        return err_set(err, -EBADMSG, "the image's configuration lists %zu layers; 1 to %d are possible", c->diff_ids.len,
                       OCI_LAYERS_MAX);
    for (size_t i = 0; i < c->diff_ids.len; i++)
        if (!oci_digest_ok(c->diff_ids.v[i]))
            return err_set(err, -EBADMSG, "the image's configuration has a diff_id that is not SHA-256");
    if (str_set(&c->user, json_get_text(how, "User")) < 0 || str_set(&c->workdir, json_get_text(how, "WorkingDir")) < 0 ||
        str_set(&c->arch, json_get_text(doc, "architecture")) < 0)
        return err_oom(err);
    if (!str_eq(json_get_text(doc, "os"), "linux") && json_get_text(doc, "os")[0])
        return err_set(err, -EPROTO, "the image is not for Linux");
    return 0;
}

int oci_config_parse(const char *text, size_t len, struct oci_config *ret, struct err *err) {
    CLEANUP(oci_config_done) struct oci_config c = {0};
    CLEANUP(doc_done) json_t *doc = NULL;
    int r = doc_parse("configuration", text, len, &doc, err);

    r = r < 0 ? r : config_fill(doc, &c, err);
    if (r < 0)
        return r;
    *ret = TAKE(c, (struct oci_config){0});
    return 0;
}

void oci_config_done(struct oci_config *c) {
    strv_done(&c->diff_ids);
    strv_done(&c->env);
    strv_done(&c->entrypoint);
    strv_done(&c->cmd);
    free(c->user);
    free(c->workdir);
    free(c->arch);
    *c = (struct oci_config){0};
}
