/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/buf.h"
#include "config/settings.h"
#include "supervisor/session/run.h"

unsigned run_needs(const struct settings *s) {
    unsigned needs = ENFORCES_FILES | ENFORCES_SYSCALLS | ENFORCES_END;

    needs |= s->network != NETWORK_FULL ? ENFORCES_NETWORK : 0;
    needs |= s->cpus_milli ? ENFORCES_CPU : 0;
    needs |= s->memory ? ENFORCES_MEMORY : 0;
    needs |= s->pids ? ENFORCES_PIDS : 0;
    needs |= s->disk ? ENFORCES_DISK : 0;
    needs |= s->timeout_ms ? ENFORCES_TIME : 0;
    return needs;
}

/* What the engine can never keep is a refusal here; what only this host lacks is found out at the start. */
int run_check_engine(const struct engine_ops *e, const struct settings *s, struct err *err) {
    CLEANUP(buf_done) struct buf list = BUF_INIT(1024);
    struct engine_state state[4];
    const char *names[4];
    unsigned have = e->can_keep, missing;

    if (e->for_tests && e->probe(state, names, ARRAY_LEN(state)) > 0)
        have = state[0].keeps;
    missing = run_needs(s) & ~have;
    for (int i = 0; i < GUARANTEE_COUNT; i++)
        if (missing & (1u << i))
            buf_addf(&list, "%s%s", list.len ? ", " : "", guarantee_names[i]);
    if (missing)
        return err_set(err, -ENOTSUP, "engine '%s' does not keep what these settings need: %s", e->name, buf_str(&list));
    return 0;
}
