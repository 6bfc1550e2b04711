/* SPDX-License-Identifier: Apache-2.0 */
/* The image of a run: found in the store, or pulled now. */
#pragma once

#include "engine/engine.h"
#include "image/image_store.h"
#include "jail/plan/plan_image.h"

struct err;
struct notice;

struct run_image {
    struct plan_image plan;
    struct engine_image own; /* of an engine with images of its own */
    struct image_store store;
    struct image_info info;
    struct strv layers, argv;
    char *name;
};
void run_image_done(struct run_image *i);

/* wanted: as in settings. argv: of the user; NULL and 0: none. The image's own entry point and command are in i->argv then. What is
 * not there is pulled, unless it is only looked at. i begins as RUN_IMAGE_INIT and must stay where it is. */
#define RUN_IMAGE_INIT \
    { .store = IMAGE_STORE_INIT, .plan.lock = -1 }
int run_image_find(const char *wanted, char **argv, size_t argc, bool only_look, const struct notice *notice, struct run_image *i,
                   struct err *err);
/* The same of an engine that has images of its own: the name is for it to find. */
int run_image_ask(const struct engine_ops *e, const char *wanted, char **argv, size_t argc, struct run_image *i, struct err *err);
