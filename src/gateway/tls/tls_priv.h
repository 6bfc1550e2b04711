/* SPDX-License-Identifier: Apache-2.0 */
/* What tls.c, tls_trust.c and leaf.c share. */
#pragma once

#include "gateway/tls/tls.h"

struct leaves;
struct sessions;
struct trust;

enum { TLS_TRUST_MAX = 8 };

struct tls {
    struct gate *gate;
    int trust[TLS_TRUST_MAX];
    size_t n_trust;
    struct trust *anchors; /* NULL until the first connection, as */
    SSL_CTX *client;
    struct sessions *sessions;
    struct leaves *leaves;
};

/*
 * OpenSSL without configuration files, engines and modules: inside the jail there is no file. Once is enough, more do no
 * harm.
 */
void tls_library_init(void);

/* tls_trust.c: reads the bundles and closes them. */
int trust_read(int *fds, size_t n, struct trust **ret, struct err *err);
void trust_free(struct trust *t);                     /* after the store to which it was attached */
int trust_attach(struct trust *t, X509_STORE *store); /* once */

/* leaf.c */
int leaves_new(struct gate *g, struct leaves **ret);
void leaves_free(struct leaves *l);
