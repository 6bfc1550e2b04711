/* SPDX-License-Identifier: Apache-2.0 */
/* Starts bawn-vault (vault/vault.h), the only program that opens stores of credentials. */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

struct err;
struct credential;
struct helper_ends;

struct vault_job {
    const char *verb;            /* "--get", "--put", ... */
    const char *name;            /* NULL: none */
    const struct credential *of; /* --get and --authorize: only for this purpose (credential_purpose()); NULL: for any */
    bool fresh;
    int sock;          /* becomes descriptor 3: a socket to the broker, or definitions that are about to be published; -1: none */
    bool terminal;     /* has our stdin, stdout and stderr; otherwise /dev/null, /dev/null and our stderr */
    int out, messages; /* become its stdout and stderr, whatever `terminal` says; 0: none */
    char *const *environ_;
};

/* It dies with us. */
int vault_start(const struct vault_job *j, pid_t *ret_pid, struct err *err);
/* The same with a socket and a pipe for its messages, which are filled in. The caller cleans up *ret, also on failure. */
int vault_start_talking(struct vault_job *j, struct helper_ends *ret, pid_t *ret_pid, struct err *err);
/* Waits; *ret_status is its exit status (128 + signal if one ended it). Its messages are on stderr already. */
int vault_run(const struct vault_job *j, int *ret_status, struct err *err);
