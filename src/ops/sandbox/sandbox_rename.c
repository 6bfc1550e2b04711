/* SPDX-License-Identifier: Apache-2.0 */
/* Renames persistent sandboxes. */
#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/sandbox/sandbox_jobs.h"
#include "ops/sandbox/sandbox_manage.h"
#include "ops/sandbox/sandbox_pick.h"
#include "supervisor/session/box_run.h"

/* Its keeper does it: it has the sockets, too. */
static int rename_running(const struct box *b, const char *name, struct err *err) {
    CLEANUP(buf_done) struct buf request = BUF_INIT(1024);
    struct jsonout j = {.to = &request};
    CLEANUP(freep) char *socket = NULL;
    json_t *answer;
    int r = sandbox_control(b, &socket, err);

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "cmd", "rename");
    jsonout_text(&j, "name", name);
    jsonout_close(&j, '}');
    r = r < 0 ? r : sandbox_call(socket, buf_str(&request), &answer, err);
    if (r == 0)
        json_decref(answer);
    return r;
}

/* If the second step fails, the first is taken back. */
static int rename_both(const char *boxes, const char *home, struct box *b, const char *name, struct err *err) {
    CLEANUP(freep) char *old = strdup(b->name);
    struct box moved = {.name = (char *)(uintptr_t)name, .info = b->info};
    struct err ignored = {0};
    int r = old ? box_run_rename(environ, home, b, name, err) : err_oom(err);

    if (r < 0)
        return r;
    r = registry_rename(boxes, b, name, err);
    if (r < 0)
        box_run_rename(environ, home, &moved, old, &ignored);
    return r;
}

/* The lock of the sandbox is ours. */
static int rename_stopped(const char *boxes, struct box *b, const char *name, struct err *err) {
    CLEANUP(freep) char *home = NULL;
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : box_rename_begin(b, name, err);
    if (r < 0)
        return r;
    r = rename_both(boxes, home, b, name, err);
    box_rename_end(b);
    return r;
}

int sandbox_rename(const char *old, const char *name, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    struct sandbox_pick_opts o = {.name = old, .need = SANDBOX_STOPPED};
    int r = box_check_name(name, err);

    r = r < 0 ? r : sandbox_pick(&o, &p, err);
    if (r == 0)
        return rename_stopped(p.boxes, &p.box, name, err);
    if (r != -EBUSY)
        return r;
    o.need = SANDBOX_RUNNING;
    r = sandbox_pick(&o, &p, err);
    return r < 0 ? r : rename_running(&p.box, name, err);
}
