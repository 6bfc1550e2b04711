/* SPDX-License-Identifier: Apache-2.0 */
/* Questions that wait for the human outside (gate.h: gate_ask()). */
#pragma once

#include "gateway/gate.h"

enum { ASK_TIMEOUT_DEFAULT_MS = 60000 };

/* The supervisor answered; an id that nobody waits for is left alone. */
void ask_answer(struct gate *g, uint32_t id, enum gate_answer answer);
/* At the end: nobody is called. */
void ask_drop_all(struct gate *g);
