/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ssh-agent inside the sandbox (SSH_AUTH_SOCK), its inner half: takes messages apart, keeps what session-bind@openssh.com
 * said, and asks the broker for keys and signatures, which judges them (broker/ssh/ssh_judge.h). Nothing is decided here, for this
 * program may be taken over; but what is no listing, signing or binding goes no further.
 */
#pragma once

#include "base/macros.h"

struct gate;
struct inlet;
struct err;

/* inlet_free() ends it, before the brokerlink goes. */
int agentd_new(struct gate *g, int fd /* taken */, struct inlet **ret, struct err *err);
