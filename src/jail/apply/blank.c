/* SPDX-License-Identifier: Apache-2.0 */
/* Makes blanks: namespaces in advance. */
#include "jail/apply/blank.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/apply/jail_apply.h"
#include "os/fd.h"
#include "os/process.h"

static const struct {
    const char *path;
    int type;
} spaces[BLANK_SPACES] = {
    [BLANK_USER] = {"/proc/self/ns/user", CLONE_NEWUSER},
    [BLANK_NET] = {"/proc/self/ns/net", CLONE_NEWNET},
    [BLANK_IPC] = {"/proc/self/ns/ipc", CLONE_NEWIPC},
    [BLANK_UTS] = {"/proc/self/ns/uts", CLONE_NEWUTS},
};

struct blank_making {
    struct launch launch;
    struct blank blank;
};

static int open_spaces(struct blank_making *m) {
    for (size_t i = 0; i < BLANK_SPACES; i++) {
        m->blank.spaces[i] = open(spaces[i].path, O_RDONLY | O_CLOEXEC);
        if (m->blank.spaces[i] < 0)
            return err_sys(&m->launch.err, -errno, "open '%s'", spaces[i].path);
    }
    return 0;
}

/* Shares our memory and descriptors: leaves the namespaces and the listeners behind and is gone. */
static int blank_child(void *arg) {
    struct blank_making *m = arg;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (apply_ids(&m->launch) == 0 && apply_quota(&m->launch) == 0 &&
        network_make(NETWORK_EVERYTHING, &m->blank.listeners, &m->launch.err) == 0)
        open_spaces(m);
    return 0;
}

static int clone_blank(struct blank_making *m, struct err *err) {
    int r = process_clone_run(blank_child, m, CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);

    if (r < 0)
        return err_sys(err, r, "create namespaces");
    if (m->launch.err.code)
        *err = m->launch.err;
    return m->launch.err.code;
}

int blank_make(const struct plan_ids *ids, struct blank *ret, struct err *err) {
    const struct plan plan = {.ids = *ids};
    struct blank_making m = {.launch = {.plan = &plan}, .blank = BLANK_INIT};
    int r;

    prctl(PR_SET_DUMPABLE, 1); /* the child must be able to open its own /proc/self/uid_map */
    r = ids->by_root ? ids_take(ids, err) : 0;
    r = r < 0 ? r : clone_blank(&m, err);
    if (ids->by_root)
        ids_return();
    prctl(PR_SET_DUMPABLE, 0);
    if (r < 0) {
        blank_done(&m.blank);
        return r;
    }
    m.blank.ids = *ids;
    *ret = m.blank;
    return 0;
}

void blank_done(struct blank *b) {
    for (size_t i = 0; i < BLANK_SPACES; i++)
        closep(&b->spaces[i]);
    closep(&b->tree);
    network_done(&b->listeners);
}

/* The user namespace first: it owns the others. */
int blank_enter(const struct blank *b) {
    for (size_t i = 0; i < BLANK_SPACES; i++)
        if (setns(b->spaces[i], spaces[i].type) < 0)
            return -errno;
    return 0;
}
