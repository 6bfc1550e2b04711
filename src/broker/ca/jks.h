/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Java's own file of trusted certificates (JKS, version 2), because Java reads no PEM. All numbers big-endian:
 *
 *     magic  version  count  { 2 (trusted certificate)  alias  milliseconds since 1970  "X.509"  length  DER }  SHA-1
 *
 * The digest is over the password as UTF-16, the words "Mighty Aphrodite", and the file; it is against accidents, not attackers.
 */
#pragma once

#include <openssl/x509.h>

#include "base/macros.h"

struct buf;

#define JKS_PASSWORD "changeit" /* Java's default */

enum { JKS_CERTS_MAX = 10000, JKS_MAX = 32 * 1024 * 1024 };

struct jks {
    struct buf *out;
    uint32_t n;
};

void jks_begin(struct jks *j, struct buf *out); /* out is empty */
void jks_add(struct jks *j, const char *alias, const X509 *cert);
int jks_end(struct jks *j); /* -ENOMEM: no memory, or more than fits */
