/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that outlive a run and belong to a project's sandboxes alone: caches of package managers, and folders of the
 * workspace that the user wants to be the sandbox's own (workspace.volumes: node_modules, .venv). They lie in
 * $XDG_STATE_HOME/bawn/volumes/<hash of the workspace's path>, never in the host's own caches.
 */
#pragma once

#include "base/strv.h"
#include "jail/plan/plan.h"

struct volumes {
    char *base, *caches;
    struct strv from; /* host folder of each of settings->volumes */
    struct strv made; /* folders of the workspace that were made as mount points */
    int workspace;    /* borrowed */
};

/* Makes what is missing and sets caches and volumes of *in. Without a home there are no caches, and volumes are refused. */
int volumes_prepare(struct volumes *v, const struct settings *s, int workspace, const struct host_facts *facts,
                    struct plan_input *in, struct err *err);
/* Where the volumes of a workspace are, or would be; *ret is NULL where there is no place for them. */
int volumes_path(char *const *environ_, const char *home, const char *workspace, char **ret, struct err *err);
/* A folder of this project's volumes (and those above it) that belongs to the owner of the workspace. sub has no "..". */
int volumes_folder(const struct host_facts *facts, const char *sub, char **ret, struct err *err);
/* Mount points in a copy of the workspace. */
int volumes_points(const struct settings *s, int tree, struct err *err);
/* Takes away mount points that were made and are still empty. */
void volumes_done(struct volumes *v);
