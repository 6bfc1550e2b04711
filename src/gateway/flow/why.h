/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http://bawn.internal/why[?host=H]: the last refusals, for agents whose protocol had no place for a reason (a TLS alert, a
 * reset, a DNS answer). Text, or JSON for clients that accept only that or ask for /why.json. Pure: the bytes of a request in,
 * those of the answer out.
 */
#pragma once

#include "policy/rules/verdict.h"

struct buf;
struct why;

enum { WHY_REFUSALS = 64, WHY_REQUEST_MAX = 8 * 1024, WHY_ANSWER_MAX = 256 * 1024 };

int why_new(struct why **ret);
void why_free(struct why *w);
/* w may be NULL. */
void why_note(struct why *w, uint64_t now_s, const char *host, uint16_t port, const struct policy_verdict *v);

/* The head of a request in origin form or with an absolute URI. False: it is not whole yet. What cannot be read is answered
 * with 400. */
bool why_answer(const struct why *w, uint64_t now_s, const uint8_t *request, size_t len, struct buf *out);
