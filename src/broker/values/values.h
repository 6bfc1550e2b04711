/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of a sandbox's grants. Each has a place of its own, by the number of the grant:
 *
 *     NONE -> WANTED (the supervisor was asked for a bawn-vault, its socket is read) -> READY -> NONE (it has ended: zeroed)
 *                                                                                    -> FAILED (for VALUES_BACKOFF_MS)
 *
 * One fetch at a time for each; requests that come meanwhile wait, and are judged again when the value is there. A configuration in which the grant of
 * that number is another one drops value, waiting requests and whatever still comes for the old one: a value goes to no other
 * grant's hosts.
 *
 * The supervisor answers each WANT_VALUE with one VAULT, and there is at most one unanswered for each grant.
 */
#pragma once

#include "broker/broker.h"

enum { VALUES_BACKOFF_MS = 2000, VALUES_WAITING_BYTES_MAX = 16 * 1024 * 1024 };

int values_new(struct values **ret);
void values_free(struct values *v); /* zeroes */

void values_reload(struct broker *b, const struct gate_config *next);    /* before it takes the place of b->config */
void values_vault(struct broker *b, const struct broker_msg *m, int fd); /* BROKER_MSG_VAULT; takes fd, which may be -1 */
/* A request for it will come: it is fetched before. */
void values_fetch(struct broker *b, uint32_t index);
/* The user has logged in anew: what was fetched before, or is being fetched, is of the old login. Waiting requests go on waiting. */
void values_renew(struct broker *b, uint32_t index);

/* For the loop: GRANTS_MAX entries. */
void values_poll_fill(const struct broker *b, struct pollfd *ret);
void values_poll_done(struct broker *b, const struct pollfd *fds);
int values_timeout_ms(const struct broker *b); /* -1: nothing ends */
