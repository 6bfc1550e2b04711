/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a refusal is said, in the protocol spoken (N7): at once, with a stable code, the reason and what would help. Bodies are short,
 * and hold nothing as hostile bytes came.
 */
#pragma once

#include "policy/rules/verdict.h"

struct buf;

/* {"error": {"code", "host", "port", "rule", "layer", "reason", "hint"}} plus newline; what `http_status` belongs to the verdict. */
int refuse_status(
    const struct policy_verdict *v); /* 403, 421 (name mismatch), 400 (not HTTP, bad path), 413, 502 (no address), ... */
/* json: the client accepts it or says nothing; else readable text. */
void refuse_body(const struct policy_verdict *v, const char *host, uint16_t port, bool json, struct buf *b);
/* A whole HTTP/1.1 answer with "Connection: close", or with keep-alive. */
void refuse_http1(const struct policy_verdict *v, const char *host, uint16_t port, bool json, bool keep, struct buf *b);
