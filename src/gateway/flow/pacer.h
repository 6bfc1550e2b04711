/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals that repeat are answered slower. Some clients take a refusal for a fault of the network and try again at once, for
 * minutes; that does not help, and floods logs. The first few are answered at once, then each takes twice as long as the one before,
 * up to PACER_MOST_MS, until a minute has passed without one. Per host and port; a bounded table, in which two may share a place
 * (and then they wait together). No more than PACER_WAITING answers wait at a time: the others are given at once, so that a flood
 * of them does not take the places of other connections. Pure.
 */
#pragma once

#include "base/macros.h"

struct pacer;

enum {
    PACER_PLACES = 512,
    PACER_FREE = 10,
    PACER_FIRST_MS = 50,
    PACER_MOST_MS = 3000,
    PACER_CALM_MS = 60 * 1000,
    PACER_WAITING = 256
};

int pacer_new(struct pacer **ret);
void pacer_free(struct pacer *p);
/* A refusal: how long its answer has to wait, in ms. Unless that is 0, pacer_over() has to follow. p may be NULL. */
uint64_t pacer_wait(struct pacer *p, uint64_t now_ms, const char *host, uint16_t port);
void pacer_over(struct pacer *p);
void pacer_forget(struct pacer *p); /* other rules are in force */
