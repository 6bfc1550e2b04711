/* SPDX-License-Identifier: Apache-2.0 */
/* The engine docker: container.h with its program and its own options. */
#include "engine/container/container.h"

static const char *const none[] = {NULL};

const struct container_kind container_docker = {.name = "docker",
                                                .program = "docker",
                                                .options = none,
                                                .of_users = none,
                                                .label_format = "{{.ID}} {{.Label \"" CONTAINER_LABEL "\"}}"};

static size_t probe(struct engine_state *ret, const char **ret_names, size_t max) {
    return container_probe(&container_docker, ret, ret_names, max);
}

static int docker_image(const char *name, struct engine_image *ret, struct err *err) {
    return container_image(&container_docker, name, ret, err);
}

static int docker_start(const struct engine_request *req, struct sandbox *sb, enum rung *ret_next, struct err *err) {
    *ret_next = RUNG_FULL;
    return container_start(&container_docker, req, sb, err);
}

const struct engine_ops engine_docker = {
    .name = "docker",
    .summary = "containers of a docker daemon, here or where its context says",
    CONTAINER_ENGINE,
    .image = docker_image,
    .probe = probe,
    .start = docker_start,
};
