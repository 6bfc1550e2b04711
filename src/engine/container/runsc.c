/* SPDX-License-Identifier: Apache-2.0 */
/* runsc: its arguments, its limits, and whether it works here. */
#include "engine/container/runsc.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/container/container_box.h"
#include "jail/cgroup/cgroup.h"

/*
 * Of the sentry, which uses several threads of this machine for each process inside. This keeps a fork bomb from using up the machine's; it is no limit of
 * processes inside, which gVisor does not have.
 */
enum { TASKS_BASE = 512, TASKS_EACH = 16 };

static int add_options(struct strv *to, const char *root) {
    int r = strv_add(to, "runsc");

    if (r >= 0 && geteuid() != 0)
        r = strv_add(to, "--rootless");
    r = r < 0 ? r : strv_add(to, "--ignore-cgroups"); /* it is in one of ours */
    r = r < 0 ? r : strv_add(to, "--network=none");
    r = r < 0 ? r : strv_add(to, "--net-raw"); /* for who has the capability, which the command has not */
    r = r < 0 ? r : strv_add(to, "--log=/dev/null");
    return r < 0 ? r : strv_addf(to, "--root=%s", root);
}

int runsc_prepare(struct container_box *b, const struct engine_request *req, struct err *err) {
    CLEANUP(freep) char *state = str_dupf("%s/state", b->folder.path);
    int r = b->plan.layers.len ? runsc_image_root(b, err) : 0;

    r = r < 0 ? r : runsc_bundle_make(b, req->plan, err);

    if (r < 0)
        return r;
    r = state ? add_options(&b->argv, state) : -ENOMEM;
    r = r < 0 ? r : strv_add(&b->argv, "run");
    r = r < 0 ? r : strv_addf(&b->argv, "--bundle=%s", b->folder.path);
    r = r < 0 ? r : strv_add(&b->argv, b->folder.name);
    return r < 0 ? err_oom(err) : 0;
}

int runsc_start(const struct engine_request *req, struct sandbox *sb, struct err *err) {
    struct limits l = req->plan->limits;
    int r;

    if (l.pids)
        l.pids = TASKS_BASE + TASKS_EACH * l.pids;
    r = engine_make_cgroup(&l, true, sb, err);
    sb->cgroup.enforces.pids = false;
    if (!sb->cgroup.why[0])
        snprintf(sb->cgroup.why, sizeof sb->cgroup.why, "gVisor has none for processes");
    return r < 0 ? r : container_start(&container_gvisor, req, sb, err);
}

/* -- does it work here? ----------------------------------------------------------------------------------------------------- */

enum {
    BY_ITSELF = ENFORCES_FILES | ENFORCES_PROCESSES | ENFORCES_NETWORK | ENFORCES_SOCKETS | ENFORCES_SYSCALLS | ENFORCES_DISK |
                ENFORCES_TIME | ENFORCES_END | ENFORCES_HIDING | ENFORCES_HIDING_LATER | ENFORCES_PROTECTION | ENFORCES_NAMES |
                ENFORCES_PORTS | ENFORCES_CREDENTIALS | ENFORCES_KERNEL
};

static unsigned limits_here(void) {
    struct cgroup_host host;

    cgroup_probe(&host);
    return (host.can.cpu ? ENFORCES_CPU : 0u) | (host.can.memory ? ENFORCES_MEMORY : 0u);
}

/* A sandbox of its own kind, with nothing of ours: what is missing on this machine, it says itself. */
static int try_runsc(struct err *err) {
    CLEANUP(buf_done) struct buf said = BUF_INIT(16 * 1024);
    CLEANUP(strv_done) struct strv argv = {0};
    struct container_cli cli = {.env = {0}};
    char cwd[PATH_MAX], state[] = "/tmp/bawn-runsc.XXXXXX";
    int r = container_cli_find(&container_gvisor, getcwd(cwd, sizeof cwd) ? cwd : "/", &cli, err);

    if (r == 0 && !mkdtemp(state))
        r = err_sys(err, -errno, "folder for runsc");
    else if (r == 0 && (add_options(&argv, state) < 0 || strv_add(&argv, "do") < 0 || strv_add(&argv, "/bin/true") < 0))
        r = err_oom(err);
    if (r == 0) {
        r = container_call(&cli, argv.v, NULL, NULL, &said);
        rmdir(state);
    }
    strv_done(&cli.env);
    return r == 0 || err->code ? r : container_trouble(&container_gvisor, buf_str(&said), r < 0 ? r : -EIO, err);
}

size_t runsc_probe(struct engine_state *ret, const char **ret_names, size_t max) {
    struct err err = {0};

    if (max == 0)
        return 0;
    *ret = (struct engine_state){0};
    ret_names[0] = container_gvisor.name;
    if (try_runsc(&err) < 0) {
        snprintf(ret->why, sizeof ret->why, "%.*s", (int)sizeof ret->why - 1, err.msg);
        return 1;
    }
    ret->available = true;
    ret->keeps = (unsigned)BY_ITSELF | limits_here();
    snprintf(ret->why, sizeof ret->why, "gVisor has no control group for processes: an rlimit in it takes its place%s",
             ret->keeps & ENFORCES_MEMORY ? "" : "; there is no control group that limits memory");
    return 1;
}
