/* SPDX-License-Identifier: Apache-2.0 */
/* How a question of the gate is put: to people, and to programs. Every text of the gate is printable ASCII by then (gatemsg_sane()). */
#pragma once

#include "base/buf.h"
#include "proto/gatemsg.h"

enum { ASK_TEXT_MAX = 4096 };

void ask_text_screen(const struct gate_msg *q, uint64_t timeout_ms,
                     struct buf *out);                         /* lines with CR LF, for a screen of its own */
void ask_text_line(const struct gate_msg *q, struct buf *out); /* the host and the keys at its right end */
/* {"id", "host", "port", "method", "path", "rule", "layer", "reason", "waiting", "seconds"}, and "login" or "request", with a comma before it if one is due */
void ask_text_json(const struct gate_msg *q, uint32_t number, size_t waiting, uint64_t seconds, struct buf *out);
