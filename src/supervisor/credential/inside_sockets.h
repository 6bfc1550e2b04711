/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix listeners that are shown inside the sandbox and accepted by the gate: the ssh-agent, and the names of credentials. They are in
 * a folder of their own, which only the user enters; the sockets themselves are open to all, because a sandbox has other ids.
 *
 *     $XDG_RUNTIME_DIR/bawn/in-<pid>-<start time>/{ssh-agent,credentials}.sock    swept when that supervisor is dead
 */
#pragma once

#include "base/macros.h"

struct err;

enum inside_socket { INSIDE_SSH, INSIDE_CREDENTIAL, INSIDE_SOCKETS };

struct inside_sockets {
    int parent; /* -1: there are none */
    char name[64];
    int fd[INSIDE_SOCKETS];     /* -1: none, or taken */
    char *path[INSIDE_SOCKETS]; /* on the host */
};
#define INSIDE_SOCKETS_INIT            \
    {                                  \
        .parent = -1, .fd = { -1, -1 } \
    }

int inside_sockets_open(char *const *environ_, const bool wanted[INSIDE_SOCKETS], struct inside_sockets *ret, struct err *err);
void inside_sockets_done(struct inside_sockets *s);
