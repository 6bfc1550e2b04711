/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/policy/policy_view.h"
#include "cli/sandbox/box_view.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "ops/policy/policy_live.h"
#include "ops/sandbox/sandbox_pick.h"
#include "supervisor/session/box_run.h"

enum { OPT_JSON = 1 };

static const struct opt opts[] = {{OPT_JSON, 0, "json", NULL, "print JSON", NULL}};

static int take(void *arg, int id UNUSED, const char *value UNUSED, struct err *err UNUSED) {
    *(bool *)arg = true;
    return 0;
}

/* Its keeper does it: it has the sockets, too. */
static int rename_running(const struct box *b, const char *name, struct err *err) {
    CLEANUP(buf_done) struct buf request = BUF_INIT(1024);
    CLEANUP(freep) char *socket = NULL;
    json_t *answer;
    int r = sandbox_control(b, &socket, err);

    buf_adds(&request, "{\"cmd\": \"rename\"");
    box_view_json_text(&request, "name", name);
    buf_addc(&request, '}');
    r = r < 0 ? r : policy_live_call(socket, buf_str(&request), &answer, err);
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

static int rename_box(const char *old, const char *name, struct err *err) {
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

static int run_rename(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(1024);
    struct policy_words words = {0};
    struct err err = {0};
    bool json = false;
    int r = policy_read_words(self, argc, argv, take, &json, 2, &words, &err);

    if (r >= 0 && words.n != 2)
        r = err_usage(&err, "the old and the new name of a sandbox are wanted");
    r = r < 0 ? r : rename_box(words.v[0], words.v[1], &err);
    if (r < 0)
        return verb_fail(self, &err);
    if (json) {
        buf_addc(&out, '{');
        box_view_json_text(&out, "old", words.v[0]);
        box_view_json_text(&out, "name", words.v[1]);
        buf_adds(&out, "}\n");
    }
    return run_print_out(&out, &err) < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Gives a kept sandbox another name, whether it runs or not; with it goes what overlay or sync mode keeps of its changes. Its id, "
    "as audit logs have it, stays. One in worktree mode cannot be renamed while it has a branch.\n\n"
    "    bawn rename dev dev-old";

const struct verb verb_rename = {
    .name = "rename",
    .summary = "give a kept sandbox another name",
    .synopsis = "[options] OLD NEW",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_rename,
};
