/* SPDX-License-Identifier: Apache-2.0 */
/* Stores: where values are. One table of functions for each (enum credential_store); values are bytes to them. */
#pragma once

#include "base/secret.h"
#include "vault/vault.h"

struct store_ops {
    /* -ENOENT with no message: the store has no such name. Other errors say why. ret has VAULT_STORED_MAX bytes of room. */
    int (*get)(const struct vault *v, const struct credential *c, struct secret *ret, struct err *err);
    /* NULL: this store cannot be written. value NULL: it is removed; -ENOENT with no message if there is none. */
    int (*put)(const struct vault *v, const struct credential *c, const struct secret *value, struct err *err);
};

extern const struct store_ops store_file, store_command;

/* What a program prints, without its last line feed. argv[0] is looked for in PATH. input: its stdin; -1: nothing. */
int store_command_run(const struct vault *v, char *const *argv, int input, struct secret *ret, struct err *err);

/* The file store as a whole: its lock is the user's, not a value's. */
int file_unlock(const struct vault *v, struct err *err); /* its key into the kernel's keyring */
int file_lock(const struct vault *v, struct err *err);   /* and out again; nothing there is no error */

/* -ENOKEY and what to do if there is no value. ret was empty. */
int store_get(const struct vault *v, const struct credential *c, struct secret *ret, struct err *err);
/* Exit status 64 for a store that cannot be written: before the user types a value. */
int store_writable(const struct credential *c, struct err *err);
/* Whole or not at all. */
int store_put(const struct vault *v, const struct credential *c, const struct secret *value, struct err *err);
/* Nothing there is no error; neither is a store that is not ours to change. */
int store_rm(const struct vault *v, const struct credential *c, struct err *err);
