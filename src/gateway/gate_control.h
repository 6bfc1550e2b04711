/* SPDX-License-Identifier: Apache-2.0 */
/* The gate's end of the socket to its supervisor (gatemsg.h). What is sent through it is in gate.h. */
#pragma once

#include "gateway/gate.h"

enum {
    CONTROL_QUEUE_MAX = 4096,  /* messages that wait for the supervisor */
    CONTROL_QUEUE_FULL = 2048, /* no connection is accepted above this */
    CONTROL_DELAY_MS = 10,     /* for what is not urgent: each message of its own would wake the supervisor */
    CONTROL_STUCK_MS = 10000,  /* a supervisor that takes nothing for so long is gone */
    ASKS_MAX = 256,
    ASK_TIMEOUT_DEFAULT_MS = 60000
};

/* Takes fd. */
int control_new(struct gate *g, int fd, struct gate_control **ret, struct err *err);
/* Waits for the first message, which is the configuration. */
int control_wait_config(struct gate_control *c, struct gate_config *ret, uint32_t *ret_gate, struct err *err); /* names_start() */
/* From now on messages are handled by the loop. */
int control_start(struct gate_control *c);
void control_flush(struct gate_control *c);
void control_before_sleep(struct gate_control *c); /* sends what is urgent */
/* At the end: waits until the supervisor has heard all, or is gone. */
void control_drain(struct gate_control *c);
bool control_is_full(const struct gate_control *c);
