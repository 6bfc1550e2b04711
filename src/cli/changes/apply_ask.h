/* SPDX-License-Identifier: Apache-2.0 */
/* The questions of `bawn apply` on a terminal: one for each class of risk. */
#pragma once

#include "ops/changes/changes.h"

/* "of medium risk", for sentences. */
extern const char *const apply_class_words[CHANGES_CLASSES];

/* A changes_ask_fn. */
enum changes_answer apply_ask(const struct changes_question *q, void *arg);
