/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images as registries have them: references ("debian:12", "127.0.0.1:5000/x@sha256:..."), manifests and indexes (OCI and Docker, four media
 * types), and configurations. All of it comes from strangers: every list and text has a ceiling, and a digest is SHA-256 or refused.
 */
#pragma once

#include "base/macros.h"
#include "base/strv.h"

struct err;
struct buf;

enum {
    OCI_DIGEST_SIZE = 72, /* "sha256:", 64 digits, NUL */
    OCI_HOST_MAX = 255,
    OCI_PATH_MAX = 255,
    OCI_TAG_MAX = 128,
    OCI_NAME_SIZE = OCI_HOST_MAX + OCI_PATH_MAX + OCI_TAG_MAX + OCI_DIGEST_SIZE + 8,
    OCI_LAYERS_MAX = 127,  /* what overlayfs and Docker take */
    OCI_INDEX_MAX = 1024,  /* entries of an index */
    OCI_LIST_MAX = 4096,   /* variables, words of a command */
    OCI_TEXT_MAX = 4 << 20 /* bytes of a manifest or configuration */
};

struct oci_ref {
    char host[OCI_HOST_MAX + 1]; /* as written; "docker.io" if there was none */
    char path[OCI_PATH_MAX + 1]; /* "library/debian" */
    char tag[OCI_TAG_MAX + 1];   /* "": only a digest */
    char digest[OCI_DIGEST_SIZE];
};
/* Bad ones: exit status 64. */
int oci_ref_parse(const char *text, struct oci_ref *ret, struct err *err);
/* "docker.io/library/debian:12": the same for every way to write it. */
void oci_ref_name(const struct oci_ref *r, char out[static OCI_NAME_SIZE]);
/* What a manifest is asked for by: the digest, else the tag. */
const char *oci_ref_wanted(const struct oci_ref *r);
/* This machine's own: only there may a registry speak without TLS. host: with a port or without. */
bool oci_host_is_local(const char *host);

bool oci_digest_ok(const char *digest);
static inline const char *oci_digest_hex(const char *digest) {
    return digest + 7;
}

/* A blob, or a manifest of an index. */
struct oci_part {
    char digest[OCI_DIGEST_SIZE];
    uint64_t size;
    char os[32], arch[32], variant[32]; /* of an index; "" if not said */
};

struct oci_manifest {
    bool index;             /* parts are manifests; else layers, the lowest first */
    struct oci_part config; /* not of an index */
    struct oci_part *parts;
    size_t n;
};
int oci_manifest_parse(const char *text, size_t len, struct oci_manifest *ret, struct err *err);
void oci_manifest_done(struct oci_manifest *m);
/* The entry of an index for Linux on this machine; arch: "amd64", or "arm/v7" with a variant. -ENOENT and what there is instead. */
int oci_manifest_pick(const struct oci_manifest *m, const char *arch, size_t *ret, struct err *err);
/* As images name the machine we run on. */
const char *oci_arch(void);

struct oci_config {
    struct strv diff_ids;
    struct strv env, entrypoint, cmd; /* "NAME=value", words */
    char *user, *workdir, *arch;      /* "" if not said */
};
int oci_config_parse(const char *text, size_t len, struct oci_config *ret, struct err *err);
void oci_config_done(struct oci_config *c);

/* The id of a layer together with all below it. below: that of the one below; NULL: it is the lowest. Both as digests. */
void oci_chain_id(const char *below, const char *diff_id, char out[static OCI_DIGEST_SIZE]);
