/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests and blobs of a registry. */
#include "image/registry_client.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "image/pull.h"
#include "os/fd.h"

enum { FETCHERS = 3, INDEX_DEPTH_MAX = 4, URL_MAX = 1024, LOGINS_MAX = 2 };

static const char *const accept_manifests[] = {"Accept: application/vnd.oci.image.manifest.v1+json",
                                               "Accept: application/vnd.oci.image.index.v1+json",
                                               "Accept: application/vnd.docker.distribution.manifest.v2+json",
                                               "Accept: application/vnd.docker.distribution.manifest.list.v2+json", NULL};

/* What a status means to the user. */
static int status_error(const struct registry *g, const struct registry_want *w, struct err *err) {
    char name[OCI_NAME_SIZE];

    oci_ref_name(&g->ref, name);
    if (w->status == 401 || w->status == 403)
        return err_set(err, -EACCES, "registry '%s' denies '%s' (%ld): use 'docker login %s', or check the name", g->ref.host,
                       name, w->status, g->ref.host);
    if (w->status == 404)
        return err_set(err, -ENOENT, "there is no image '%s' (404)", name);
    if (w->status == 429)
        return err_set(err, -EAGAIN, "registry '%s' was asked too often (429): try again later, or use 'docker login %s'",
                       g->ref.host, g->ref.host);
    if (w->status >= 500)
        return err_set(err, -EREMOTEIO, "registry '%s' is in trouble (%ld): try again later", g->ref.host, w->status);
    return err_set(err, -EPROTO, "registry '%s' answers '%s' with status %ld", g->ref.host, name, w->status);
}

/* Logs in when it is asked to; tokens also expire in the middle of a pull. */
static int ask(struct registry *g, struct registry_want *w, struct err *err) {
    int r = 0;

    for (int logins = 0;; logins++) {
        r = registry_get(g, w, err);
        if (r < 0 || w->status == 200 || w->status == 206)
            return r;
        if (w->status != 401 || !w->challenge[0] || logins == LOGINS_MAX)
            return status_error(g, w, err);
        r = registry_login(g, w->challenge, err);
        if (r < 0)
            return r;
    }
}

/* -- manifests ---------------------------------------------------------------------------------------------------------- */

static int to_text(void *arg, const char *data, size_t len) {
    buf_add(arg, data, len);
    return buf_ok(arg) ? 0 : -EFBIG;
}

static int to_text_again(void *arg) {
    buf_clear(arg);
    return 0;
}

/* what: "manifests" or "blobs". digest: "" is any. */
static int get_text(struct registry *g, const char *what, const char *wanted, const char *digest, struct buf *text,
                    struct err *err) {
    char url[URL_MAX], hex[SHA256_HEX_SIZE];
    struct registry_want w = {.url = url,
                              .headers = str_eq(what, "manifests") ? accept_manifests : NULL,
                              .sink = to_text,
                              .restart = to_text_again,
                              .arg = text};
    int r;

    buf_clear(text);
    snprintf(url, sizeof url, "%s/v2/%s/%s/%s", g->base, g->ref.path, what, wanted);
    r = ask(g, &w, err);
    if (r == -EFBIG)
        return err_set(err, r, "a manifest or configuration of the image has more than %d bytes", OCI_TEXT_MAX);
    if (r < 0)
        return r;
    sha256_hex(buf_str(text), text->len, hex);
    if (digest[0] && !str_eq(hex, oci_digest_hex(digest)))
        return err_set(err, -EBADMSG, "wrong digest: registry '%s' sends sha256:%s for %s", g->ref.host, hex, digest);
    return 0;
}

static int get_manifest(struct pull *p, struct registry *g, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(OCI_TEXT_MAX);
    struct oci_part next = {0};
    char hex[SHA256_HEX_SIZE];
    int r = get_text(g, "manifests", oci_ref_wanted(&g->ref), g->ref.digest, &text, err), depth = 0;

    while (r == 0 && (r = pull_take_manifest(p, &text, &next, err)) > 0) {
        if (++depth > INDEX_DEPTH_MAX)
            return err_set(err, -ELOOP, "the image's index leads to an index, and so on");
        r = get_text(g, "manifests", next.digest, next.digest, &text, err);
    }
    if (r < 0)
        return r;
    sha256_hex(buf_str(&text), text.len, hex);
    snprintf(p->manifest_digest, sizeof p->manifest_digest, "sha256:%s", hex);
    return 0;
}

int registry_connect(struct pull *p, struct err *err) {
    CLEANUP(buf_done) struct buf config = BUF_INIT(OCI_TEXT_MAX);
    struct registry *g = calloc(1, sizeof *g);
    int r = g ? oci_ref_parse(p->ref, &g->ref, err) : err_oom(err);

    p->registry = g;
    if (r < 0)
        return r;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    g->local = oci_host_is_local(g->ref.host);
    snprintf(g->base, sizeof g->base, "http%s://%s", g->local ? "" : "s",
             str_eq(g->ref.host, "docker.io") ? "registry-1.docker.io" : g->ref.host);
    r = registry_read_secret(g, PULL_FD_SECRET, err);
    r = r < 0 ? r : get_manifest(p, g, err);
    r = r < 0 ? r : get_text(g, "blobs", p->manifest.config.digest, p->manifest.config.digest, &config, err);
    if (r < 0)
        return r;
    snprintf(p->config_digest, sizeof p->config_digest, "%s", p->manifest.config.digest);
    return pull_take_config(p, &config, err);
}

/* -- blobs -------------------------------------------------------------------------------------------------------------- */

/* A blob on its way into its partial file. */
struct fetch {
    struct pull *pull;
    const struct oci_part *part;
    int fd;
    uint64_t have;
    EVP_MD_CTX *digest;
};

static int fetch_restart(void *arg) {
    struct fetch *f = arg;

    f->have = 0;
    return ftruncate(f->fd, 0) < 0 || EVP_DigestInit_ex(f->digest, EVP_sha256(), NULL) != 1 ? -EIO : 0;
}

static int fetch_take(void *arg, const char *data, size_t len) {
    struct fetch *f = arg;
    size_t done = 0;

    if (len > f->part->size - f->have)
        return -EMSGSIZE;
    while (done < len) {
        ssize_t n = pwrite(f->fd, data + done, len - done, (off_t)(f->have + done));

        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    f->have += len;
    pull_tick(len, f->pull);
    return EVP_DigestUpdate(f->digest, data, len) == 1 ? 0 : -EIO;
}

/* What an earlier pull has left of it. */
static int fetch_resume(struct fetch *f) {
    unsigned char part[64 * 1024];
    struct stat st;

    if (fstat(f->fd, &st) < 0)
        return -errno;
    if (EVP_DigestInit_ex(f->digest, EVP_sha256(), NULL) != 1)
        return -ENOMEM;
    if ((uint64_t)st.st_size > f->part->size)
        return fetch_restart(f);
    for (f->have = 0; f->have < (uint64_t)st.st_size;) {
        ssize_t n = fd_pread_full(f->fd, part, sizeof part, (off_t)f->have);

        if (n <= 0 || EVP_DigestUpdate(f->digest, part, (size_t)n) != 1)
            return n < 0 ? (int)n : -EIO;
        f->have += (uint64_t)n;
    }
    pull_tick(f->have, f->pull);
    return 0;
}

static bool fetch_is_right(struct fetch *f) {
    unsigned char sum[EVP_MAX_MD_SIZE];
    char hex[2 * EVP_MAX_MD_SIZE + 1];
    unsigned len = 0;

    if (f->have != f->part->size || EVP_DigestFinal_ex(f->digest, sum, &len) != 1)
        return false;
    for (unsigned i = 0; i < len; i++)
        snprintf(hex + 2 * (size_t)i, 3, "%02x", sum[i]);
    return str_eq(hex, oci_digest_hex(f->part->digest));
}

static int fetch_error(int r, const struct fetch *f, struct err *err) {
    if (r == -EMSGSIZE)
        return err_set(err, -EBADMSG, "a layer of the image is longer than its manifest says");
    if (r == -ENOSPC || r == -EDQUOT)
        return err_sys(err, r, "store a layer of %llu bytes", (unsigned long long)f->part->size);
    return err->code ? err->code : err_sys(err, r, "store a layer");
}

/* One complete answer, resumed where the connection breaks. */
static int fetch_once(struct registry *g, struct fetch *f, struct err *err) {
    char url[URL_MAX];
    int r = 0;

    snprintf(url, sizeof url, "%s/v2/%s/blobs/%s", g->base, g->ref.path, f->part->digest);
    for (int i = 0; f->have < f->part->size; i++) {
        struct registry_want w = {
            .url = url, .from = f->have, .sink = fetch_take, .restart = fetch_restart, .resumable = true, .arg = f};
        uint64_t before = f->have;

        *err = (struct err){0};
        r = ask(g, &w, err);
        if (r < 0 && (w.sink_error < 0 || i >= REGISTRY_TRIES || (f->have == before && w.status != 416)))
            return fetch_error(w.sink_error < 0 ? w.sink_error : r, f, err);
        if (r == 0 && f->have < f->part->size && (f->have == before || i >= REGISTRY_TRIES))
            return err_set(err, -EBADMSG, "a layer of the image is cut off: %llu of %llu bytes", (unsigned long long)f->have,
                           (unsigned long long)f->part->size);
        if (w.status == 416 && (r = fetch_restart(f)) < 0)
            return err_sys(err, r, "store a layer");
    }
    return 0;
}

static int fetch_blob(struct registry *g, struct fetch *f, struct err *err) {
    bool resumed;
    int r = fetch_resume(f);

    if (r < 0)
        return err_sys(err, r, "continue a download");
    resumed = f->have > 0;
    for (;;) {
        r = fetch_once(g, f, err);
        if (r < 0)
            return r;
        if (fetch_is_right(f))
            return 0;
        r = fetch_restart(f); /* nothing wrong stays there */
        if (r < 0 || !resumed)
            return err_set(err, -EBADMSG, "wrong digest: registry '%s' does not send what %s is", g->ref.host, f->part->digest);
        resumed = false;
    }
}

/* Locked, and still the file of this name. While another pull has it, one without a name: a pull keeps its locks to its end, and two that wait for each
 * other's would wait forever. */
static int open_partial(const char *digest, bool *ret_named) {
    for (;;) {
        CLEANUP(closep) int fd = openat(PULL_FD_PARTIAL, oci_digest_hex(digest), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        struct stat st;

        if (fd < 0)
            return -errno;
        *ret_named = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (!*ret_named && errno == EWOULDBLOCK) {
            closep(&fd);
            fd = openat(PULL_FD_STAGING, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
            return fd < 0 ? -errno : TAKE_FD(fd);
        }
        if (!*ret_named && errno != EINTR)
            return -errno;
        if (fstat(fd, &st) < 0)
            return -errno;
        if (*ret_named && st.st_nlink)
            return TAKE_FD(fd);
    }
}

static int fetch_layer(struct pull *p, size_t i, int *ret_fd, bool *ret_named, struct err *err) {
    CLEANUP(closep) int fd = open_partial(p->manifest.parts[i].digest, ret_named);
    struct fetch f = {.pull = p, .part = &p->manifest.parts[i], .fd = fd, .digest = EVP_MD_CTX_new()};
    int r = fd < 0 ? err_sys(err, fd, "make a file for a download") : f.digest ? fetch_blob(p->registry, &f, err) : err_oom(err);

    EVP_MD_CTX_free(f.digest);
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

static void *fetcher(void *arg) {
    struct pull *p = arg;
    struct registry *g = p->registry;

    pthread_mutex_lock(&g->lock);
    while (g->next < p->manifest.n) {
        size_t i = g->next++;
        struct err *err = calloc(1, sizeof *err);
        bool named = false;
        int fd = -1, r;

        if (!g->layers[i].wanted) {
            free(err);
            continue;
        }
        pthread_mutex_unlock(&g->lock);
        r = err ? fetch_layer(p, i, &fd, &named, err) : -ENOMEM;
        pthread_mutex_lock(&g->lock);
        g->layers[i].fd = fd;
        g->layers[i].named = named;
        g->layers[i].r = r;
        g->layers[i].err = err;
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* The same digest twice in a manifest would wait for its own lock: it is fetched once. */
static size_t fetched_as(const struct pull *p, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (p->registry->layers[k].wanted && str_eq(p->manifest.parts[k].digest, p->manifest.parts[i].digest))
            return k;
    return i;
}

int registry_begin_layers(struct pull *p, struct err *err) {
    struct registry *g = p->registry;
    bool any = false; /* not by the sizes, which the manifest may call 0 */
    pthread_t thread;
    int r = 0;

    for (size_t i = 0; i < p->manifest.n; i++) {
        g->layers[i].fd = -1;
        g->layers[i].r = 1;
        g->layers[i].wanted = p->layers[i] < 0 && fetched_as(p, i) == i;
        p->progress.total += g->layers[i].wanted ? p->manifest.parts[i].size : 0;
        any |= g->layers[i].wanted;
    }
    for (int i = 0; r == 0 && any && i < FETCHERS; i++)
        r = pthread_create(&thread, NULL, fetcher, p);
    return r ? err_sys(err, -r, "start a thread") : 0;
}

int registry_layer(struct pull *p, size_t i, struct image_blob *ret, struct err *err) {
    struct registry *g = p->registry;

    i = fetched_as(p, i);
    pthread_mutex_lock(&g->lock);
    while (g->layers[i].r == 1)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    if (g->layers[i].r < 0) {
        if (!g->layers[i].err)
            return err_oom(err);
        *err = *g->layers[i].err;
        return g->layers[i].r;
    }
    *ret = (struct image_blob){g->layers[i].fd, 0, p->manifest.parts[i].size};
    return 0;
}

void registry_forget_layers(struct pull *p) {
    for (size_t i = 0; i < p->manifest.n; i++)
        if (p->registry->layers[i].wanted && p->registry->layers[i].named)
            unlinkat(PULL_FD_PARTIAL, oci_digest_hex(p->manifest.parts[i].digest), 0);
}
