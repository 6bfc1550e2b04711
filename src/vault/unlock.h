/* SPDX-License-Identifier: Apache-2.0 */
/* From the head of a file store to its key: the kernel's keyring, the Secret Service, a passphrase. */
#pragma once

#include "base/secret.h"
#include "vault/sealed.h"

struct vault;
struct err;

/* A passphrase that is typed is asked for once in VAULT_UNLOCKED_S, where there is a keyring. -ENOKEY: locked, or a wrong
 * passphrase. ret_key was empty. skip_keyring: proves that the passphrase is known. */
int unlock_key(const struct vault *v, const struct sealed_head *h, bool skip_keyring, struct secret *ret_key, struct err *err);
/* A new store's head and key: the Secret Service if there is one, otherwise a passphrase, typed twice. */
int unlock_new(const struct vault *v, struct sealed_head *ret, struct secret *ret_key, struct err *err);
/* The new store is there: its key may wait in the keyring, if its passphrase was typed. */
void unlock_keep(const struct vault *v, const struct sealed_head *h, const struct secret *key);
/* The new store did not come to be: takes its key out of the Secret Service again. */
void unlock_undo(const struct sealed_head *h);
