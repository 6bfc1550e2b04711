/* SPDX-License-Identifier: Apache-2.0 */
/* Between ca.c (the authority) and ca_leaf.c (what it signs). */
#pragma once

#include <openssl/x509v3.h>

#include "broker/ca/ca.h"

/* Version 3, a random serial number, valid from CA_EARLY_S ago for `days`. False: no memory. */
bool ca_begin(X509 *cert, int days);
/* An extension by its name and value in OpenSSL's configuration language; both are ours, never somebody's bytes. */
bool ca_extend(X509 *cert, X509 *issuer, int nid, const char *value);
