/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine sandbox-exec: macOS's own. This build of Bawn is for Linux and only writes its profile (sbpl.h); `bawn run --dry-run` prints it, and how to
 * use it. A run is refused.
 */
#include <errno.h>

#include "base/err.h"
#include "engine/engine.h"

static const char refusal[] =
    "this build is for Linux, and only writes a profile for macOS's sandbox-exec ('bawn run --dry-run' prints it; "
    "not run on a Mac yet, docs/macos.md); use another engine";

static size_t probe(struct engine_state *ret, const char **ret_names, size_t max) {
    if (max == 0)
        return 0;
    *ret = (struct engine_state){.why = "generated only, not run on a Mac yet (docs/macos.md)",
                                 .remedy = "'bawn run --dry-run --engine sandbox-exec -- COMMAND' prints its profile"};
    ret_names[0] = "sandbox-exec";
    return 1;
}

static int seatbelt_start(const struct engine_request *req UNUSED, struct sandbox *sb UNUSED, enum rung *ret_next,
                          struct err *err) {
    *ret_next = RUNG_FULL;
    return err_set(err, -ENOTSUP, "engine sandbox-exec: %s", refusal);
}

static void seatbelt_stop(struct sandbox *sb UNUSED) {}

const struct engine_ops engine_seatbelt = {
    .name = "sandbox-exec",
    .summary = "profiles for macOS's sandbox-exec; only written, not run",
    .can_keep = ENFORCES_FILES | ENFORCES_PROCESSES | ENFORCES_NETWORK | ENFORCES_SOCKETS | ENFORCES_HIDING |
                ENFORCES_HIDING_LATER | ENFORCES_PROTECTION,
    .refusal = refusal,
    .asks_others = true,
    .modes = (1 << WORKSPACE_MODES) - 1,
    .probe = probe,
    .start = seatbelt_start,
    .stop = seatbelt_stop,
    .finish = seatbelt_stop,
};
