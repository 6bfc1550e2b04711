/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The credentials of one run (policy/credential/credential.h): which of the user's definitions it has, what represents them inside, and the sockets
 * through which the inside learns their names and uses the ssh-agent. No value is ever here.
 */
#pragma once

#include "policy/credential/credential.h"
#include "supervisor/credential/inside_sockets.h"
#include "supervisor/credential/ssh_outside.h"

struct err;
struct host_facts;
struct plan_input;
struct settings;

struct run_credentials {
    struct grant *grants;
    size_t n_grants;
    uint64_t soon; /* set of grants: the agent that is the command will ask for their values */
    struct ssh_outside ssh;
    struct inside_sockets sockets;
    struct strv env; /* NAME=value for the inside */
    char *gitignore; /* the user's ~/.gitignore_global; NULL: none */
    char *program;   /* path of bawn-inside; NULL: not needed, or not there */
};
#define RUN_CREDENTIALS_INIT \
    { .sockets = INSIDE_SOCKETS_INIT }

/* Reads $XDG_CONFIG_HOME/bawn/secrets.json, makes placeholders and sockets, and sets credentials of *in. Asks for the passphrase
 * of a locked store if there is a terminal. */
int run_credentials_prepare(struct run_credentials *c, const struct settings *s, const struct host_facts *facts,
                            struct plan_input *in, struct err *err);
void run_credentials_done(struct run_credentials *c);

/* The definitions in the user's file; none if there is no file. */
int credentials_load(char *const *environ_, const char *home, struct credentials *ret, struct err *err);
/* What the variable has inside: the placeholder of the run's credential for it, malloc'ed. *ret is NULL if there is none. */
int credentials_variable(const struct settings *s, const struct host_facts *facts, const char *name, char **ret, struct err *err);
