/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox with several ids (jail/plan/plan_system.h) may give files of its copy of the workspace to others, and so close them to the user. When nothing
 * runs in it any more they are given back: before the run is looked at, applied or carried back. A mark in the run's folder says that this is due; it is there from
 * before the start, so a killed run has it.
 */
#pragma once

#include "base/macros.h"

struct err;

/* The run is about to have several ids. dir: its folder. */
int settle_expect(int dir, struct err *err) MUST_USE;
/* Gives everything back, if that is due. Its lock is held. */
int settle_run(int dir, struct err *err) MUST_USE;
bool settle_is_due(int dir);
