/* --publish: listeners on this machine that lead to a server inside. Made before the start, so that a port that is taken stops the run. */
#pragma once

#include "base/strv.h"
#include "proto/gatemsg.h"

struct err;

struct published_port {
    int fd;
    uint16_t inside, outside;
    uint64_t until_ms; /* 0: as long as the run */
};

struct published {
    struct published_port v[GATE_PUBLISH_MAX];
    size_t n;
};

/*
 * Each word: "INSIDE", "INSIDE:OUTSIDE" or "ADDRESS:INSIDE:OUTSIDE" ("[::1]:3000:8080"). Without an address: 127.0.0.1, so that nobody else in
 * the network gets in. OUTSIDE 0: any free port, which a log line tells.
 */
int published_open(const struct strv *words, struct published *ret, struct err *err);
void published_done(struct published *p);
bool published_has(const struct published *p, uint32_t inside);
/* One more while the run goes on: 127.0.0.1:port leads to the same port inside until then. Returns a descriptor for the gate, or -errno;
 * -EEXIST: it is there already. */
int published_add(struct published *p, uint16_t port, uint64_t until_ms);
/* Closes those whose time is over. Returns when that has to be done again; 0: never. */
uint64_t published_expire(struct published *p, uint64_t now_ms);
