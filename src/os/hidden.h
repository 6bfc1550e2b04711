/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that appear and disappear whole: made under a hidden name (".new-...") and renamed once they are complete; renamed to a hidden
 * name (".gone-...") and then removed. A hidden one in use has flock() on it: one without was left by a crash.
 *
 *     hidden_lock(parent);                        no sweep between mkdir and flock
 *     fd = hidden_make(parent, name);             what crashes left is out of the way by then
 *     hidden_unlock(parent);
 *     hidden_sweep_gone(parent);
 *     ... fill it, renameat() it, or remove_tree(parent, name)
 *
 *     hidden_retire(parent, fd, "mine", gone);    gone for all, at once
 *     remove_tree(parent, gone);
 */
#pragma once

#include "base/macros.h"

struct err;

enum { HIDDEN_NAME_SIZE = 32 };

int hidden_lock(int parent); /* waits; -errno */
void hidden_unlock(int parent);

/* A new folder of mode 0700 and its name; its descriptor has the lock, for as long as it is open. -errno */
int hidden_make(int parent, char ret_name[static HIDDEN_NAME_SIZE]);

/* It gets its name; -EEXIST: that is taken. rename() replaces a folder only if it is empty, and no folder of ours ever is. */
int hidden_publish(int parent, const char *hidden, const char *name);

/* Opens a folder of ours. what: "run", "sandbox", for messages. -ENOENT without one; -EPERM: it belongs to another user. */
int hidden_open(int parent, const char *what, const char *name, struct err *err);
/* (parent, name) is the folder that is open as fd. */
bool hidden_is_in_place(int parent, const char *name, int fd);

/* Takes the folder (parent, name), open as fd, out of sight; its new name is in ret_gone. -errno */
int hidden_retire(int parent, int fd, const char *name, char ret_gone[static HIDDEN_NAME_SIZE]);
/* That, and removes it; -ENOENT if it is not in place. */
int hidden_remove(int parent, int fd, const char *what, const char *name, struct err *err);

/* Removes what removals left, which takes as long as there are files; returns how many. */
int hidden_sweep_gone(int parent);

/* The same with what creations left. Does nothing while `parent` is locked. */
int hidden_sweep(int parent);
