/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small keys in the kernel's keyring of this user: outside every process's memory, gone after some time or at the user's last logout.
 * Sandboxes cannot see them: their filter has no keyctl (ATTACKS 79).
 */
#pragma once

#include "base/secret.h"

/* -errno, without messages: a kernel or a container without keyrings (-ENOSYS, -EPERM) is common. id names the key. */
int keyring_put(const char *id, const struct secret *key, unsigned seconds);
int keyring_get(const char *id, struct secret *ret); /* ret was empty; -ENOKEY */
int keyring_drop(const char *id);                    /* -ENOKEY */
bool keyring_has(const char *id);
