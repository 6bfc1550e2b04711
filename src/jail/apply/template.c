/* SPDX-License-Identifier: Apache-2.0 */
/* Makes templates: mount trees in advance. */
#include "jail/apply/template.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/apply/jail_apply.h"
#include "jail/apply/template_priv.h"
#include "os/fd.h"
#include "os/mountapi.h"
#include "os/process.h"

struct template_making {
    struct launch launch;
    struct template t;
};

static int open_space(const char *path, int *ret, struct err *err) {
    *ret = open(path, O_RDONLY | O_CLOEXEC);
    return *ret < 0 ? err_sys(err, -errno, "open '%s'", path) : 0;
}

/* Shares our memory and descriptors. The host's tree is let go of at the end, so that nothing but what is shown stays busy. */
static int make_child(void *arg) {
    struct template_making *m = arg;
    struct launch *l = &m->launch;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (apply_ids(l) == 0 && apply_template(l) == 0 && open_space("/proc/self/ns/user", &m->t.user, &l->err) == 0 &&
        open_space("/proc/self/ns/mnt", &m->t.mnt, &l->err) == 0)
        apply_enter(l);
    return 0;
}

static int wait_for(pid_t pid) {
    if (pid < 0)
        return pid;
    while (syscall(SYS_wait4, pid, NULL, 0, NULL) < 0 && errno == EINTR)
        ;
    return 0;
}

static int build(struct template_making *m, const struct plan *plan, struct err *err) {
    struct launch *l = &m->launch;
    int r;

    l->plan = plan;
    l->root_fd = l->empty_dir = l->empty_file = -1;
    l->trees = calloc(plan->n_steps + 1, sizeof *l->trees);
    if (!l->trees)
        return err_oom(err);
    for (size_t i = 0; i < plan->n_steps; i++)
        l->trees[i] = -1;
    prctl(PR_SET_DUMPABLE, 1); /* the child must be able to open its own /proc/self/uid_map */
    r = wait_for(process_clone(make_child, m, CLONE_NEWUSER | CLONE_NEWNS | CLONE_VM | CLONE_VFORK | CLONE_FILES, NULL));
    prctl(PR_SET_DUMPABLE, 0);
    free(TAKE_PTR(l->trees));
    closep(&l->empty_dir);
    closep(&l->empty_file);
    m->t.root = l->root_fd;
    if (r < 0)
        return err_sys(err, r, "create namespaces");
    if (l->err.code)
        *err = l->err;
    return l->err.code;
}

int template_make(const char *bytes, size_t len, struct template *ret, struct err *err) {
    CLEANUP(plan_done) struct plan plan = {0};
    CLEANUP(template_done) struct template t = TEMPLATE_INIT;
    struct template_making m = {.t = TEMPLATE_INIT};
    int r = template_read(bytes, len, &plan, err);

    if (r < 0)
        return r;
    plan.ids = (struct plan_ids){.inside_uid = geteuid(), .host_uid = geteuid(), .inside_gid = getegid(), .host_gid = getegid()};
    r = build(&m, &plan, err);
    t = m.t;
    if (r < 0)
        return r;
    t.bytes = malloc(len);
    if (!t.bytes)
        return err_oom(err);
    memcpy(t.bytes, bytes, len);
    t.len = len;
    *ret = TAKE(t, (struct template)TEMPLATE_INIT);
    return 0;
}

void template_done(struct template *t) {
    free(TAKE_PTR(t->bytes));
    closep(&t->root);
    closep(&t->mnt);
    closep(&t->user);
}

struct cloning {
    const struct template *t;
    int tree;
};

/* Only who is in the tree's own namespaces may copy it. */
static int clone_child(void *arg) {
    struct cloning *c = arg;

    if (setns(c->t->user, CLONE_NEWUSER) < 0 || setns(c->t->mnt, CLONE_NEWNS) < 0)
        c->tree = -errno;
    else
        c->tree = mount_clone(c->t->root, "", true);
    return 0;
}

int template_clone(const struct template *t) {
    struct cloning c = {.t = t, .tree = -EIO};
    int r = wait_for(process_clone(clone_child, &c, CLONE_VM | CLONE_VFORK | CLONE_FILES, NULL));

    return r < 0 ? r : c.tree;
}
