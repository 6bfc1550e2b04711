/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-vault: gets values out of stores and puts them there. A short-lived program with the user's rights and environment; the
 * only one that opens a store. Values come in by stdin or a terminal without echo, and go out by one socket only, to the broker.
 *
 *     bawn-vault --get NAME [--of PURPOSE] [--fresh]
 *                                         3: SOCK_SEQPACKET; a struct vault_value (proto/brokermsg.h). --fresh: no cached one
 *     bawn-vault --authorize NAME [--of PURPOSE]
 *                                         OAuth: a login in the user's browser, for a sandbox's supervisor that has asked the user. 3: SOCK_SEQPACKET,
 *                                         which gets the address of the page; the end of this process is the end of the login
 *     bawn-vault --put NAME               value from stdin; asks for it without echo if that is a terminal. 3: a file with definitions
 *                                         that are about to be published, or nothing
 *     bawn-vault --rm NAME                3: the same
 *     bawn-vault --check NAME             is the value available? JSON on stdout: {"ok":true}, or {"ok":false,"error":"..."} and status 1
 *     bawn-vault --unlock | --lock        the passphrase of the file store, for VAULT_UNLOCKED_S in the kernel's keyring
 *     bawn-vault --registry HOST          3: a pipe to bawn-pull; the login that docker has for this registry, "user NUL secret"; none: nothing
 *     bawn-vault --login NAME             OAuth: device flow (RFC 8628), or, without device_url, in a browser of this machine; says on stderr
 *                                         what to do there
 *
 * --get, --authorize and --check never ask at the terminal: an agent's screen may be on it. A locked store is their error, and
 * --unlock, before the run, its cure. A value comes with a trailing newline or without; that of an OAuth credential is a
 * refresh token, or JSON: {"refresh":"...","access":"...","expires":SECONDS,"client_secret":"..."}, of which one of
 * the first two is enough.
 *
 * Definitions are read from $XDG_CONFIG_HOME/bawn/secrets.json (policy/credential/credential.h). A value never serves another purpose than the one it
 * was given for (credential_purpose()), whichever process is killed at whatever moment:
 *
 *     set     1 the value is asked for, the store is opened: nothing has changed yet
 *             2 --put takes an old definition with another purpose out of the file, and puts it back if 3 fails
 *             3 --put stores the value
 *             4 bawn publishes the new definition
 *     get     reads the definition, then the value, then the definition again: as 2 comes before 3, a value of another one is noticed.
 *             --of: it is the definition that the sandbox was started with
 *
 * Exit status: 0; 64 for what is the user's mistake; 1 for what is not available (locked, wrong passphrase, expired, timeout), with one line
 * "bawn: ..." on stderr (not --check) that never has a byte of a value.
 *
 * The file store: $XDG_CONFIG_HOME/bawn/secrets.enc, 0600, replaced as a whole (write, fsync, rename) under a lock.
 * AES-256-GCM; the key is random and in the Secret Service if there is one when the store is made, otherwise made by scrypt
 * from a passphrase, which comes from a terminal, or from the file that BAWN_PASSPHRASE_FILE names (a store that is made while
 * this is set has a passphrase). An unlocked key waits in the kernel's user keyring ("bawn:" and the store's id); one whose
 * passphrase came from the file does so for all only after --unlock, and else for vaults that are shown the same file (filekey.h).
 */
#pragma once

#include "base/secret.h"
#include "policy/credential/credential.h"

struct err;

enum {
    VAULT_UNLOCKED_S = 8 * 3600,
    VAULT_FILEKEY_S = 3600,               /* made again without a question */
    VAULT_COMMAND_TIMEOUT_MS = 30 * 1000, /* then the command and its children are ended */
    VAULT_DBUS_TIMEOUT_MS = 10 * 1000,
    VAULT_HTTP_TIMEOUT_MS = 30 * 1000,
    VAULT_LOCK_TIMEOUT_MS = 2 * VAULT_HTTP_TIMEOUT_MS, /* another vault holds it while it refreshes a token */
    VAULT_STORED_MAX = 64 * 1024,                      /* what a store holds for one name: a value, or OAuth tokens as JSON */
    VAULT_PASSPHRASE_MAX = 1024
};

/* What every verb works with. */
struct vault {
    char *const *environ_;
    char *dir;                    /* $XDG_CONFIG_HOME/bawn */
    struct credentials defs;      /* of the file, or those that are about to be published */
    struct credentials published; /* then: of the file */
    struct secret *key;           /* of the file store, once it is known: scrypt is slow on purpose. The verb's own */
    bool *withdrawn;              /* the verb's own, too: a definition was taken out of the file */
    bool may_ask;                 /* at the terminal */
};

/* new_defs: a file with definitions that are about to be published; -1: none. */
int vault_open(char *const *environ_, int new_defs, struct vault *ret, struct err *err);
void vault_done(struct vault *v);
/* Exit status 64 if it is not defined. */
int vault_find(const struct vault *v, const char *name, const struct credential **ret, struct err *err);
/* Is the published definition still this one? -ENOKEY if not. */
int vault_recheck(const struct vault *v, const struct credential *c, struct err *err);
/* Before a value is stored: a published definition that it is not for goes. And back again, if it could not be stored. */
int vault_withdraw(const struct vault *v, const struct credential *c, struct err *err);
int vault_put_back(const struct vault *v, struct err *err);
/* The environment of the user; NULL if it is unset or empty. */
const char *vault_getenv(const struct vault *v, const char *name);

/* The whole program. Returns its exit status. */
int vault_run_verb(int argc, char **argv, char *const *environ_);
