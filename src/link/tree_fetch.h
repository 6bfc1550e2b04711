/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree that a sandbox on another kernel sends is read by a process that is locked in first.
 *
 *   Should: make files below the folders that it is given, and say what it made.
 *   Mustn't: open any other file, start a program or a process, reach the network, send signals. Without Landlock the filter alone holds: then
 *   it can still open other files of the user's.
 */
#pragma once

#include "workspace/copy/treestream.h"

enum { TREE_CELL_FOLDERS_MAX = 64 };

/* Locks the calling process in, for good. */
int tree_cell_lock(const int *folders, size_t n, struct err *err) MUST_USE;

/* tree_ask() in a child that is locked in. */
int tree_fetch(int sock, struct transfer *t, int to, struct err *err) MUST_USE;
