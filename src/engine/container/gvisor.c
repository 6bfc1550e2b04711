/* SPDX-License-Identifier: Apache-2.0 */
/* gVisor: runsc, a kernel of its own between the command and the host's. */
#include "engine/container/container.h"
#include "engine/container/runsc.h"

const struct container_kind container_gvisor = {.name = "gvisor", .program = "runsc", .by_bytes = true, .bundle = runsc_prepare};

static int gvisor_start(const struct engine_request *req, struct sandbox *sb, enum rung *ret_next, struct err *err) {
    *ret_next = RUNG_FULL;
    return runsc_start(req, sb, err);
}

const struct engine_ops engine_gvisor = {
    .name = "gvisor",
    .summary = "gVisor's own kernel between the command and this machine's (runsc)",
    .can_keep = ENFORCES_EVERYTHING,
    .asks_others = true,
    .takes_image = true,
    .has_gate = true,
    .unmapped = true,
    .modes = 1 << WORKSPACE_SYNC | 1 << WORKSPACE_WORKTREE,
    .probe = runsc_probe,
    .start = gvisor_start,
    .stop = container_stop,
    .finish = container_finish,
};
