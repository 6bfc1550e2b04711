/* SPDX-License-Identifier: Apache-2.0 */
/* No sandbox: the command replaces this program. Chosen only by name, never by auto. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/engine.h"

static size_t probe(struct engine_state *ret, const char **ret_names, size_t max) {
    if (max == 0)
        return 0;
    *ret = (struct engine_state){.available = true};
    ret_names[0] = "none";
    return 1;
}

static int none_start(const struct engine_request *req, struct sandbox *sb UNUSED, enum rung *ret_next, struct err *err) {
    const struct plan *p = req->plan;
    int r;

    *ret_next = RUNG_FULL;
    sigprocmask(SIG_SETMASK, &req->old_mask, NULL);
    execvp(p->argv[0], p->argv);
    r = -errno;
    err_sys(err, r, "%s", p->argv[0]);
    err->status = err_exec_status(-r);
    return r;
}

static void none_stop(struct sandbox *sb UNUSED) {}

const struct engine_ops engine_none = {
    .name = "none",
    .summary = "no sandbox at all",
    .can_keep = 0,
    .modes = (1 << WORKSPACE_MODES) - 1,
    .probe = probe,
    .start = none_start,
    .stop = none_stop,
    .finish = none_stop,
};
