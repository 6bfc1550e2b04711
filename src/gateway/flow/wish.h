/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST http://bawn.internal/request: an agent inside asks for more, {"kind": "network", "value": "HOST:PORT", "reason": "..."}, and waits for a
 * human's answer. Pure: the bytes of a request in, a question for the supervisor or an answer out. What it means is judged there.
 */
#pragma once

#include "proto/gatemsg.h"

struct buf;

enum { WISH_BODY_MAX = 4096 };

enum wish_result {
    WISH_NOT,  /* another request */
    WISH_MORE, /* it is not whole yet */
    WISH_BAD,  /* *ret_why says what is wrong */
    WISH_OK
};
/* ret: of type GATE_MSG_REQUEST. */
enum wish_result wish_read(const uint8_t *data, size_t len, struct gate_msg *ret, const char **ret_why);

/* The whole answer. status: 200 granted, 403 refused, 400 not understood. how: "once", ...; said: of the human, printable. */
void wish_answer(int status, const char *how, const char *said, struct buf *out);
