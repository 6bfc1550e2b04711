/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical request of AWS's Signature Version 4, from a request that is about to be sent on: what the broker signs
 * (BROKER_SIGV4). Which fields are signed is what the client's own Authorization says. Pure.
 *
 *     METHOD \n PATH \n QUERY \n name:value \n ... \n \n NAMES \n HASH-OF-BODY
 */
#pragma once

#include "base/buf.h"
#include "gateway/http/httpx.h"

struct err;

enum { SIGV4_HEADERS_MAX = 64, SIGV4_PARAMS_MAX = 256 };

struct sigv4_request {
    const struct httpx_request *http; /* as it goes on, but for the Authorization */
    const struct host *host;
    uint16_t port;
    const char *service; /* "s3": its paths are encoded once, those of all others twice */
};

/* Adds it to out. *ret_needs_hash: the body has to be hashed; 64 small hexadecimal digits are still to be added. -EINVAL */
int sigv4_canonical(const struct sigv4_request *r, struct buf *out, bool *ret_needs_hash, struct err *err);
