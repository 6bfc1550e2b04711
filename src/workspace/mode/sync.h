/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sync mode: the sandbox has a copy of the workspace, without what .sandboxignore hides, in its run's folder. It is made before the
 * run, and changes are carried in both directions: the host's before a run, the run's after it. A file that changed on both
 * sides is never lost: both versions stay, and are named.
 */
#pragma once

#include "base/progress.h"
#include "base/strv.h"
#include "workspace/change/change.h"
#include "workspace/copy/manifest.h"

/* Fills rd's tree/ from the workspace and writes the manifest; resumable: what is there and unchanged stays. Files that change
 * while they are read are read again; devices, FIFOs and sockets are left out and named in notes. If the run has a copy
 * already, only what the host changed since is carried into it; what the sandbox changed too waits for sync_both(). Before anything
 * changes the copy, clock_pass() a time after this: such a change has another ctime than the manifest. */
int sync_copy_in(struct rundir *rd, int workspace, const struct ignore *hidden, const struct progress *p, struct strv *notes,
                 struct err *err);

struct sync_result {
    size_t out, in;        /* files carried to the host, to the copy */
    struct strv conflicts; /* "PATH: the host's version stays, the sandbox's is PATH.bawn-NAME"; lines, safe for a terminal */
    size_t left;           /* of the conflicts: both sides stay as they are, so the copy is still needed */
    struct strv held;      /* risky or protected: wait for `bawn review`; paths, bytes as they are */
};
/* After the run: the run's changes to the host (all but those `hold` says true for), the host's to the copy, manifest renewed.
 * Deleting never wins over a change, and no folder goes that is not empty. Killed at any moment, nothing is lost on either
 * side, and the next call goes on. hold may be NULL. */
typedef bool sync_hold_fn(const struct change *c, void *arg);
/* Before a path of the host is overwritten, removed or made: to store what is there. Negative ends the sync. */
typedef int sync_before_fn(const char *path, void *arg, struct err *err);
struct sync_hooks {
    sync_hold_fn *hold;     /* may be NULL */
    sync_before_fn *before; /* may be NULL */
    void *arg;
};
int sync_both(struct rundir *rd, int workspace, const struct ignore *hidden, const struct sync_hooks *hooks,
              struct sync_result *ret, struct err *err);
void sync_result_done(struct sync_result *r);
