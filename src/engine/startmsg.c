/* SPDX-License-Identifier: Apache-2.0 */
/* From the plan to the start message of bawn-init: rlimits, Landlock rules, filter, argv, environment. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "engine/startmsg.h"
#include "jail/fence/seccomp.h"
#include "os/fd.h"
#include "proto/initmsg.h"
#include "workspace/hide/ignore.h"

enum { MSG_RULES_MAX = 192, MSG_RLIMITS_MAX = 8 };

struct start_message {
    struct init_start start;
    struct init_rule rules[MSG_RULES_MAX];
    struct init_rlimit rlimits[MSG_RLIMITS_MAX];
};

static void add_rlimit(struct start_message *m, int resource, uint64_t value) {
    if (m->start.n_rlimits == MSG_RLIMITS_MAX)
        BUG("rlimit table");
    m->rlimits[m->start.n_rlimits++] = (struct init_rlimit){.resource = (uint32_t)resource, .value = value};
}

static int add_rule(struct start_message *m, uint32_t access, bool optional, const char *path, struct err *err) {
    if (m->start.n_rules == MSG_RULES_MAX)
        return err_set(err, -E2BIG, "too many mounts for Landlock (at most %d paths)", MSG_RULES_MAX);
    m->rules[m->start.n_rules++] = (struct init_rule){.access = access, .optional = optional, .path = path};
    return 0;
}

/* What the kernel counts for the user, on the host and inside together: a quarter is the sandbox's, the rest is left to the user's programs. */
static void add_share(struct start_message *m, int resource) {
    struct rlimit now;

    if (getrlimit(resource, &now) == 0 && now.rlim_cur != RLIM_INFINITY)
        add_rlimit(m, resource, now.rlim_cur / 4);
}

/* Limits that the cgroup keeps need no rlimit; those it does not keep get the nearest there is. */
static void make_limits(const struct engine_request *req, const struct cgroup *cg, struct start_message *m) {
    const struct limits *l = &req->plan->limits;

    add_rlimit(m, RLIMIT_CORE, 0); /* a core dump would be handled outside, by the host's core_pattern */
    if (!req->own_kernel) {
        add_share(m, RLIMIT_SIGPENDING);
        add_share(m, RLIMIT_MSGQUEUE);
    }
    if (l->disk)
        add_rlimit(m, RLIMIT_FSIZE, l->disk);
    if (l->pids && !cg->enforces.pids)
        add_rlimit(m, RLIMIT_NPROC, l->pids);
    if (l->memory && !cg->enforces.memory)
        m->start.watch_memory = l->memory; /* no RLIMIT_DATA or _AS: they end programs that only reserve (ASan, Go, Java) */
    if (l->cpus_milli && !cg->enforces.cpu)
        m->start.cpu_affinity = (l->cpus_milli + 999) / 1000;
}

/* Full rung: the mounts are the wall; Landlock says once more what may be written, whatever a descriptor or a magic link
 * leads to. */
static int full_rules(const struct plan *p, struct start_message *m, struct err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];

        if (s->writable &&
            (s->kind == STEP_WORKSPACE || s->kind == STEP_OVERLAY || s->kind == STEP_EXTRA || s->kind == STEP_PRIVATE))
            r = add_rule(m, INIT_ACCESS_WRITE, false, s->to, err);
    }
    if (r == 0 && p->writable_system) /* read-only mounts in there stay read-only */
        return add_rule(m, INIT_ACCESS_WRITE, false, "/", err);
    r = r < 0 ? r : add_rule(m, INIT_ACCESS_WRITE, false, "/dev", err);
    return r < 0 ? r : add_rule(m, INIT_ACCESS_WRITE, false, "/proc", err);
}

/* Sockets of the host's that the guard lets commands connect to, by the path that it sees. */
static int socket_rules(const struct plan *p, struct start_message *m, struct err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];

        if (plan_is_socket(s))
            r = add_rule(m, INIT_ACCESS_SOCKET, false, rung_has_root(p->rung) ? s->to : s->from, err);
    }
    return r;
}

/* Landlock rung: the rules are the wall. The same host parts as in the full rung, and nothing else. */
static const char *const etc_bare[] = {"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf"};

static int bare_rules(const struct plan *p, struct start_message *m, struct err *err) {
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};
    int r = add_rule(m, INIT_ACCESS_READ, false, "/proc", err);

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(devices); i++)
        r = add_rule(m, INIT_ACCESS_WRITE, true, devices[i], err);
    for (size_t i = 0; r >= 0 && i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];

        if (plan_is_socket(s)) /* the guard connects to it, and may not be able to go there */
            continue;
        if (s->kind == STEP_RO)
            r = add_rule(m, INIT_ACCESS_EXEC, true, s->from, err);
        else if (s->kind == STEP_WORKSPACE || s->kind == STEP_EXTRA)
            r = add_rule(m, s->writable ? INIT_ACCESS_WRITE : INIT_ACCESS_EXEC, s->optional, s->from, err);
    }
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(etc_bare); i++)
        r = add_rule(m, INIT_ACCESS_READ, true, etc_bare[i], err);
    r = r < 0 ? r : add_rule(m, INIT_ACCESS_WRITE, false, p->home, err);
    r = r < 0 ? r : add_rule(m, INIT_ACCESS_WRITE, false, p->tmp, err);
    return r < 0 ? r : add_rule(m, INIT_ACCESS_EXEC, false, p->private_dir, err);
}

static const char *search_path(const struct plan *p) {
    for (size_t i = 0; i < p->env.len; i++)
        if (str_starts(p->env.v[i], "PATH="))
            return p->env.v[i] + 5;
    return "";
}

static int to_memfd(const struct init_start *s, int *ret_fd, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(INIT_START_MAX);
    CLEANUP(closep) int fd = memfd_create("bawn-start", MFD_CLOEXEC);
    int r;

    if (fd < 0)
        return err_sys(err, -errno, "memory for the start message");
    if (init_start_encode(s, &b) < 0)
        return err_set(err, -E2BIG, "command line and environment are longer than %d MiB", INIT_START_MAX >> 20);
    r = fd_write_all(fd, b.data, b.len);
    if (r < 0)
        return err_sys(err, r, "write the start message");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* The files that rules were read from, for the guard to compile again. Their bytes stay with `rules`. */
static int add_texts(const struct ignore *rules, struct init_text **ret, size_t *ret_n, struct err *err) {
    const struct ignore_source *src;
    size_t n = 0;

    while (ignore_source(rules, n))
        n++;
    *ret = calloc(n + 1, sizeof **ret);
    if (!*ret)
        return err_oom(err);
    for (*ret_n = 0; (src = ignore_source(rules, *ret_n)); ++*ret_n)
        (*ret)[*ret_n] = (struct init_text){.dir = src->dir, .origin = src->origin, .data = src->data, .len = src->len};
    return 0;
}

static int encode(const struct engine_request *req, struct init_start *s, int *ret_fd, struct err *err) {
    CLEANUP(freep) struct init_text *hide = NULL, *protect = NULL;
    int r = 0;

    if (req->guard >= 0) {
        s->flags |= INIT_FLAG_GUARD;
        s->guard_root = req->plan->workspace;
        r = add_texts(req->hide, &hide, &s->n_hide, err);
        r = r < 0 ? r : add_texts(req->protect, &protect, &s->n_protect, err);
        s->hide = hide;
        s->protect = protect;
    }
    return r < 0 ? r : to_memfd(s, ret_fd, err);
}

/* In the host's network there are the guard's sockets, or none. */
static enum seccomp_variant filter_of(const struct plan *p) {
    if (p->nested)
        return SECCOMP_NESTED;
    return p->rung == RUNG_FULL || (p->rung == RUNG_SHARED_NET && p->network) ? SECCOMP_YARD : SECCOMP_BARE;
}

int startmsg_make(const struct engine_request *req, const struct cgroup *cg, int *ret_fd, struct err *err) {
    const struct plan *p = req->plan;
    struct start_message m = {.start = {.flags = req->resident ? INIT_FLAG_RESIDENT : req->tty,
                                        .umask = p->umask_,
                                        .seccomp = filter_of(p),
                                        .cwd = p->cwd,
                                        .search_path = search_path(p),
                                        .argv = p->argv,
                                        .argc = p->argc,
                                        .envp = p->env.v,
                                        .envc = p->env.len}};
    int r = 0;

    make_limits(req, cg, &m);
    if (p->writable_system || p->nested)
        m.start.flags |= plan_ids_many(&p->ids) ? INIT_FLAG_MANY_IDS : INIT_FLAG_ONE_ID;
    if (p->rung != RUNG_FULL && p->network) {
        m.start.flags |= INIT_FLAG_SOCKETS;
        r = socket_rules(p, &m, err);
    }
    if (r < 0)
        return r;
    if (p->rung == RUNG_LANDLOCK) {
        m.start.flags |= INIT_FLAG_NO_PIDNS;
        m.start.landlock = INIT_LANDLOCK_WALL;
        r = bare_rules(p, &m, err);
    } else if (p->nested) {
        m.start.landlock = p->landlock_abi > 0 ? INIT_LANDLOCK_SCOPES : INIT_LANDLOCK_NONE;
    } else if (p->landlock_abi > 0 || req->elsewhere) {
        m.start.landlock = req->elsewhere ? INIT_LANDLOCK_OFFERED : INIT_LANDLOCK_FENCE;
        r = full_rules(p, &m, err);
    }
    if (r < 0)
        return r;
    m.start.rules = m.rules;
    m.start.rlimits = m.rlimits;
    return encode(req, &m.start, ret_fd, err);
}
