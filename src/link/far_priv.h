/* SPDX-License-Identifier: Apache-2.0 */
/* Between far*.c. */
#pragma once

#include "jail/network/network.h"
#include "link/far.h"
#include "link/late.h"

enum { FAR_FD_CONTROL = 3, FAR_FD_START, FAR_FD_OURS = 16 };

struct far {
    struct mux m;
    bool on, begun;
    bool speaks; /* bawn-init has something to say */
    int init;    /* our end of bawn-init's control socket; -1: it has closed its own */
    int locks[2], answers[2];
    int (*lock)(void *arg, struct err *err);
    void *arg;
    struct far_net net;
    struct listeners listeners;
    bool finishing;
    int status, thread;
    size_t terminals;
    struct init_msg out;
    struct late late;
};
extern struct far far;

/* far_start.c: the first message of the near end. 0, -EAGAIN or an error that ends the link. */
int far_on_start(const struct link_message *msg);
