/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jail of bawn-pull: an id of its own if it is started by root, no capability; by Landlock, this pull's folder, partial downloads, and, to read, the store's
 * layers and the source; with a registry also the files that names and certificates are looked up in. A system call filter without
 * execve, and without sockets if there is no registry.
 */
#pragma once

#include "base/macros.h"

struct err;

int pull_lock(bool network, struct err *err) MUST_USE;
