/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a store whose passphrase is in a file, so that scrypt (128 MiB, half a second) is not run for each value that a sandbox
 * needs. It waits in the kernel's keyring as the key of a typed passphrase does, but bound to the file that the passphrase was read
 * from: only a vault that is shown this very file, unchanged, gets it. For all others the store is as locked as before.
 *
 * The file is known by its inode and times, not by its content: a quick hash of a passphrase could be guessed at without scrypt.
 */
#pragma once

#include <sys/stat.h>

#include "vault/sealed.h"

/* file: of the open descriptor that the passphrase came from. Nothing is remembered for what is no regular file. */
void filekey_remember(const struct sealed_head *h, const struct stat *file, const struct secret *key);
int filekey_recall(const struct sealed_head *h, const struct stat *file, struct secret *ret_key); /* -ENOKEY; ret_key was empty */
int filekey_forget(const struct sealed_head *h);                                                  /* as keyring_drop() */
