/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May this be signed? The bytes come from the sandbox. Signed is
 *
 *     a login     (userauth) in a session that a host key has signed (session-bind@openssh.com), which is the key of a host in
 *                 the user's known_hosts to which policy allows connections (ATTACKS 60, 76: it is good for that session alone)
 *     a commit    (SSHSIG for "git")
 *
 * and nothing else; and nothing that came through a forwarded agent: its other end is outside of the sandbox.
 */
#pragma once

#include "broker/broker.h"
#include "proto/ssh_agent.h"

struct ssh_verdict {
    char host[HOST_TEXT_MAX + 1]; /* login only */
    uint16_t port;
    const char *what; /* "login", "commit", "" */
    const char *why;  /* of a refusal: a clause; NULL otherwise */
};

/* Where the gate thinks that the session goes. It only helps to find a name that known_hosts has hashed: the host counts if its
 * key is there under that very name and policy allows it. */
struct ssh_guess {
    char host[BROKER_HOST_MAX + 1]; /* "": no idea */
    uint16_t port;
};

/* bind: as it came; empty: none did. 0 or -EACCES; *ret is filled in both cases. */
int ssh_judge(const struct broker *b, struct ssh_bytes bind, const struct ssh_sign *sign, const struct ssh_guess *guess,
              struct ssh_verdict *ret);
