/* SPDX-License-Identifier: Apache-2.0 */
/* What a container engine inside needs of this machine, and says about itself (jail/plan/plan_nested.c makes it). */
#include "ops/run/run_nested.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/engine.h"
#include "ops/run/run_prepare.h"

const char *run_nested_missing(void) {
    static const char *const programs[] = {"/usr/bin/podman", "/usr/bin/crun"};

    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        if (access(programs[i], X_OK) < 0)
            return programs[i];
    return NULL;
}

static int check_nested(const struct settings *s, const struct engine_ops *e, struct err *err) {
    const char *missing = s->image ? NULL : run_nested_missing(), *origin = s->origin[SETTING_NESTED];

    if (!e->has_nested)
        return err_set(err, -EOPNOTSUPP, "engine %s has no container engine inside (--nested: %s); use --engine native", e->name,
                       origin);
    if (missing)
        return err_set(
            err, -ENOENT,
            "--nested (%s) needs podman and crun in /usr/bin, and there is no %s: install both, or use an --image that "
            "has them",
            origin, missing);
    return 0;
}

int run_nested_allow(struct run_prepared *p, const struct engine_ops *e, struct err *err) {
    struct settings *s = &p->settings;
    bool chosen = !str_eq(s->origin[SETTING_WORKSPACE_MODE], "built-in");
    int r = check_nested(s, e, err);

    if (r < 0)
        return r;
    if (!chosen && settings_workspace_mode(s) == WORKSPACE_DIRECT)
        s->workspace.mode = WORKSPACE_OVERLAY;
    p->input.nested = true;
    return strv_addf(&s->notes,
                     "--nested: programs inside may make user namespaces and mounts, and there is no second fence around files "
                     "(see 'Containers inside' in docs/packages.md)%s",
                     chosen ? "" : "; changes to the workspace wait for 'bawn apply'") < 0
               ? err_oom(err)
               : 0;
}
