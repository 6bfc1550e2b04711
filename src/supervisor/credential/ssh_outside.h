/* SPDX-License-Identifier: Apache-2.0 */
/* What the user has of ssh: the agent, and which host keys are known. */
#pragma once

#include "base/macros.h"

struct err;
struct settings;

enum { SSH_KNOWN_HOSTS_MAX = 1024 * 1024 - 1, SSH_KEYS_TEXT_MAX = 64 * 1024 }; /* fit into a configuration */

struct ssh_outside {
    bool agent;        /* there is one, and a sandbox may ask it, through the broker */
    char *keys;        /* which of its keys: lines; NULL: all */
    char *known_hosts; /* the user's file and the machine's; NULL: there are none */
};

/* A setting "on" without an agent is an error; "off" finds nothing. */
int ssh_outside_find(const struct settings *s, const char *home, char *const *environ_, struct ssh_outside *ret, struct err *err);
void ssh_outside_done(struct ssh_outside *o);
/* A connection to the agent that SSH_AUTH_SOCK names, which does not block; -errno. */
int ssh_outside_connect(char *const *environ_, int *ret);
