/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of network.h. */
#pragma once

#include "jail/network/network.h"

/* network_listen.c: what n->has says that there is to listen for. May leave some listeners behind on failure. */
int network_listen(struct listeners *n, struct err *err);
