/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs: a part of an open file, packed with gzip or zstd or not at all; and their way into a layer. A blob whose digest is known is compared
 * with it before a byte of it is unpacked; the diff_id of a layer, which only is known at its end, before the layer gets its name.
 */
#pragma once

#include "proto/oci.h"

struct err;
struct image_layer;

struct image_blob {
    int fd; /* borrowed */
    uint64_t at, size;
};

int blob_digest(const struct image_blob *b, char ret[static OCI_DIGEST_SIZE], struct err *err);
/* -EBADMSG: it is another one. */
int blob_verify(const struct image_blob *b, const char *digest, struct err *err);
/* All of a small one. */
struct buf;
int blob_read(const struct image_blob *b, size_t max, struct buf *ret, struct err *err);

struct blob_tick {
    void (*tick)(uint64_t bytes, void *arg); /* packed bytes that were read */
    void *arg;
};
/* Unpacks into the layer. diff_id: what the unpacked archive must be. */
int blob_unpack(const struct image_blob *b, const char *diff_id, struct image_layer *l, const struct blob_tick *tick,
                struct err *err);
