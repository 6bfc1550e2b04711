/* SPDX-License-Identifier: Apache-2.0 */
/* Images that are made here: of this machine's own programs, and from recipes. */
#pragma once

#include "ops/image/image_pull.h"

enum image_place { IMAGE_TO_STORE, IMAGE_TO_DOCKER, IMAGE_TO_PODMAN, IMAGE_PLACES };
extern const char *const image_place_names[IMAGE_PLACES]; /* "store", "docker", "podman" */

/* The parts of the host that a sandbox without an image has (jail/plan/plan_root.c), or these paths instead (absolute; n 0: none). */
struct image_host_request {
    const char *name;
    enum image_place place;
    char *const *paths;
    size_t n;
    const struct progress *progress;
};
int image_from_host(const struct image_host_request *q, struct image_pulled *ret, struct err *err);

/* recipe: one of Bawn's own ("python"), or a folder with a Containerfile or Dockerfile. Built by podman or docker, whose output goes to the
 * terminal; then into the store. */
struct image_build_request {
    const char *recipe, *name, *engine; /* name, engine NULL: by the recipe; the first that is there */
    const struct progress *progress;
};
int image_build(const struct image_build_request *q, struct image_pulled *ret, struct err *err);
