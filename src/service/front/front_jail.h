/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jail of bawn-front, which reads whatever clients send.
 *
 * Should: keep sockets that it was given or accepts, descriptors of answers and uploads, memory, clocks.
 * Mustn't: open a file, make a socket that connects, start a program or a process, be traced or dumped, send signals, keep a capability or root's
 * id, grow without bound. Must be the first thing, before the first message of bawnd.
 */
#pragma once

#include "base/macros.h"

struct err;

enum {
    FRONT_IDS_FIRST = 0x7c000000, /* if started by root: an id of its own (gate_jail.h has 0x78000000) */
    FRONT_ID_PLAIN = 65534,
    FRONT_FILES_MAX = 65536,
    FRONT_MEMORY_MAX = 1536 * 1024 * 1024
};

int front_lock(struct err *err) MUST_USE;
