/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a writable system (jail/plan/plan_system.h). At its first start the layers of a system without an image get what the sandbox needs to
 * change of the host's: copies of parts of /etc, users, the files of the package database that are written in place. The last only as a
 * user: root's sandboxes map the owner of the host's files instead.
 *
 * After that the layers are the inside's, and nothing is written there from outside: only work/ of each is made anew at a start, and the layer of the
 * certificates, which are those of one life of the sandbox.
 */
#pragma once

struct err;
struct plan;

/* Beside the home of a persistent sandbox, or in the private folder of a run. malloc'ed; NULL: no memory. */
char *system_dir_path(const char *home, const char *private_dir);

/* plan: made with this folder, which is there already or is made. */
int system_dir_make(const char *path, const struct plan *plan, struct err *err);

/* system_fill.c: the first start, without an image. dir: the system's folder; the layers of the plan are there, empty. */
int system_fill(int dir, const struct plan *plan, struct err *err);
