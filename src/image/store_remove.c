/* SPDX-License-Identifier: Apache-2.0 */
/* Takes images, and what none needs, out of the store. The name goes first, then the image, then its layers. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "image/store_priv.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/hidden.h"
#include "os/remove.h"

/* What all images need, by file names; and which images have a name. */
struct store_needs {
    struct strv layers, named;
};

static void needs_done(struct store_needs *n) {
    strv_done(&n->layers);
    strv_done(&n->named);
}

static int find_needs(const struct image_store *s, struct store_needs *n, struct err *err) {
    CLEANUP(strv_done) struct strv refs = {0}, configs = {0};
    int r = dir_names(s->refs, ".", &refs);

    r = r < 0 ? r : dir_names(s->configs, ".", &configs);
    if (r < 0)
        return err_sys(err, r, "list '%s'", s->path);
    for (size_t i = 0; r == 0 && i < refs.len; i++) {
        CLEANUP(image_ref_done) struct image_ref ref = {0};

        r = refs.v[i][0] == '.' ? -ENOENT : store_read_ref(s, refs.v[i], &ref, err);
        r = r < 0 ? r : strv_addf(&n->named, "%s.json", oci_digest_hex(ref.id));
        r = r == -ENOENT ? 0 : r;
    }
    for (size_t i = 0; r == 0 && i < configs.len; i++) {
        CLEANUP(image_info_done) struct image_info info = {0};

        r = configs.v[i][0] == '.' ? -ENOENT : store_read_config(s, configs.v[i], &info, NULL, err);
        for (size_t k = 0; r == 0 && k < info.layers.len; k++)
            r = strv_add(&n->layers, oci_digest_hex(info.layers.v[k]));
        r = r == -ENOENT ? 0 : r;
    }
    return r;
}

static int remove_layers(const struct image_store *s, const struct store_needs *n, uint64_t *ret) {
    CLEANUP(strv_done) struct strv layers = {0};
    int r = dir_names(s->layers, ".", &layers);

    for (size_t i = 0; r == 0 && i < layers.len; i++) {
        CLEANUP(closep) int fd = -1;
        char gone[HIDDEN_NAME_SIZE];

        if (layers.v[i][0] == '.' || strv_has(&n->layers, layers.v[i]))
            continue;
        fd = openat(s->layers, layers.v[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : hidden_retire(s->layers, fd, layers.v[i], gone);
        r = r < 0 ? r : remove_tree(s->layers, gone);
        *ret += r == 0;
        r = r == -ENOENT ? 0 : r;
    }
    hidden_sweep_gone(s->layers);
    return r;
}

/* -EBUSY: a sandbox uses it. */
static int remove_config(const struct image_store *s, const char *file) {
    CLEANUP(closep) int fd = openat(s->configs, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -EBUSY;
    return unlinkat(s->configs, file, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static int remove_names_of(const struct image_store *s, const char *config) {
    CLEANUP(strv_done) struct strv refs = {0};
    int r = dir_names(s->refs, ".", &refs);

    for (size_t i = 0; r == 0 && i < refs.len; i++) {
        CLEANUP(image_ref_done) struct image_ref ref = {0};
        struct err ignored = {0};

        if (refs.v[i][0] != '.' && store_read_ref(s, refs.v[i], &ref, &ignored) == 0 &&
            strncmp(oci_digest_hex(ref.id), config, 64) == 0 && unlinkat(s->refs, refs.v[i], 0) < 0 && errno != ENOENT)
            r = -errno;
    }
    return r;
}

static int remove_locked(const struct image_store *s, const char *wanted, struct err *err) {
    CLEANUP(needs_done) struct store_needs before = {0}, after = {0};
    CLEANUP(freep) char *name = NULL;
    CLEANUP(closep) int fd = -1;
    char config[STORE_NAME_SIZE], ref_file[STORE_NAME_SIZE];
    uint64_t layers = 0;
    size_t names = 0;
    int r = store_resolve(s, wanted, config, ref_file, &name, err);

    r = r < 0 ? r : find_needs(s, &before, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < before.named.len; i++)
        names += str_eq(before.named.v[i], config);
    fd = openat(s->configs, config, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (names < 2 || !ref_file[0]) && store_in_use(fd))
        return err_set(err, -EBUSY, "a sandbox that runs uses image '%s'; end it first (see 'bawn ps')", name);
    r = ref_file[0] ? (unlinkat(s->refs, ref_file, 0) < 0 && errno != ENOENT ? -errno : 0) : remove_names_of(s, config);
    if (r == 0 && (names < 2 || !ref_file[0]))
        r = remove_config(s, config);
    r = r < 0 ? err_sys(err, r, "remove image '%s'", name) : find_needs(s, &after, err);
    if (r == 0 && (r = remove_layers(s, &after, &layers)) < 0)
        r = err_sys(err, r, "remove layers of image '%s'", name);
    return r;
}

int image_store_remove(const struct image_store *s, const char *wanted, struct err *err) {
    int r = image_store_lock(s, true, err);

    r = r < 0 ? r : remove_locked(s, wanted, err);
    image_store_unlock(s);
    return r;
}

/* Downloads that no pull writes now. */
static int remove_downloads(const struct image_store *s, uint64_t *ret) {
    CLEANUP(strv_done) struct strv files = {0};
    int r = dir_names(s->partial, ".", &files);

    for (size_t i = 0; r == 0 && i < files.len; i++) {
        CLEANUP(closep) int fd = openat(s->partial, files.v[i], O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(s->partial, files.v[i], 0) == 0)
            ++*ret;
    }
    return r;
}

/* What a kill -9 left between writing a file and giving it its name (os/file.h): with the store locked, no other writes one. */
static int remove_unnamed(int dir) {
    CLEANUP(strv_done) struct strv files = {0};
    int r = dir_names(dir, ".", &files);

    for (size_t i = 0; r == 0 && i < files.len; i++)
        if (files.v[i][0] == '.' && unlinkat(dir, files.v[i], 0) < 0 && errno != ENOENT)
            r = -errno;
    return r;
}

static int prune_locked(const struct image_store *s, bool all, struct image_pruned *ret, struct err *err) {
    CLEANUP(needs_done) struct store_needs before = {0}, after = {0};
    CLEANUP(strv_done) struct strv configs = {0};
    int r = find_needs(s, &before, err);

    if (r == 0 && (r = dir_names(s->configs, ".", &configs)) < 0)
        r = err_sys(err, r, "list '%s'", s->path);
    for (size_t i = 0; r == 0 && i < configs.len; i++) {
        if (configs.v[i][0] == '.' || (!all && strv_has(&before.named, configs.v[i])))
            continue;
        r = remove_config(s, configs.v[i]);
        if (r == 0) {
            ret->images++;
            r = remove_names_of(s, configs.v[i]);
        }
        r = r == -EBUSY ? 0 : r < 0 ? err_sys(err, r, "remove an image") : 0;
    }
    r = r < 0 ? r : find_needs(s, &after, err);
    if (r == 0 && ((r = remove_layers(s, &after, &ret->layers)) < 0 || (r = remove_downloads(s, &ret->downloads)) < 0 ||
                   (r = remove_unnamed(s->refs)) < 0 || (r = remove_unnamed(s->configs)) < 0))
        r = err_sys(err, r, "remove what no image needs");
    return r;
}

int image_store_prune(const struct image_store *s, bool all, struct image_pruned *ret, struct err *err) {
    int r = image_store_lock(s, true, err);

    *ret = (struct image_pruned){0};
    r = r < 0 ? r : prune_locked(s, all, ret, err);
    image_store_unlock(s);
    hidden_sweep(s->pulls);
    return r;
}
