/* SPDX-License-Identifier: Apache-2.0 */
/* From a source to unpacked layers: what bawn-pull does once it is in its jail. */
#include "image/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "image/image_layer.h"
#include "image/registry_client.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/safepath.h"

enum { PROGRESS_EVERY_MS = 100, LAYER_PATH_SIZE = 100 };

const char *const pull_from_names[PULL_FROMS] = {[PULL_REGISTRY] = "registry",
                                                 [PULL_ARCHIVE] = "archive",
                                                 [PULL_STREAM] = "stream",
                                                 [PULL_LAYOUT] = "layout",
                                                 [PULL_ROOTFS] = "rootfs"};

/* -- manifest and configuration ----------------------------------------------------------------------------------------- */

int pull_take_manifest(struct pull *p, const struct buf *text, struct oci_part *ret, struct err *err) {
    CLEANUP(oci_manifest_done) struct oci_manifest m = {0};
    size_t at = 0;
    int r = oci_manifest_parse(buf_str(text), text->len, &m, err);

    if (r == 0 && !m.index) {
        oci_manifest_done(&p->manifest);
        p->manifest = TAKE(m, (struct oci_manifest){0});
        return 0;
    }
    r = r < 0 ? r : oci_manifest_pick(&m, p->arch, &at, err);
    if (r < 0)
        return r;
    *ret = m.parts[at];
    return 1;
}

int pull_take_config(struct pull *p, const struct buf *text, struct err *err) {
    int r = oci_config_parse(buf_str(text), text->len, &p->config, err);

    if (r < 0)
        return r;
    if (p->manifest.n && p->manifest.n != p->config.diff_ids.len)
        return err_set(err, -EBADMSG, "the image has %zu layers, and its configuration names %zu", p->manifest.n,
                       p->config.diff_ids.len);
    for (size_t i = 0; i < p->config.diff_ids.len; i++)
        oci_chain_id(i ? p->chain[i - 1] : NULL, p->config.diff_ids.v[i], p->chain[i]);
    return 0;
}

int pull_open(struct pull *p, struct err *err) {
    return p->from == PULL_REGISTRY ? registry_connect(p, err) : pull_files_open(p, err);
}

int pull_layer(struct pull *p, size_t i, struct image_blob *ret, struct err *err) {
    return p->from == PULL_REGISTRY ? registry_layer(p, i, ret, err) : pull_files_layer(p, i, ret, err);
}

/* -- progress ----------------------------------------------------------------------------------------------------------- */

void pull_tick(uint64_t bytes, void *pull) {
    struct pull *p = pull;
    uint64_t done = __atomic_add_fetch(&p->progress.done, bytes, __ATOMIC_RELAXED), now = clock_ms();
    char line[64];
    int n;

    if (now < p->progress.shown_ms + PROGRESS_EVERY_MS)
        return;
    p->progress.shown_ms = now;
    n = snprintf(line, sizeof line, "P %llu %llu\n", (unsigned long long)done, (unsigned long long)p->progress.total);
    (void)!write(STDOUT_FILENO, line, (size_t)n); /* short enough to be written in one piece */
}

/* -- layers ------------------------------------------------------------------------------------------------------------- */

static void layer_path(const struct pull *p, size_t i, char ret[static LAYER_PATH_SIZE]) {
    snprintf(ret, LAYER_PATH_SIZE, "%s/tree", oci_digest_hex(p->chain[i]));
}

/* HEX/size: "BYTES ENTRIES", so that a layer need not be counted again. */
static void stored_size(const struct pull *p, size_t i, struct image_info *info) {
    char path[LAYER_PATH_SIZE], text[64], *space;
    CLEANUP(closep) int fd = -1;
    uint64_t bytes, entries;
    ssize_t n;

    snprintf(path, sizeof path, "%s/size", oci_digest_hex(p->chain[i]));
    fd = safepath_open(PULL_FD_LAYERS, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    n = fd < 0 ? 0 : fd_read_full(fd, text, sizeof text - 1);
    text[MAX_OF(n, 0)] = 0;
    text[strcspn(text, "\n")] = 0;
    space = strchr(text, ' ');
    if (!space)
        return;
    *space++ = 0;
    if (parse_u64(text, 0, INT64_MAX, &bytes, NULL) == 0 && parse_u64(space, 0, INT64_MAX, &entries, NULL) == 0) {
        info->bytes += bytes;
        info->entries += entries;
    }
}

static int store_size(const struct pull *p, size_t i, const struct image_layer *l) {
    char path[LAYER_PATH_SIZE + 8], text[64];
    CLEANUP(closep) int dir = -1;

    snprintf(path, sizeof path, "layers/%s", oci_digest_hex(p->chain[i]));
    snprintf(text, sizeof text, "%llu %llu\n", (unsigned long long)l->bytes, (unsigned long long)l->entries);
    dir = safepath_open(PULL_FD_STAGING, path, O_RDONLY | O_DIRECTORY);
    return dir < 0 ? dir : file_create_at(dir, "size", 0644, text, strlen(text));
}

static void find_stored(struct pull *p, struct image_info *info) {
    char path[LAYER_PATH_SIZE];

    for (size_t i = 0; i < p->config.diff_ids.len; i++) {
        layer_path(p, i, path);
        p->layers[i] = safepath_open(PULL_FD_LAYERS, path, O_RDONLY | O_DIRECTORY);
        if (p->layers[i] >= 0)
            stored_size(p, i, info);
    }
}

static int make_layer(struct pull *p, size_t i, struct image_info *info, struct err *err) {
    const struct blob_tick tick = {p->from == PULL_REGISTRY ? NULL : pull_tick, p};
    CLEANUP(image_layer_done) struct image_layer l = LAYER_INIT;
    char path[LAYER_PATH_SIZE + 8];
    int below[OCI_LAYERS_MAX];
    struct image_blob b;
    int r = pull_layer(p, i, &b, err);

    if (r < 0)
        return r;
    snprintf(path, sizeof path, "layers/%s/tree", oci_digest_hex(p->chain[i]));
    r = dir_make(PULL_FD_STAGING, path, 0755, 0755);
    r = r < 0 ? r : (p->layers[i] = safepath_open(PULL_FD_STAGING, path, O_RDONLY | O_DIRECTORY));
    if (r < 0)
        return err_sys(err, r, "make a folder for a layer");
    for (size_t k = 0; k < i; k++)
        below[k] = p->layers[i - 1 - k];
    l.top = p->layers[i];
    l.below = below;
    l.n_below = i;
    r = blob_unpack(&b, p->config.diff_ids.v[i], &l, &tick, err);
    info->bytes += l.bytes;
    info->entries += l.entries;
    if (r == 0 && (r = store_size(p, i, &l)) < 0)
        err_sys(err, r, "store the size");
    return r < 0 ? err_ctx(err, r, "layer %zu of %zu", i + 1, p->config.diff_ids.len) : 0;
}

static int make_layers(struct pull *p, struct image_info *info, struct err *err) {
    int r = 0;

    for (size_t i = 0; i < p->config.diff_ids.len; i++)
        if (p->layers[i] < 0 && p->from != PULL_REGISTRY && p->manifest.n)
            p->progress.total += p->manifest.parts[i].size;
    for (size_t i = 0; r == 0 && i < p->config.diff_ids.len; i++)
        if (p->layers[i] < 0)
            r = make_layer(p, i, info, err);
    return r;
}

/* -- the answer --------------------------------------------------------------------------------------------------------- */

static int copy_words(const struct strv *from, struct strv *to) {
    return strv_add_all(to, from);
}

static int fill_info(struct pull *p, struct image_info *i, struct err *err) {
    const struct oci_config *c = &p->config;
    int top_first[OCI_LAYERS_MAX];
    size_t n = c->diff_ids.len;
    int r = 0;

    if (str_set(&i->id, p->config_digest) < 0 || str_set(&i->manifest, p->manifest_digest) < 0 ||
        str_set(&i->name, p->name) < 0 || str_set(&i->workdir, c->workdir) < 0 || str_set(&i->user, c->user) < 0 ||
        str_set(&i->arch, c->arch) < 0 || copy_words(&c->env, &i->env) < 0 || copy_words(&c->entrypoint, &i->entrypoint) < 0 ||
        copy_words(&c->cmd, &i->cmd) < 0)
        return err_oom(err);
    for (size_t k = 0; r == 0 && k < n; k++) {
        r = strv_add(&i->layers, p->chain[k]);
        top_first[k] = p->layers[n - 1 - k];
    }
    return r < 0 ? err_oom(err) : pull_user(top_first, n, c->user, i, err);
}

int pull_run(struct pull *p, struct err *err) {
    CLEANUP(image_info_done) struct image_info info = {0};
    CLEANUP(buf_done) struct buf line = BUF_INIT(IMAGE_INFO_MAX);
    int r;

    for (size_t i = 0; i < OCI_LAYERS_MAX; i++)
        p->layers[i] = -1;
    umask(0); /* modes are those of the layers */
    r = pull_open(p, err);
    if (r < 0)
        return r;
    find_stored(p, &info);
    if (p->from == PULL_REGISTRY)
        r = registry_begin_layers(p, err);
    r = r < 0 ? r : make_layers(p, &info, err);
    r = r < 0 ? r : fill_info(p, &info, err);
    if (r < 0)
        return r;
    if (p->from == PULL_REGISTRY)
        registry_forget_layers(p);
    buf_adds(&line, "R ");
    r = image_info_write(&info, &line, err);
    if (r < 0)
        return r;
    r = buf_ok(&line) ? fd_write_all(STDOUT_FILENO, buf_str(&line), line.len) : -ENOMEM;
    return r < 0 ? err_sys(err, r, "report the image") : 0;
}

void pull_done(struct pull *p) {
    for (size_t i = 0; i < p->n_files; i++) {
        free(p->files[i].name);
        if (p->from == PULL_LAYOUT)
            closep(&p->files[i].blob.fd);
    }
    free(p->files);
    strv_done(&p->names);
    oci_manifest_done(&p->manifest);
    oci_config_done(&p->config);
}
