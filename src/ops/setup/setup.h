/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a workspace (`bawn config show`) and the rules that hide its secrets (`bawn init`). */
#pragma once

#include "config/settings.h"

struct err;

struct setup_config {
    const char *directory;       /* the workspace; NULL: the current folder */
    const char *profile, *agent; /* as if they had been named; NULL: none */
};
/* As a run here would have them. */
int setup_settings(const struct setup_config *q, struct settings *ret, struct err *err);

/* The open workspace, or negative; for the functions below and ignore_check() (workspace/git/check.h). */
int setup_open(const char *directory, struct err *err);
/* Writes .sandboxignore with the recommended rules, and accepts them. *ret_written false: there is one already. */
int setup_write_rules(int dir, bool *ret_written, struct err *err);
/* The rules as they are now count (workspace/hide/pin.h), also where they show more than before. */
int setup_accept_rules(int dir, struct err *err);
