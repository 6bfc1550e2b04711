/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talking to running supervisors: each has a socket NAME.sock in $XDG_RUNTIME_DIR/bawn, or, without that variable, in
 * $XDG_STATE_HOME/bawn/run, from the moment at which its gate starts. NAME is its pid. One JSON object on a line each way
 * (spec/control-socket.md).
 */
#pragma once

#include "base/strv.h"

struct buf;
struct err;

enum { CONTROL_LINE_MAX = 64 * 1024, CONTROL_ANSWER_MAX = 8 * 1024 * 1024 };

/* Paths of all sockets that a supervisor answers at. */
int control_list(struct strv *ret_sockets, struct err *err);
/* request: one line without its end; *answer gets the line that came, without its end. Waits for it, a few seconds at most. */
int control_call(const char *sock, const char *request, struct buf *answer, struct err *err);

/* The same to all, 64 at a time; fn gets each answer that came within timeout_ms. Who is slow, stopped or gone is left out. */
typedef void control_answer_fn(void *arg, const char *socket, const char *answer, size_t len);
int control_call_all(const char *request, int timeout_ms, control_answer_fn *fn, void *arg, struct err *err);

/* For server and client: the address of NAME in an open folder, however long the folder's path is. */
struct sockaddr_un;
int control_address(int folder, const char *name, struct sockaddr_un *ret);
/* A descriptor, close-on-exec, or -errno. Without SOCK_NONBLOCK in type, nothing waits for more than a few seconds there. */
int control_connect(int folder, const char *name, int type);
bool control_is_name(const char *name); /* digits and ".sock" */
