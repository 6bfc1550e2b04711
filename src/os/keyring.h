/*
 * The key of an unlocked file store, in the kernel's keyring of this user: outside every process's memory, gone after
 * VAULT_UNLOCKED_S or at the user's last logout. Sandboxes cannot see it: their filter has no keyctl (ATTACKS: keyrings).
 */
#pragma once

#include "base/secret.h"

/* -errno, without messages: a kernel or a container without keyrings (-ENOSYS, -EPERM) is common. id names the store. */
int keyring_put(const char *id, const struct secret *key);
int keyring_get(const char *id, struct secret *ret); /* ret was empty; -ENOKEY */
int keyring_drop(const char *id);                    /* -ENOKEY */
