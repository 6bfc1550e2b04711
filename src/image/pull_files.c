/* SPDX-License-Identifier: Apache-2.0 */
/* Images in files: what `docker save` and `podman save` write, archives and folders of the OCI layout. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/vec.h"
#include "image/image_layer.h"
#include "image/pull.h"
#include "os/copy.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "proto/tar.h"

enum { FILES_MAX = 20000, CHUNK = 256 * 1024, LINKS_DEPTH = 4 };

static void json_done(json_t **j) {
    json_decref(*j);
}

/* -- archives: where the files are -------------------------------------------------------------------------------------- */

struct archive_reader {
    int fd;
    unsigned char *part;
};

static ssize_t archive_more(void *arg, const unsigned char **ret, struct err *err) {
    struct archive_reader *a = arg;
    ssize_t n = fd_read_some(a->fd, a->part, CHUNK);

    *ret = a->part;
    return n < 0 ? err_sys(err, (int)n, "read the archive") : n;
}

static int add_file(struct pull *p, const struct tar *t, struct err *err) {
    struct pull_file f = {.blob = {PULL_FD_SOURCE, t->offset, t->entry.packed}};
    char clean[TAR_PATH_MAX + 1];

    if (t->entry.type != TAR_FILE && t->entry.type != TAR_SYMLINK && t->entry.type != TAR_LINK)
        return 0;
    if (p->n_files == FILES_MAX)
        return err_set(err, -E2BIG, "the archive has more than %d files: it is no saved image", FILES_MAX);
    if (layer_clean(t->entry.path, clean) < 0)
        return 0;
    f.name = strdup(clean);
    if (f.name && VEC_ADD(p->files, p->n_files, f) == 0)
        return 0;
    free(f.name);
    return err_oom(err);
}

/* Old versions of docker write a layer once and link to it: "../ID/layer.tar". The link is another name of a file that is there. */
static int add_link(struct pull *p, const struct tar *t) {
    char joined[2 * TAR_PATH_MAX + 2], clean[TAR_PATH_MAX + 1];
    const char *slash = strrchr(t->entry.path, '/');
    struct pull_file *f = &p->files[p->n_files - 1];

    snprintf(joined, sizeof joined, "%.*s/%s", slash && t->entry.type == TAR_SYMLINK ? (int)(slash - t->entry.path) : 0,
             t->entry.path, t->entry.target);
    if (layer_clean(joined, clean) < 0)
        return 0;
    for (size_t i = 0; i + 1 < p->n_files; i++)
        if (str_eq(p->files[i].name, clean))
            f->blob = p->files[i].blob;
    return 0;
}

static int index_archive(struct pull *p, struct err *err) {
    struct archive_reader a = {.fd = PULL_FD_SOURCE, .part = malloc(CHUNK)};
    CLEANUP(tar_done) struct tar t = {.more = archive_more, .arg = &a};
    int r = a.part ? 0 : err_oom(err);

    if (r == 0 && lseek(PULL_FD_SOURCE, 0, SEEK_SET) < 0)
        r = err_sys(err, -errno, "read the archive");
    while (r == 0 && (r = tar_next(&t, err)) > 0) {
        size_t before = p->n_files;

        r = t.entry.sparse ? 0 : add_file(p, &t, err);
        if (r == 0 && p->n_files > before && t.entry.type != TAR_FILE)
            r = add_link(p, &t);
    }
    free(a.part);
    return r < 0 ? err_ctx(err, r, "not a saved image") : 0;
}

/* A pipe, as of `docker save`: into a file without a name. */
static int spool_stream(struct err *err) {
    CLEANUP(closep) int file = openat(PULL_FD_STAGING, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    CLEANUP(freep) char *part = malloc(CHUNK);
    uint64_t total = 0;
    ssize_t n = 0;
    int r = 0;

    if (file < 0 || !part)
        return err_sys(err, file < 0 ? -errno : -ENOMEM, "make room for the image");
    while (r == 0 && (n = fd_read_some(PULL_FD_SOURCE, part, CHUNK)) > 0) {
        total += (uint64_t)n;
        r = total > LAYER_BYTES_MAX ? -EFBIG : fd_write_all(file, part, (size_t)n);
    }
    if (n < 0 || r < 0)
        return err_sys(err, n < 0 ? (int)n : r, "take the image");
    if (total == 0)
        return err_set(err, -ENODATA, "nothing came: the image is not there, or the engine failed");
    return dup3(file, PULL_FD_SOURCE, O_CLOEXEC) < 0 ? err_sys(err, -errno, "take the image") : 0;
}

/* -- files of both ------------------------------------------------------------------------------------------------------ */

static int open_in_layout(struct pull *p, const char *name, struct image_blob *ret, struct err *err) {
    struct pull_file f = {.blob = {.fd = safepath_open(PULL_FD_SOURCE, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW)}};
    struct stat st;

    if (f.blob.fd < 0)
        return f.blob.fd == -ENOENT ? -ENOENT : err_sys(err, f.blob.fd, "open '%s'", name);
    if (fstat(f.blob.fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(f.blob.fd);
        return err_set(err, -EINVAL, "'%s' is not a file", name);
    }
    f.blob.size = (uint64_t)st.st_size;
    if (VEC_ADD(p->files, p->n_files, f) < 0) {
        close(f.blob.fd);
        return err_oom(err);
    }
    *ret = f.blob;
    return 0;
}

/* -ENOENT without a message. */
static int find_file(struct pull *p, const char *name, struct image_blob *ret, struct err *err) {
    if (p->from == PULL_LAYOUT)
        return open_in_layout(p, name, ret, err);
    for (size_t i = p->n_files; i-- > 0;)
        if (str_eq(p->files[i].name, name)) {
            *ret = p->files[i].blob;
            return 0;
        }
    return -ENOENT;
}

static int find_blob(struct pull *p, const char *digest, struct image_blob *ret, struct err *err) {
    char name[100];
    int r;

    snprintf(name, sizeof name, "blobs/sha256/%s", oci_digest_hex(digest));
    r = find_file(p, name, ret, err);
    if (r == -ENOENT)
        return err_set(err, r, "the image is not complete: '%s' is missing", name);
    return r < 0 ? r : blob_verify(ret, digest, err);
}

static int read_blob(struct pull *p, const char *digest, struct buf *ret, struct err *err) {
    struct image_blob b;
    int r = find_blob(p, digest, &b, err);

    return r < 0 ? r : blob_read(&b, OCI_TEXT_MAX, ret, err);
}

/* -- the OCI layout ----------------------------------------------------------------------------------------------------- */

/* The name of an image that was saved alone. */
static void layout_name(const struct buf *index, struct pull *p) {
    CLEANUP(json_done) json_t *doc = json_loadb(buf_str(index), index->len, 0, NULL);
    const json_t *notes = json_object_get(json_array_get(json_object_get(doc, "manifests"), 0), "annotations");
    const char *full = json_get_text(notes, "io.containerd.image.name"),
               *ref = json_get_text(notes, "org.opencontainers.image.ref.name");

    snprintf(p->name, sizeof p->name, "%s", full[0] ? full : strchr(ref, '/') || strchr(ref, ':') ? ref : "");
}

static int open_layout(struct pull *p, const struct image_blob *index, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(OCI_TEXT_MAX + 1), config = BUF_INIT(OCI_TEXT_MAX + 1);
    struct oci_part next = {0};
    int r = blob_read(index, OCI_TEXT_MAX, &text, err), depth = 0;

    if (r == 0)
        layout_name(&text, p);
    while (r == 0 && (r = pull_take_manifest(p, &text, &next, err)) > 0) {
        if (++depth > LINKS_DEPTH)
            return err_set(err, -ELOOP, "the image's index leads to an index, and so on");
        buf_clear(&text);
        snprintf(p->manifest_digest, sizeof p->manifest_digest, "%s", next.digest);
        r = read_blob(p, next.digest, &text, err);
    }
    r = r < 0 ? r : read_blob(p, p->manifest.config.digest, &config, err);
    if (r < 0)
        return r;
    snprintf(p->config_digest, sizeof p->config_digest, "%s", p->manifest.config.digest);
    return pull_take_config(p, &config, err);
}

/* -- docker's own archives ---------------------------------------------------------------------------------------------- */

static int docker_layers(struct pull *p, const json_t *list, struct err *err) {
    char clean[TAR_PATH_MAX + 1];
    size_t i;
    json_t *v;

    if (!json_is_array(list) || json_array_size(list) != p->config.diff_ids.len)
        return err_set(err, -EBADMSG, "manifest.json of the archive does not have the layers of its configuration");
    json_array_foreach(list, i, v) if (!json_is_string(v) || layer_clean(json_string_value(v), clean) < 0 ||
                                       strv_add(&p->names, clean) <
                                           0) return err_set(err, -EBADMSG,
                                                             "manifest.json of the archive has a layer without a name");
    return 0;
}

static int open_docker(struct pull *p, const struct image_blob *manifest, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(OCI_TEXT_MAX + 1), config = BUF_INIT(OCI_TEXT_MAX + 1);
    CLEANUP(json_done) json_t *doc = NULL;
    const json_t *image, *tags;
    char hex[SHA256_HEX_SIZE];
    struct image_blob b;
    int r = blob_read(manifest, OCI_TEXT_MAX, &text, err);

    if (r < 0)
        return r;
    doc = json_loadb(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, NULL);
    if (json_array_size(doc) != 1)
        return err_set(err, -EBADMSG, "the archive has %zu images; save one", json_array_size(doc));
    image = json_array_get(doc, 0);
    tags = json_array_get(json_object_get(image, "RepoTags"), 0);
    snprintf(p->name, sizeof p->name, "%s", json_is_string(tags) ? json_string_value(tags) : "");
    r = find_file(p, json_get_text(image, "Config"), &b, err);
    if (r < 0)
        return r == -ENOENT ? err_set(err, r, "the archive has no configuration of its image") : r;
    r = blob_read(&b, OCI_TEXT_MAX, &config, err);
    r = r < 0 ? r : pull_take_config(p, &config, err);
    sha256_hex(buf_str(&config), config.len, hex);
    snprintf(p->config_digest, sizeof p->config_digest, "sha256:%s", hex);
    return r < 0 ? r : docker_layers(p, json_object_get(image, "Layers"), err);
}

/* Files that are no image: they become its only layer. */
static int open_rootfs(struct pull *p, struct err *err) {
    static const char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    CLEANUP(buf_done) struct buf config = BUF_INIT(OCI_TEXT_MAX);
    struct pull_file f = {.blob = {.fd = PULL_FD_SOURCE}};
    char diff_id[OCI_DIGEST_SIZE], hex[SHA256_HEX_SIZE];
    struct stat st;
    int r = fstat(PULL_FD_SOURCE, &st) < 0 ? err_sys(err, -errno, "read the archive") : 0;

    f.blob.size = (uint64_t)st.st_size;
    r = r < 0 ? r : blob_digest(&f.blob, diff_id, err);
    if (r < 0)
        return r;
    buf_addf(&config,
             "{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":{\"Env\":[\"%s\"],\"Cmd\":[\"/bin/sh\"]},"
             "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"%s\"]}}",
             p->arch, path, diff_id);
    sha256_hex(buf_str(&config), config.len, hex);
    snprintf(p->config_digest, sizeof p->config_digest, "sha256:%s", hex);
    f.name = strdup("rootfs");
    if (!f.name || strv_add(&p->names, "rootfs") < 0 || VEC_ADD(p->files, p->n_files, f) < 0)
        return err_oom(err);
    return pull_take_config(p, &config, err);
}

int pull_files_open(struct pull *p, struct err *err) {
    struct image_blob b;
    int r = p->from == PULL_STREAM || p->from == PULL_ROOTFS ? spool_stream(err) : 0;

    if (r == 0 && p->from == PULL_ROOTFS)
        return open_rootfs(p, err);

    if (r == 0 && p->from != PULL_LAYOUT)
        r = index_archive(p, err);
    if (r < 0)
        return r;
    r = find_file(p, "index.json", &b, err);
    if (r == 0)
        return open_layout(p, &b, err);
    r = r == -ENOENT ? find_file(p, "manifest.json", &b, err) : r;
    if (r == -ENOENT)
        return err_set(err, r, "no image in there: neither index.json nor manifest.json");
    return r < 0 ? r : open_docker(p, &b, err);
}

int pull_files_layer(struct pull *p, size_t i, struct image_blob *ret, struct err *err) {
    int r;

    if (!p->names.len)
        return find_blob(p, p->manifest.parts[i].digest, ret, err);
    r = find_file(p, p->names.v[i], ret, err); /* its diff_id is compared while it is unpacked */
    return r == -ENOENT ? err_set(err, r, "the image is not complete: '%.200s' is missing", p->names.v[i]) : r;
}
