/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What looks like a secret in the arguments of a command is not written down. A guess, for people who put secrets where `ps`
 * shows them: values behind names such as --password, TOKEN=, "api_key":, Authorization:; the user in URLs; strings with the
 * shape of a known token; and whatever is long and random. Too much is taken away rather than too little.
 */
#pragma once

#include "base/buf.h"

#define REDACTED "[redacted]"
enum { REDACT_LOOK_MAX = 4096 }; /* bytes of an argument that are read, and written, at most */

/* argv[i] as it may be shown, malloc'ed; NULL if memory ran out. The argument before it counts: "--token", "x". */
char *redact_argument(char *const *argv, size_t i);
