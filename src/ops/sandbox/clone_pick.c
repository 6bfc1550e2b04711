/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sandbox/clone_pick.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "config/load/paths.h"
#include "supervisor/keep/exec_client.h"
#include "workspace/run/rundir.h"

void clone_pick_done(struct clone_pick *p) {
    progress_bar_done(&p->bar);
    sandbox_pick_done(&p->pick);
    free(p->home);
    free(p->runs);
    free(p->control);
}

/* One that starts or ends just now is neither: its keeper writes in what would be copied. */
static int hold(const char *name, struct clone_pick *p, struct err *err) {
    const struct sandbox_pick_opts stopped = {.name = name, .need = SANDBOX_STOPPED};
    enum box_phase phase = box_look(&p->pick.box, NULL);

    if (p->pick.box.alive && phase != BOX_RUNNING)
        return exec_not_running(&p->pick.box, err);
    if (p->pick.box.alive)
        return sandbox_control(&p->pick.box, &p->control, err);
    sandbox_pick_done(&p->pick);
    p->pick = (struct sandbox_pick)SANDBOX_PICK_INIT;
    return sandbox_pick(&stopped, &p->pick, err);
}

int clone_pick(const char *name, bool lock, struct clone_pick *p, struct err *err) {
    const struct sandbox_pick_opts any = {.name = name, .need = SANDBOX_ANY};
    int r = sandbox_pick(&any, &p->pick, err);

    r = r < 0 ? r : paths_home(environ, &p->home, err);
    r = r < 0 ? r : rundir_folder(environ, p->home, &p->runs, err);
    if (r == 0 && !p->runs)
        r = err_set(err, -ENOENT, "there is no home folder, and so no place for copies");
    r = r < 0 || !lock ? r : hold(name, p, err);
    if (r < 0)
        return r;
    p->progress = (struct progress){.report = progress_bar_report, .arg = &p->bar};
    p->opts = (struct clone_opts){.boxes = p->pick.boxes, .runs = p->runs, .control = p->control, .progress = &p->progress};
    return 0;
}
