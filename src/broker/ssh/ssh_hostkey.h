/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of SSH host keys: ed25519, ECDSA over the NIST curves, RSA with SHA-2 (RFC 8709, 5656, 8332). RSA with SHA-1, DSA,
 * security keys and certificates are no proof here.
 */
#pragma once

#include "proto/ssh_wire.h"

enum { SSH_RSA_BITS_MIN = 2048, SSH_RSA_BITS_MAX = 16384 };

/* 0: key signed data. -EOPNOTSUPP: no such kind of key or signature; -EBADMSG: broken; -EKEYREJECTED: it did not; -ENOMEM. */
int ssh_hostkey_verify(struct ssh_bytes key, struct ssh_bytes signature, struct ssh_bytes data);
