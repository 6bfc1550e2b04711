/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets that carry messages with descriptors. */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

enum { SOCK_FDS_MAX = 4 };

int sock_pair(int ret_fds[2]); /* SOCK_SEQPACKET, close-on-exec */
/* One message; fds may be NULL. Returns 0 or -errno. */
int sock_send(int sock, const void *data, size_t len, const int *fds, size_t n_fds);
/* One message of at most len bytes; received descriptors are close-on-exec. Returns its length, 0 at the end, -errno;
 * *n_fds, how many descriptors there is room for, becomes how many came, 0 on failure.
 * What a peer said before it ended comes first, then 0, also if it had not read all of ours (the kernel's ECONNRESET).
 * A message that was cut, or carries more descriptors than asked for, is -EBADMSG and its descriptors are closed. */
long sock_recv(int sock, void *data, size_t len, int *ret_fds, size_t *n_fds);

int sock_peer(int sock, uid_t *ret); /* who connected, or listened, as the kernel saw it then; 0 or -errno */
bool sock_peer_is_ours(int sock);    /* our own user, or root */
