/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A login that a sandbox asked for (opener.h), from the user's yes to its end:
 *
 *     NONE -> VAULT     bawn-vault --authorize makes an address with a state, a verifier and a port of its own; it is opened in the user's browser.
 *                       The vault gets the code, redeems it and stores the tokens; nothing of it comes here
 *          -> CONNECT   it has ended: bawn-init is asked for a connection to the port inside on which the program waits
 *          -> SEND      the program gets its own state, and the credential's placeholder as its code, or an error
 *          -> SENT      its answer is read and thrown away: the browser has got a page of the vault's
 *
 * One at a time for a sandbox. The vault dies with us, and the listener with it.
 */
#pragma once

#include <poll.h>
#include <sys/types.h>

#include "supervisor/credential/opener.h"

enum { LOGIN_POLL_MAX = 1, LOGIN_INSIDE_ID = -1 /* INIT_MSG_INSIDE: not one of the gate's */ };
enum login_state { LOGIN_NONE, LOGIN_VAULT, LOGIN_CONNECT, LOGIN_SEND, LOGIN_SENT };

struct login {
    enum login_state state;
    struct opener_login what;
    pid_t pid;
    int sock;     /* VAULT: of the vault; SEND, SENT: into the sandbox */
    int messages; /* of the vault: its stderr */
    bool opened, ok;
    uint64_t until_ms;
};
#define LOGIN_INIT \
    { .pid = -1, .sock = -1, .messages = -1 }

struct err;

/* One that is under way is given up. */
int login_start(struct login *l, const struct opener_login *what, char *const *environ_, struct err *err);
/* The user said no, and the program inside will get an error. The caller asks bawn-init for a connection, as after LOGIN_CONNECT. */
void login_refuse(struct login *l, const struct opener_login *what);
void login_end(struct login *l);

/* For the loop. */
size_t login_poll(const struct login *l, struct pollfd *out);
int login_timeout(const struct login *l);
/* True: the login has just ended (l->ok) and needs a connection into the sandbox: login_inside() follows. */
bool login_handle(struct login *l, const struct opener *o);
void login_inside(struct login *l, int fd); /* taken; -1: there is none */
