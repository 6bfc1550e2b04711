/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks blobs and compares digests. */
#include "image/blob.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/str.h"
#include "image/image_layer.h"
#include "os/fd.h"

enum { IN_SIZE = 128 * 1024, OUT_SIZE = 256 * 1024, GZIP_WINDOW = 15 + 16, ZSTD_WINDOW_LOG_MAX = 27 };

static void digest_free(EVP_MD_CTX **c) {
    EVP_MD_CTX_free(*c);
}

static int digest_begin(EVP_MD_CTX **ret, struct err *err) {
    *ret = EVP_MD_CTX_new();
    return *ret && EVP_DigestInit_ex(*ret, EVP_sha256(), NULL) == 1 ? 0 : err_oom(err);
}

static int digest_end(EVP_MD_CTX *c, char out[static OCI_DIGEST_SIZE], struct err *err) {
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (EVP_DigestFinal_ex(c, sum, &len) != 1 || len != 32)
        return err_oom(err);
    snprintf(out, OCI_DIGEST_SIZE, "sha256:");
    hex_encode(sum, len, out + 7);
    return 0;
}

int blob_digest(const struct image_blob *b, char ret[static OCI_DIGEST_SIZE], struct err *err) {
    CLEANUP(digest_free) EVP_MD_CTX *c = NULL;
    CLEANUP(freep) unsigned char *part = malloc(IN_SIZE);
    uint64_t done = 0;
    int r = part ? digest_begin(&c, err) : err_oom(err);

    while (r == 0 && done < b->size) {
        ssize_t n = fd_pread_full(b->fd, part, (size_t)MIN_OF(b->size - done, IN_SIZE), (off_t)(b->at + done));

        if (n <= 0)
            return n < 0 ? err_sys(err, (int)n, "read a part of the image")
                         : err_set(err, -EBADMSG, "a part of the image is cut off");
        if (EVP_DigestUpdate(c, part, (size_t)n) != 1)
            return err_oom(err);
        done += (uint64_t)n;
    }
    return r < 0 ? r : digest_end(c, ret, err);
}

int blob_verify(const struct image_blob *b, const char *digest, struct err *err) {
    char found[OCI_DIGEST_SIZE];
    int r = blob_digest(b, found, err);

    if (r == 0 && !str_eq(found, digest))
        return err_set(err, -EBADMSG, "wrong digest: a part of the image is %s and should be %s", found, digest);
    return r;
}

int blob_read(const struct image_blob *b, size_t max, struct buf *ret, struct err *err) {
    CLEANUP(freep) char *text = NULL;
    ssize_t n;

    if (b->size > max)
        return err_set(err, -EFBIG, "a manifest or configuration of the image has more than %zu bytes", max);
    text = malloc((size_t)b->size + 1);
    n = text ? fd_pread_full(b->fd, text, (size_t)b->size, (off_t)b->at) : -ENOMEM;
    if (n < 0)
        return err_sys(err, (int)n, "read a part of the image");
    if ((uint64_t)n != b->size)
        return err_set(err, -EBADMSG, "a part of the image is cut off");
    buf_add(ret, text, (size_t)n);
    return buf_ok(ret) ? 0 : err_oom(err);
}

/* -- unpacking ---------------------------------------------------------------------------------------------------------- */

struct unpacker {
    struct image_blob b;
    uint64_t read, written, ceiling;
    int (*step)(struct unpacker *u, size_t *ret, struct err *err); /* fills out[] with some bytes; 0 at the end of the input */
    unsigned char *in, *out;
    size_t in_at, in_len;
    z_stream gz;
    ZSTD_DStream *zstd;
    bool begun_gz, between; /* of two gzip members, or frames of zstd */
    EVP_MD_CTX *digest;
    const struct blob_tick *tick;
};

static void unpacker_done(struct unpacker *u) {
    if (u->begun_gz)
        inflateEnd(&u->gz);
    ZSTD_freeDStream(u->zstd);
    EVP_MD_CTX_free(u->digest);
    free(u->in);
    free(u->out);
}

/* 1: there is input. */
static int unpacker_fill(struct unpacker *u, struct err *err) {
    ssize_t n;

    if (u->in_at < u->in_len)
        return 1;
    if (u->read == u->b.size)
        return 0;
    n = fd_pread_full(u->b.fd, u->in, (size_t)MIN_OF(u->b.size - u->read, IN_SIZE), (off_t)(u->b.at + u->read));
    if (n <= 0)
        return n < 0 ? err_sys(err, (int)n, "read a layer") : err_set(err, -EBADMSG, "a layer of the image is cut off");
    u->read += (uint64_t)n;
    u->in_at = 0;
    u->in_len = (size_t)n;
    if (u->tick && u->tick->tick)
        u->tick->tick((uint64_t)n, u->tick->arg);
    return 1;
}

static int step_plain(struct unpacker *u, size_t *ret, struct err *err) {
    int r = unpacker_fill(u, err);

    if (r <= 0)
        return r;
    *ret = u->in_len - u->in_at;
    memcpy(u->out, u->in + u->in_at, *ret);
    u->in_at = u->in_len;
    return 1;
}

static int step_gzip(struct unpacker *u, size_t *ret, struct err *err) {
    u->gz.next_out = u->out;
    u->gz.avail_out = OUT_SIZE;
    while (u->gz.avail_out) {
        int r = unpacker_fill(u, err), z;

        if (r < 0)
            return r;
        if (r == 0 && !u->between)
            return err_set(err, -EBADMSG, "a layer of the image is cut off");
        if (r == 0)
            break;
        if (u->between && inflateReset(&u->gz) != Z_OK)
            return err_oom(err);
        u->between = false;
        u->gz.next_in = u->in + u->in_at;
        u->gz.avail_in = (unsigned)(u->in_len - u->in_at);
        z = inflate(&u->gz, Z_NO_FLUSH);
        u->in_at = u->in_len - u->gz.avail_in;
        if (z == Z_STREAM_END)
            u->between = true;
        else if (z != Z_OK && z != Z_BUF_ERROR)
            return err_set(err, -EBADMSG, "a layer of the image is damaged: %s", u->gz.msg ? u->gz.msg : "not gzip");
    }
    *ret = OUT_SIZE - u->gz.avail_out;
    return *ret ? 1 : 0;
}

static int step_zstd(struct unpacker *u, size_t *ret, struct err *err) {
    ZSTD_outBuffer out = {u->out, OUT_SIZE, 0};

    while (out.pos < out.size) {
        int r = unpacker_fill(u, err);
        ZSTD_inBuffer in = {u->in, u->in_len, u->in_at};
        size_t z, before = out.pos;

        if (r < 0)
            return r;
        if (r == 0 && u->between) /* asked again, it would wait for the next frame */
            break;
        z = ZSTD_decompressStream(u->zstd, &out, &in);
        u->in_at = in.pos;
        if (ZSTD_isError(z))
            return err_set(err, -EBADMSG, "a layer of the image is damaged: %s", ZSTD_getErrorName(z));
        u->between = z == 0;
        if (r == 0 && out.pos == before && !u->between)
            return err_set(err, -EBADMSG, "a layer of the image is cut off");
    }
    *ret = out.pos;
    return out.pos ? 1 : 0;
}

/* By the bytes, not by what the manifest calls them. */
static int unpacker_begin(struct unpacker *u, struct err *err) {
    static const unsigned char gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    int r;

    u->in = malloc(IN_SIZE);
    u->out = malloc(OUT_SIZE);
    if (!u->in || !u->out)
        return err_oom(err);
    r = digest_begin(&u->digest, err);
    r = r < 0 ? r : unpacker_fill(u, err);
    if (r <= 0)
        return r < 0 ? r : err_set(err, -EBADMSG, "a layer of the image is empty");
    u->step = step_plain;
    if (u->in_len >= sizeof gzip && memcmp(u->in, gzip, sizeof gzip) == 0) {
        u->step = step_gzip;
        u->begun_gz = inflateInit2(&u->gz, GZIP_WINDOW) == Z_OK;
        return u->begun_gz ? 0 : err_oom(err);
    }
    /* frames that only carry notes come first in seekable ones */
    if (u->in_len >= sizeof zstd &&
        (memcmp(u->in, zstd, sizeof zstd) == 0 || ((u->in[0] & 0xf0) == 0x50 && memcmp(u->in + 1, "\x2a\x4d\x18", 3) == 0))) {
        u->step = step_zstd;
        u->zstd = ZSTD_createDStream();
        return u->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(u->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX)) ? 0
                                                                                                                   : err_oom(err);
    }
    return 0;
}

static ssize_t unpacker_more(void *arg, const unsigned char **ret, struct err *err) {
    struct unpacker *u = arg;
    size_t n = 0;
    int r = u->step(u, &n, err);

    if (r <= 0)
        return r;
    u->written += n;
    if (u->written > u->ceiling)
        return err_set(err, -EFBIG, "a layer of %llu bytes unpacks to more than %llu: it is made to fill the disk",
                       (unsigned long long)u->b.size, (unsigned long long)u->ceiling);
    if (EVP_DigestUpdate(u->digest, u->out, n) != 1)
        return err_oom(err);
    *ret = u->out;
    return (ssize_t)n;
}

/* What follows the end of the archive counts for the digest. */
static int unpacker_end(struct unpacker *u, const char *diff_id, struct err *err) {
    const unsigned char *ignored;
    char found[OCI_DIGEST_SIZE];
    ssize_t n;
    int r;

    while ((n = unpacker_more(u, &ignored, err)) > 0)
        ;
    r = n < 0 ? (int)n : digest_end(u->digest, found, err);
    if (r == 0 && !str_eq(found, diff_id))
        return err_set(err, -EBADMSG, "wrong digest: a layer unpacks to %s and should be %s", found, diff_id);
    return r;
}

int blob_unpack(const struct image_blob *b, const char *diff_id, struct image_layer *l, const struct blob_tick *tick,
                struct err *err) {
    CLEANUP(unpacker_done)
    struct unpacker u = {.b = *b,
                         .ceiling = MIN_OF(LAYER_BYTES_MAX, LAYER_FREE + LAYER_RATIO_MAX * MIN_OF(b->size, LAYER_BYTES_MAX)),
                         .tick = tick};
    CLEANUP(tar_done) struct tar t = {.more = unpacker_more, .arg = &u};
    int r = unpacker_begin(&u, err);

    l->ceiling = u.ceiling;
    while (r >= 0 && (r = tar_next(&t, err)) > 0)
        r = image_layer_apply(l, &t, err);
    r = r < 0 ? r : unpacker_end(&u, diff_id, err);
    return r < 0 ? r : layer_finish(l, err);
}
