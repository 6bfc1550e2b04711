/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of the sandbox, from accept to end: see gate.h for what happens to them. This is what the rest of the gate may
 * call; flow_priv.h is shared by the files of the flows.
 */
#pragma once

#include "gateway/gate.h"

/* inside: to which port of the inside a listener outside leads, 0: it is one of the sandbox. Takes fd. */
int listener_add(struct gate *g, int fd, uint16_t inside, struct err *err);
/* Polls the listeners or not, as there is room for more. */
void listeners_resume(struct gate *g);

/* The supervisor answered WANT_INSIDE: takes fd; -1: error says why. */
void flow_inside(struct gate *g, uint32_t id, int error, int fd);

/* Another policy is in force: ends what it does not allow any more. Before the old one goes: flows_forget_rules(). */
void flows_judge_again(struct gate *g);
void flows_forget_rules(struct gate *g);
void flows_close_all(struct gate *g);
