/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A registry over HTTP (OCI distribution): manifests with all four media types, tokens (Bearer, Basic), blobs in parallel and resumed.
 *
 * TLS always, but for this machine's own (oci_host_is_local()). The credential goes to the registry, or to the token server that it names, which
 * must be reached the same way; never to where a blob is redirected. What has come of a blob stays in the folder of partial
 * downloads, named by its digest and locked while one pull writes it: whatever is in there, only bytes with that digest are used.
 */
#pragma once

#include <pthread.h>

#include "base/secret.h"
#include "proto/oci.h"

struct image_blob;
struct buf;
struct err;
struct pull;

int registry_connect(struct pull *p, struct err *err);
/* Begins to fetch what the store does not have. */
int registry_begin_layers(struct pull *p, struct err *err);
int registry_layer(struct pull *p, size_t i, struct image_blob *ret, struct err *err); /* waits for it */
void registry_forget_layers(struct pull *p);                                           /* all are unpacked: partial files go */

enum { REGISTRY_TRIES = 4, REGISTRY_TEXT_MAX = 2048 };

struct registry {
    struct oci_ref ref;
    bool local;
    char base[OCI_HOST_MAX + 16]; /* "https://host:port" */
    struct secret user, password; /* NUL-terminated; no bytes: none */
    pthread_mutex_t lock;         /* of what follows */
    pthread_cond_t changed;
    struct secret token; /* NUL-terminated; no bytes: none needed so far */
    bool basic;          /* the registry wants user and password themselves */
    size_t next;         /* layer to be fetched */
    struct {
        bool wanted; /* not in the store, and not the same as one before */
        int fd;      /* of the partial file */
        bool named;  /* it is this pull's; else another one has that */
        int r;       /* 1: not yet; 0: complete; -errno */
        struct err *err;
    } layers[OCI_LAYERS_MAX];
};

/* registry_http.c: one address, asked for until it answers or REGISTRY_TRIES are over. */
struct registry_want {
    const char *url;
    const char *const *headers; /* NULL-terminated; may be NULL */
    bool token_server;          /* user and password go along, not the token */
    uint64_t from;              /* the first byte to be sent */
    int (*sink)(void *arg, const char *data, size_t len);
    int (*restart)(void *arg); /* it begins at 0 again */
    bool resumable;            /* a broken answer is the caller's to continue; else it is asked for again from 0 */
    void *arg;

    /* what came */
    long status;
    char challenge[REGISTRY_TEXT_MAX];
    unsigned retry_after_s;
    uint64_t got; /* bytes that the sink has had */
    int sink_error;
};
int registry_get(struct registry *g, struct registry_want *w, struct err *err);
/* registry_auth.c: does what the challenge of a 401 asks for. */
int registry_login(struct registry *g, const char *challenge, struct err *err);
int registry_read_secret(struct registry *g, int fd, struct err *err);
