/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jail of bawn-gate, which reads whatever the sandbox and the internet send.
 *
 * Should: keep sockets (internet, and those it was born with or gets from its supervisor), memory, clocks.
 * Mustn't: open a file, start a program or a process, be traced or dumped, send signals, keep a capability or root's id, grow
 * without bound. Must be the first thing after the descriptors that need a path are open.
 */
#pragma once

#include "base/macros.h"

struct err;

enum {
    GATE_IDS_FIRST = 0x78000000, /* if started by root: an id of its own, not that of the sandbox (0x70000000 + pid) */
    GATE_ID_PLAIN = 65534,       /* where such a large id is not mapped */
    GATE_FILES_MAX = 16384,
    GATE_MEMORY_MAX = 768 * 1024 * 1024
};

/* *ret_files: how many descriptors it may have afterwards, when it cannot ask any more. */
int gate_lock(size_t *ret_files, struct err *err) MUST_USE;
