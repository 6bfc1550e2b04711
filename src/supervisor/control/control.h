/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket at which a supervisor takes requests of its own user: `bawn policy pending`, `approve`, `allow --sandbox` (control_client.h has
 * the paths, spec/control-socket.md the requests). It exists while there is a gate; the folder is 0700, the socket 0600, and a client must
 * have our uid or be root. No sandbox has either, nor does it see the folder.
 *
 * Nothing here waits: a client that does not read, or does not say anything, only takes its own place, and the oldest one gives way.
 */
#pragma once

#include <jansson.h>
#include <poll.h>

#include "base/buf.h"

struct err;
struct control_server;

enum { CONTROL_CLIENTS_MAX = 4, CONTROL_POLL_MAX = CONTROL_CLIENTS_MAX + 1 };

/* Writes one JSON object (no line end) as the answer. request is an object. */
typedef void control_fn(void *arg, const json_t *request, struct buf *answer);
/* Answers without data: {"ok":true}, and {"ok":false,"error":why}. */
void control_ok(struct buf *answer);
void control_error(struct buf *answer, const char *why);

/* A folder of ours that no other user can write: the names in it can be trusted. A descriptor; -EPERM: it is another's, or not so. */
int control_own_folder(int at, const char *path);
/* Opens paths_runtime(), and makes it if it is missing: the user's own, and others may not write there. */
int control_open_folder(char *const *environ_, int *ret, struct err *err);
/* A socket that listens at once, 0600, under a name in an open folder; what has the name is replaced. *ret does not block. */
int control_listen(int folder, const char *name, int type, int backlog, int *ret);
/* It is there, but no process listens. */
bool control_is_stale(int folder, const char *name, int type);
bool control_is_free(int folder, const char *name, int type); /* stale, or not there */
/* Removes stale sockets on the way. */
int control_server_new(char *const *environ_, control_fn *fn, void *arg, struct control_server **ret, struct err *err);
void control_server_free(struct control_server *c); /* removes the socket */
size_t control_server_poll(const struct control_server *c, struct pollfd *out);
void control_server_handle(struct control_server *c);
