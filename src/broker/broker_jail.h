/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jail of bawn-broker while it serves, entered after it has read the key and before it reads a request. Afterwards the process has
 * two sockets, those that its supervisor hands to it, and its memory: no file, no way to make a socket or a process, no privilege, no core
 * dump, no debugger can attach to it.
 *
 * Root's broker becomes an id of its own: bawn-gate, which may be taken over, has another one and cannot send it a signal or read
 * its memory. A user's broker has the user's id; there, being not dumpable keeps others of that user away.
 */
#pragma once

#include "base/macros.h"

struct err;

enum {
    BROKER_IDS_FIRST = 0x74000000, /* plus the pid: neither a sandbox's (0x70000000) nor a gate's (0x78000000) */
    BROKER_ID_PLAIN = 65534,       /* in a user namespace that has no such ids */
    BROKER_MEMORY_MAX = 256 * 1024 * 1024,
    BROKER_FILES_MAX = 96 /* a bawn-vault for each grant, and a few */
};

int broker_lock(struct err *err) MUST_USE;
