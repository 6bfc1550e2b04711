/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runsc alone: gVisor without docker or podman. We write the bundle ourselves, and runsc is a child of ours that dies with us; it needs neither a daemon nor root
 * (`--rootless`).
 *
 *   Should: have no network but gVisor's loopback, no cgroup but ours, and no file of the host's beyond the mounts of the plan.
 */
#pragma once

#include "engine/engine.h"

struct container_box;

/* The bundle in the folder of the run. */
int runsc_bundle_make(const struct container_box *b, const struct plan *p, struct err *err);
/* The kind's `bundle`: with the arguments of runsc. */
/* runsc_image.c: the layers of the plan as one folder, b->image_root. */
int runsc_image_root(struct container_box *b, struct err *err);
int runsc_prepare(struct container_box *b, const struct engine_request *req, struct err *err);
int runsc_start(const struct engine_request *req, struct sandbox *sb, struct err *err);
size_t runsc_probe(struct engine_state *ret, const char **ret_names, size_t max);
