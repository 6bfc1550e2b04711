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
#include "base/str.h"
#include "jail/apply/jail_apply.h"
#include "os/fd.h"
#include "os/mountapi.h"
#include "os/process.h"
#include "proto/cursor.h"

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

static int build(struct template_making *m, const struct plan *plan, struct err *err) {
    struct launch *l = &m->launch;
    int r;

    l->plan = plan;
    l->root_fd = l->cover.dir = l->cover.file = -1;
    l->trees = calloc(plan->n_steps + 1, sizeof *l->trees);
    if (!l->trees)
        return err_oom(err);
    for (size_t i = 0; i < plan->n_steps; i++)
        l->trees[i] = -1;
    prctl(PR_SET_DUMPABLE, 1); /* the child must be able to open its own /proc/self/uid_map */
    r = process_clone_run(make_child, m, CLONE_NEWUSER | CLONE_NEWNS);
    prctl(PR_SET_DUMPABLE, 0);
    free(TAKE_PTR(l->trees));
    closep(&l->cover.dir);
    closep(&l->cover.file);
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
    int r = process_clone_run(clone_child, &c, 0);

    return r < 0 ? r : c.tree;
}

/* -- templates as bytes: the size of the root, then steps one after another, each with its strings ----------------- */

struct template_head {
    uint64_t private_size;
    uint32_t n_steps, unused;
};

struct template_record {
    uint16_t kind, optional;
    uint32_t mode, to, from; /* lengths; from: NO_STRING if there is none */
};
#define NO_STRING UINT32_MAX

/* Private areas come one after another (plan_root.c), so that this need not look at all steps for each of them. */
bool template_leaves(const struct plan *p, const char *path) {
    size_t i = 0;

    while (i < p->n_steps && p->steps[i].kind != STEP_PRIVATE)
        i++;
    for (; i < p->n_steps && p->steps[i].kind == STEP_PRIVATE; i++)
        if (str_below(path, p->steps[i].to))
            return true;
    return false;
}

static bool is_made_before(enum step_kind kind) {
    return kind == STEP_DIR || kind == STEP_SYMLINK || kind == STEP_FILE || kind == STEP_RO;
}

bool template_holds(const struct plan *p, const struct step *s) {
    return s->kind == STEP_DEVICE || (is_made_before(s->kind) && !s->ours && !template_leaves(p, s->to));
}

/* An overlay needs a place for its layers, a persistent home is checked step by step. What is `ours` differs from run to run, and only its place
 * is made in advance. */
static bool can_have(const struct plan *p) {
    size_t groups = 0;

    if (p->ids.by_root || p->rung != RUNG_FULL || p->mode == WORKSPACE_OVERLAY || p->home_persistent)
        return false;
    for (size_t i = 0; i < p->n_steps; i++) {
        if (p->steps[i].tracked.n || p->steps[i].at_home)
            return false;
        groups += p->steps[i].kind == STEP_PRIVATE && (i == 0 || p->steps[i - 1].kind != STEP_PRIVATE);
    }
    return groups == 1;
}

static void add_step(struct buf *out, const struct step *s, uint32_t *n) {
    struct template_record r = {.kind = (uint16_t)s->kind,
                                .optional = s->optional,
                                .mode = s->mode,
                                .to = (uint32_t)strlen(s->to),
                                .from = s->from ? (uint32_t)strlen(s->from) : NO_STRING};

    buf_add(out, &r, sizeof r);
    buf_add(out, s->to, r.to + 1);
    if (s->from)
        buf_add(out, s->from, r.from + 1);
    ++*n;
}

/* Places for what is mounted later, in the form of the steps that make them. */
static void add_point(struct buf *out, const struct plan *p, const struct step *s, uint32_t *n) {
    struct step point = {.kind = STEP_DIR, .to = s->to};
    struct stat st;

    if (s->kind != STEP_PRIVATE && s->kind != STEP_WORKSPACE && s->kind != STEP_EXTRA && !s->ours)
        return;
    if (template_leaves(p, s->to))
        return;
    if ((s->kind == STEP_EXTRA || s->ours) && stat(s->from, &st) == 0 && !S_ISDIR(st.st_mode)) {
        point.kind = STEP_FILE;
        point.from = "";
        point.mode = 0444;
    }
    add_step(out, &point, n);
}

void template_describe(const struct plan *p, struct buf *out) {
    struct template_head head = {.private_size = p->private_size};

    if (!can_have(p))
        return;
    buf_add(out, &head, sizeof head);
    for (size_t i = 0; i < p->n_steps; i++)
        add_point(out, p, &p->steps[i], &head.n_steps);
    for (size_t i = 0; i < p->n_steps; i++)
        if (template_holds(p, &p->steps[i]))
            add_step(out, &p->steps[i], &head.n_steps);
    if (buf_ok(out) && out->len <= TEMPLATE_MAX && head.n_steps <= TEMPLATE_STEPS_MAX)
        memcpy(out->data, &head, sizeof head);
    else
        buf_clear(out);
}

static int take_string(struct cursor *in, uint32_t len, const char **ret) {
    *ret = len == NO_STRING ? NULL : cursor_string(in);
    return len == NO_STRING || (*ret && strlen(*ret) == len) ? 0 : -EBADMSG;
}

/* The strings stay where they are. */
static int take_step(struct cursor *in, struct step *ret) {
    struct template_record r;
    struct step s;
    int failed = cursor_take(in, &r, sizeof r);

    if (failed)
        return failed;
    s = (struct step){.kind = r.kind, .optional = r.optional != 0, .mode = r.mode & 07777};
    if (take_string(in, r.to, &s.to) < 0 || take_string(in, r.from, &s.from) < 0)
        return -EBADMSG;
    if ((!is_made_before(s.kind) && s.kind != STEP_DEVICE) || !s.to || s.to[0] != '/' || (!s.from && s.kind != STEP_DIR))
        return -EBADMSG;
    *ret = s;
    return 0;
}

int template_read(const char *bytes, size_t len, struct plan *ret, struct err *err) {
    struct cursor in = {bytes, len};
    struct plan p = {.rung = RUNG_FULL};
    struct template_head head;
    int r = len > TEMPLATE_MAX ? -EBADMSG : cursor_take(&in, &head, sizeof head);

    if (r == 0 && head.n_steps > TEMPLATE_STEPS_MAX)
        r = -EBADMSG;
    for (uint32_t i = 0; r == 0 && i < head.n_steps; i++) {
        struct step s;

        r = take_step(&in, &s);
        if (r == 0)
            plan_add(&p, s);
    }
    if (r == 0 && (in.left || p.failed))
        r = p.failed ? -ENOMEM : -EBADMSG;
    if (r < 0) {
        plan_done(&p);
        return err_set(err, r, "what a template is made of is not understood");
    }
    p.private_size = head.private_size;
    *ret = p;
    return 0;
}

int template_each_source(const char *bytes, size_t len, int (*fn)(void *arg, const char *path), void *arg) {
    CLEANUP(plan_done) struct plan p = {0};
    int r = template_read(bytes, len, &p, NULL);

    for (size_t i = 0; r == 0 && i < p.n_steps; i++)
        if (p.steps[i].kind == STEP_RO) /* devices are the kernel's own, and what comes and goes beside them does not matter */
            r = fn(arg, p.steps[i].from);
    return r;
}
