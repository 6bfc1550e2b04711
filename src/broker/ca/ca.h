/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate authority of one sandbox: an EC key (P-256) and a certificate that says it may sign leaves and nothing below them.
 * A program that trusts it trusts every holder of the key. So each sandbox has its own (ATTACKS 68), and it lives for CA_DAYS.
 */
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "policy/host/host.h"

struct buf;

enum { CA_DAYS = 30, LEAF_DAYS = 7, CA_EARLY_S = 3600, CA_PEM_MAX = 16 * 1024 };

struct ca {
    EVP_PKEY *key;
    X509 *cert;
};

int ca_make(struct ca *ret, struct err *err);
void ca_done(struct ca *ca); /* zeroes the key */

/* Below the folder: key.pem (0600) and ca.pem. */
int ca_write(const struct ca *ca, int dirfd, struct err *err);
int ca_read(int dirfd, struct ca *ret, struct err *err);
int ca_pem(const struct ca *ca, struct buf *out); /* the certificate */

/* A certificate for this host and this public key (SubjectPublicKeyInfo, DER, P-256), as DER. -EINVAL: no such key. */
int ca_leaf(const struct ca *ca, const struct host *host, const uint8_t *spki, size_t len, uint8_t *out, size_t max,
            size_t *ret_len);
