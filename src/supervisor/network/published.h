/* SPDX-License-Identifier: Apache-2.0 */
/* --publish: listeners on this machine that lead to a server inside. Made before the start, so that a port that is taken stops the run. */
#pragma once

#include "base/strv.h"
#include "proto/gatemsg.h"

struct err;

struct published_port {
    int fd;
    uint16_t inside, outside;
};

struct published {
    struct published_port v[GATE_PUBLISH_MAX];
    size_t n;
};

/*
 * Each word: "INSIDE", "INSIDE:OUTSIDE" or "ADDRESS:INSIDE:OUTSIDE" ("[::1]:3000:8080"). Without an address: 127.0.0.1, so that no other machine
 * gets in. OUTSIDE 0: any free port, which a log line shows.
 */
int published_open(const struct strv *words, struct published *ret, struct err *err);
void published_done(struct published *p);
bool published_has(const struct published *p, uint32_t inside);
