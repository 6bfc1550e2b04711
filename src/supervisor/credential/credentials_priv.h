/* SPDX-License-Identifier: Apache-2.0 */
/* Between credentials*.c. */
#pragma once

#include "supervisor/credential/credentials.h"

/* A value may be in the file store, and that may be locked: asks for its passphrase on the terminal, or says what will fail without. */
int credentials_unlock(const struct run_credentials *c, const struct credentials *defined, const struct host_facts *facts,
                       struct err *err);
