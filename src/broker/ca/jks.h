/* SPDX-License-Identifier: Apache-2.0 */
/* Java's file of trusted certificates, because Java reads no PEM. */
#pragma once

#include <openssl/types.h>

#include "base/macros.h"

struct buf;

enum { JKS_CERTS_MAX = 10000, JKS_MAX = 32 * 1024 * 1024 };

/* own first, then the certificates of the bundle (PEM); what is no certificate there is passed over, as OpenSSL does. -ENOMEM: no memory, or more
 * than fits. */
int jks_write(const X509 *own, const struct buf *bundle, struct buf *out);
