/* SPDX-License-Identifier: Apache-2.0 */
/* Covering files of a sandbox that runs: a short-lived child enters its user and mount namespaces and mounts there. */
#pragma once

#include <sys/types.h>

#include "base/strv.h"

struct elsewheres;
struct err;

struct cover_request {
    int pidfd; /* the sandbox's first process */
    uid_t uid; /* who it is inside */
    gid_t gid;
    const char *workspace;     /* its path inside */
    const struct strv *paths;  /* below it */
    const struct strv *opened; /* folders whose covers go, before others come; not in an overlay */
    const struct strv *masked; /* overlay: of these, what its mask hides or replaces since the start; sorted; may be NULL */
    const struct elsewheres *elsewhere; /* where else they are seen; may be NULL */
    bool copy;                          /* the workspace inside is a copy: only elsewhere is the host's folder shown */
    int upper;                          /* overlay: what is in there is the sandbox's own and is not covered; -1 */
    int lower;                          /* overlay: the host's folder */
};

/* Every path that is there and not covered yet gets a cover that no process inside can open. Returns 0, or -errno for the first that
 * could not be covered (symbolic links cannot, and are no failure). */
int cover_paths(const struct cover_request *req, struct err *err);
