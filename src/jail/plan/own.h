/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bawn's own folders and the workspace: sockets that start programs, rules, journals, the audit log. A process that can write there is
 * outside, so none of them is in a workspace, nor a workspace in them; also not by way of a link, as people have it whose configuration
 * is a project of its own ("dotfiles").
 */
#pragma once

#include "base/macros.h"

struct err;
struct host_facts;
struct strv;

/* True if dir is path or one of its parents; path may be NULL. */
bool path_holds(const char *dir, const char *path);

/* Looks at the file system: sets f->own_inside. */
int own_look(struct host_facts *f, struct strv *owned);

/* -EPERM; by names and f->own_inside alone. */
int own_check(const struct host_facts *f, struct err *err);
