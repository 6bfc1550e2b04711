/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the agent's keys a sandbox may see. Certificates are never among them: whom they let in is not known here. */
#pragma once

#include "proto/ssh_agent.h"

struct buf;

enum { SSH_FINGERPRINT_SIZE = 64 }; /* "SHA256:" and 43 letters */

void ssh_fingerprint(struct ssh_bytes key, char out[static SSH_FINGERPRINT_SIZE]);
/* lines: each a fingerprint or a comment; "": every key.
 * Writes the IDENTITIES_ANSWER (without its length) of the chosen keys from one of the agent's. -EBADMSG. */
int ssh_choice_filter(const char *lines, const uint8_t *msg, size_t len, struct buf *out);
/* 1: the answer has this key, and it is chosen; 0; -EBADMSG. */
int ssh_choice_has(const char *lines, const uint8_t *msg, size_t len, struct ssh_bytes key);
