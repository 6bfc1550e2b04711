/* SPDX-License-Identifier: Apache-2.0 */
/* Of dial*.c and the flows: addresses as the kernel has them. */
#pragma once

#include <sys/socket.h>

#include "policy/host/addr.h"

socklen_t sockaddr_make(const struct addr *a, uint16_t port, struct sockaddr_storage *ret);
bool sockaddr_read(const struct sockaddr_storage *from, struct addr *ret, uint16_t *ret_port); /* false: no internet address */
