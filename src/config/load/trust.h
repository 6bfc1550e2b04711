/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which project files the user has read and trusted: one line for each workspace, "<sha256 of the file> <path>", in
 * $XDG_STATE_HOME/bawn/trust. A changed file has another hash and is untrusted again.
 */
#pragma once

#include "base/macros.h"

struct err;

/* The file of trust records; *ret is NULL if the user has no home, and then nothing is trusted. */
int trust_file(char *const *environ_, const char *home, char **ret, struct err *err);

int trust_check(const char *file, const char *workspace, const char *hash, bool *ret_trusted, struct err *err);
int trust_record(const char *file, const char *workspace, const char *hash, struct err *err);
/* Returns 1 if there was a record, 0 if not. */
int trust_revoke(const char *file, const char *workspace, struct err *err);
