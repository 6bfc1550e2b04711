/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-pull: gets an image and unpacks its layers. It reads hostile bytes, so it has a jail (pull_jail.h) and no secret but one registry's, which
 * bawn-vault hands to it. It names nothing: what it made lies in a folder of this pull, and bawn moves it into the store.
 *
 *     bawn-pull --from registry --ref REF [--arch ARCH]
 *     bawn-pull --from archive|stream|layout|rootfs [--arch ARCH]
 *
 *     3: folder of this pull, where layers/HEX/tree are made     4: folder with the layers of the store, to be read
 *     5: folder of partial downloads                              6: the archive (stream, and rootfs, which has files instead of an
 *                                                                 image: a pipe) or layout; registry: /dev/null
 *     7: registry: a socket from bawn-vault with the credential ("user NUL secret"); /dev/null: none
 *
 * On stdout: "P DONE TOTAL" now and then, in bytes, and at the end "R " and the image as JSON (image/image_info.h), one line each. Errors: one
 * line on stderr, exit status 125, or 64 for what is the user's mistake.
 */
#pragma once

#include "image/blob.h"
#include "image/image_info.h"
#include "proto/oci.h"

struct err;
struct buf;

enum { PULL_FD_STAGING = 3, PULL_FD_LAYERS, PULL_FD_PARTIAL, PULL_FD_SOURCE, PULL_FD_SECRET, PULL_FDS };

enum pull_from { PULL_REGISTRY, PULL_ARCHIVE, PULL_STREAM, PULL_LAYOUT, PULL_ROOTFS, PULL_FROMS };
extern const char *const pull_from_names[PULL_FROMS];

struct pull_file {
    char *name;
    struct image_blob blob;
};

struct registry;

struct pull {
    enum pull_from from;
    const char *ref, *arch;
    char manifest_digest[OCI_DIGEST_SIZE]; /* "": none */
    char config_digest[OCI_DIGEST_SIZE];
    struct oci_manifest manifest;
    struct oci_config config;
    char name[OCI_NAME_SIZE];
    char chain[OCI_LAYERS_MAX][OCI_DIGEST_SIZE];
    int layers[OCI_LAYERS_MAX]; /* their trees, once they are there; -1: to be made */

    struct pull_file *files; /* of an archive: where they are; of a layout: those that are open */
    size_t n_files;
    struct strv names; /* docker archive: files of the layers */
    struct registry *registry;

    struct {
        uint64_t done, total, shown_ms;
    } progress;
};

/* Reads the source up to manifest and configuration. */
int pull_open(struct pull *p, struct err *err);
/* The blob of a layer, whose digest is right if it has one; waits for it. Closed by pull_done(). */
int pull_layer(struct pull *p, size_t i, struct image_blob *ret, struct err *err);
void pull_tick(uint64_t bytes, void *pull);
/* The whole program, jailed already. */
int pull_run(struct pull *p, struct err *err);
void pull_done(struct pull *p);

/* pull_files.c */
int pull_files_open(struct pull *p, struct err *err);
int pull_files_layer(struct pull *p, size_t i, struct image_blob *ret, struct err *err);
/* pull_user.c: uid, gid, passwd and group of the image. layers: top first. */
int pull_user(const int *layers, size_t n, const char *user, struct image_info *i, struct err *err);

/* Of pull_open(): text of a manifest, its digest known to be right. 1: it was an index, and *ret is what to ask for next. */
int pull_take_manifest(struct pull *p, const struct buf *text, struct oci_part *ret, struct err *err);
int pull_take_config(struct pull *p, const struct buf *text, struct err *err);
