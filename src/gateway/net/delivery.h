/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket in the place of a listener. Where a sandbox is on another kernel, its connections are accepted in there; bawn-link hands each one over as
 * a message on a SEQPACKET socket: both addresses (proto/link/linkmsg.h: what was connected to, by whom), and a descriptor. Datagrams are such
 * messages, too, without a descriptor and with the bytes behind the addresses.
 *
 * accept(2) says EINVAL on such a socket: that distinguishes it from a listener, at no cost for those that are one.
 */
#pragma once

#include <sys/socket.h>

#include "base/macros.h"

/* The next connection; -EAGAIN, or another error. *ret_to: what it was for; family 0 for a unix socket. May be NULL. */
int delivery_accept(int fd, struct sockaddr_storage *ret_to);

/* accept4() for either. *delivered is remembered by the caller. */
int delivery_or_accept(int fd, bool *delivered, struct sockaddr_storage *ret_to);

/* A question: how long it is, -EAGAIN, or another error. head: to be given back with the answer. */
enum { DELIVERY_HEAD = 40 };
long delivery_recv(int fd, uint8_t head[static DELIVERY_HEAD], uint8_t *bytes, size_t size);
void delivery_send(int fd, const uint8_t head[static DELIVERY_HEAD], const uint8_t *bytes, size_t len);
bool delivery_is(int fd); /* such a socket, of datagrams */
