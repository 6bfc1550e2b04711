/* SPDX-License-Identifier: Apache-2.0 */
/* The engine podman: container.h with its program and its own options. */
#include <unistd.h>

#include "base/str.h"
#include "config/load/paths.h"
#include "engine/container/container.h"

static const char *const none[] = {NULL};
/* Without it the user of the sandbox would be an id of /etc/subuid. */
static const char *const of_users[] = {"--userns=keep-id", NULL};

/* runsc would look for the devices of the empty network, and stop. */
static const char *const of_runsc[] = {"--runtime-flag=network=none", "--runtime-flag=net-raw", NULL};

const struct container_kind container_podman = {.name = "podman",
                                                .program = "podman",
                                                .options = none,
                                                .own_rlimits = true,
                                                .makes_itself = true,
                                                .of_users = of_users,
                                                .of_runsc = of_runsc,
                                                .label_format = "{{.ID}} {{index .Labels \"" CONTAINER_LABEL "\"}}"};

/* Its storage is there. podman makes that even to be asked about itself. */
static bool podman_is_used(void) {
    const char *data = paths_getenv(environ, "XDG_DATA_HOME"), *home = paths_getenv(environ, "HOME");
    CLEANUP(freep) char *path = data ? str_dupf("%s/containers", data) : str_dupf("%s/.local/share/containers", home ? home : "");

    return geteuid() == 0 ? access("/var/lib/containers", F_OK) == 0 : path && access(path, F_OK) == 0;
}

static size_t probe(struct engine_state *ret, const char **ret_names, size_t max) {
    return container_probe(&container_podman, ret, ret_names, max);
}

static int podman_image(const char *name, struct engine_image *ret, struct err *err) {
    return container_image(&container_podman, name, ret, err);
}

static int podman_start(const struct engine_request *req, struct sandbox *sb, enum rung *ret_next, struct err *err) {
    *ret_next = RUNG_FULL;
    return container_start(&container_podman, req, sb, err);
}

const struct engine_ops engine_podman = {
    .name = "podman",
    .summary = "containers of podman, with or without root",
    CONTAINER_ENGINE,
    .image = podman_image,
    .is_used = podman_is_used,
    .probe = probe,
    .start = podman_start,
};
