/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the user's browser comes back to after a login (RFC 8252, 7.3): a listener on a loopback address of this machine, open while a
 * login is under way. Every program of this machine and every web page can send something there, so one kind of request counts: a GET of
 * exactly the redirect's path with our state, by a program of the same user. Whatever else comes gets a 404 and changes nothing. The first that counts closes the listener.
 */
#pragma once

#include "base/secret.h"
#include "policy/credential/credential.h"

struct err;

enum {
    CALLBACK_HEAD_MAX = 16 * 1024, /* of a request */
    CALLBACK_CODE_MAX = 4096,
    CALLBACK_CLIENTS_MAX = 16, /* at a time; more wait in line */
    CALLBACK_CLIENT_MS = 10 * 1000,
    CALLBACK_MS = 10 * 60 * 1000 /* for the whole login */
};

struct callback {
    int fd;
    uint16_t port;
};

int callback_listen(const struct credential_redirect *r, struct callback *ret, struct err *err);
void callback_done(struct callback *cb);
/* Closes the listener. ret_code was made with secret_alloc(CALLBACK_CODE_MAX). *ret_client waits for callback_answer(), also if the login
 * was refused in the browser (-EACCES); else it is untouched. -ETIMEDOUT. */
int callback_wait(struct callback *cb, const char *path, const char *state, struct secret *ret_code, int *ret_client,
                  struct err *err);
void callback_answer(int client, bool ok); /* a page for people; takes client */

/* The head of a request. 0: the code; -EACCES: the service says error=...; -EAGAIN: it is not whole yet; -EINVAL: nothing that counts. */
int callback_read(const char *head, size_t len, const char *path, const char *state, struct secret *ret_code);
