/* SPDX-License-Identifier: Apache-2.0 */
/* The part that is the same for every hierarchy; how v1 and v2 are spoken to is in their struct cgroup_ops. */
#include "jail/cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/cgroup/cgroup_priv.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/process.h"

static const char *const kind_names[] = {
    [CGROUP_NONE] = "none", [CGROUP_V1] = "v1", [CGROUP_HYBRID] = "hybrid", [CGROUP_V2] = "v2", [CGROUP_SYSTEMD] = "systemd",
};
static_assert(ARRAY_LEN(kind_names) == CGROUP_KIND_N, "a name for every kind");

const char *cgroup_kind_name(enum cgroup_kind kind) {
    return kind_names[kind];
}

int cgroup_name(char ret[static CGROUP_NAME_MAX], struct err *err) {
    uint64_t start = process_start_time(getpid()), pidns = cgroup_pidns();

    if (!start || !pidns)
        return err_set(err, -ENOSYS, "cannot read /proc/self/stat and /proc/self/ns/pid, which name the run's cgroups");
    snprintf(ret, CGROUP_NAME_MAX, "bawn-%d-%" PRIu64 "-%" PRIu64, (int)getpid(), start, pidns);
    return 0;
}

void cgroup_because(struct cgroup *cg, const char *fmt, ...) {
    va_list ap;

    if (cg->why[0])
        return;
    va_start(ap, fmt);
    if (vsnprintf(cg->why, sizeof cg->why, fmt, ap) < 0)
        cg->why[0] = 0;
    va_end(ap);
}

static uint64_t first_number(const char *text) {
    char *end;
    unsigned long long v;

    if (*text < '0' || *text > '9')
        return UINT64_MAX;
    errno = 0;
    v = strtoull(text, &end, 10);
    return errno ? UINT64_MAX : v;
}

uint64_t cgroup_get(int dir, const char *file, const char *key, uint64_t fallback) {
    uint64_t value;

    return file_number(dir, file, key, &value) == 0 ? value : fallback;
}

/* Writes a limit and reads it back: true if the file now holds at most that much. */
static bool set_limit(struct cgroup *cg, int dir, const char *file, uint64_t value) {
    CLEANUP(closep) int fd = openat(dir, file, O_RDWR | O_CLOEXEC);
    char text[64];
    ssize_t n;

    if (fd < 0) {
        cgroup_because(cg, "%s: %s", file, strerror(errno));
        return false;
    }
    n = snprintf(text, sizeof text, "%" PRIu64, value);
    if (write(fd, text, (size_t)n) != n) {
        cgroup_because(cg, "%s refuses %s: %s", file, text, strerror(errno));
        return false;
    }
    n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    if (first_number(text) <= value)
        return true;
    cgroup_because(cg, "%s does not keep the value %" PRIu64, file, value);
    return false;
}

/* A kernel without swap has no such file, and nothing to limit. */
static bool set_swap(struct cgroup *cg, int dir, const char *file, uint64_t value) {
    if (faccessat(dir, file, F_OK, 0) < 0) {
        if (access("/proc/swaps", F_OK) < 0)
            return true;
        cgroup_because(cg, "%s is missing: this kernel was started without swap accounting (swapaccount=1)", file);
        return false;
    }
    return set_limit(cg, dir, file, value);
}

/* A limit that the machine cannot exceed needs no group: that saves a quarter of the cost of all groups together. */
static bool cpus_moot(const struct limits *l) {
    char text[256];
    const char *last;

    if (fd_read_file_at(AT_FDCWD, "/sys/devices/system/cpu/possible", text, sizeof text) <= 0)
        return false;
    last = text + strlen(text);
    while (last > text && !(last[-1] == '-' || last[-1] == ','))
        last--;
    return first_number(last) < l->cpus_milli / 1000; /* "0-3": four CPUs */
}

static unsigned wanted_controllers(struct cgroup *cg, const struct limits *l) {
    unsigned wanted = (l->cpus_milli ? CGROUP_CPU : 0) | (l->memory ? CGROUP_MEMORY : 0) | (l->pids ? CGROUP_PIDS : 0);

    if (l->cpus_milli && cpus_moot(l)) {
        cg->enforces.cpu = true;
        wanted &= ~(unsigned)CGROUP_CPU;
    }
    return wanted;
}

static int group_add(struct cgroup *cg, const struct cgroup_dir *dir, const char *name, struct err *err) {
    struct cgroup_group *g = &cg->groups[cg->n];
    int n = snprintf(g->path, sizeof g->path, "%s/%s", dir->path, name);

    if (n < 0 || (size_t)n >= sizeof g->path)
        return err_set(err, -ENAMETOOLONG, "the name of the cgroup '%s/%s' is too long", dir->path, name);
    if (mkdir(g->path, 0755) < 0)
        return err_sys(err, -errno, "make the cgroup '%s'", g->path);
    g->unified = dir->unified;
    g->dir = open(g->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    g->enter = openat(g->dir, cgroup_ops_of(g->unified)->enter_file, O_WRONLY | O_CLOEXEC);
    g->controllers = dir->controllers;
    cg->n++;
    if (g->enter < 0)
        return err_sys(err, -errno, "open the cgroup '%s'", g->path);
    return 0;
}

void cgroup_apply(struct cgroup *cg, const struct cgroup_group *g, const struct limits *l) {
    const struct cgroup_ops *ops = cgroup_ops_of(g->unified);

    if (g->controllers & CGROUP_CPU)
        cg->enforces.cpu = ops->apply_cpu(cg, g->dir, l->cpus_milli);
    if (g->controllers & CGROUP_MEMORY) {
        cg->enforces.memory = set_limit(cg, g->dir, ops->memory_max, l->memory);
        cg->enforces.swap = set_swap(cg, g->dir, ops->swap_max, l->swap + (ops->swap_has_memory ? l->memory : 0));
    }
    if (g->controllers & CGROUP_PIDS)
        cg->enforces.pids = set_limit(cg, g->dir, "pids.max", l->pids + CGROUP_OURS);
}

static int create_in(struct cgroup *cg, const struct cgroup_host *host, const struct limits *l, const char *name,
                     struct err *err) {
    unsigned wanted = wanted_controllers(cg, l);
    int r;

    for (unsigned i = 0; i < host->n; i++) {
        const struct cgroup_dir *d = &host->dirs[i];
        const struct cgroup_ops *ops = cgroup_ops_of(d->unified);

        if (!d->unified && !(d->controllers & wanted))
            continue;
        if (ops->prepare)
            ops->prepare(cg, d, d->controllers & wanted);
        r = group_add(cg, d, name, err);
        if (r < 0)
            return r;
        cg->groups[cg->n - 1].controllers &= wanted;
        cg->enforces.kill |= d->unified && faccessat(cg->groups[cg->n - 1].dir, "cgroup.kill", F_OK, 0) == 0;
        cgroup_apply(cg, &cg->groups[cg->n - 1], l);
    }
    return 0;
}

static bool all_enforced(const struct cgroup *cg, const struct limits *l) {
    const struct cgroup_caps *e = &cg->enforces;

    return (!l->cpus_milli || e->cpu) && (!l->memory || (e->memory && e->swap)) && (!l->pids || e->pids);
}

int cgroup_create(struct cgroup *cg, const struct cgroup_host *host, const struct limits *l, const char *name, const char *helper,
                  struct err *err) {
    struct cgroup_host scope;
    int r;

    *cg = (struct cgroup)CGROUP_INIT;
    cg->kind = host->kind;
    if (host->kind == CGROUP_SYSTEMD) {
        if (cgroup_systemd_scope(cg, name, helper)) {
            cgroup_probe(&scope);
            host = &scope;
        } else
            cg->kind = CGROUP_NONE;
    }
    r = create_in(cg, host, l, name, err);
    if (r < 0) {
        cgroup_done(cg);
        return r;
    }
    if (!all_enforced(cg, l))
        cgroup_because(cg, "%s", host->why ? host->why : "the controller is not there");
    return 0;
}

int cgroup_enter(const struct cgroup *cg, bool cloned) {
    for (unsigned i = 0; i < cg->n; i++)
        if (!(cloned && cg->groups[i].unified) && write(cg->groups[i].enter, "0", 1) != 1)
            return -errno;
    return 0;
}

int cgroup_charge(const struct cgroup *cg) {
    for (unsigned i = 0; i < cg->n; i++)
        if (!cg->adopted && cg->groups[i].controllers & (CGROUP_CPU | CGROUP_MEMORY) && write(cg->groups[i].enter, "0", 1) != 1)
            return -errno;
    return 0;
}

int cgroup_clone_fd(const struct cgroup *cg) {
    for (unsigned i = 0; i < cg->n; i++)
        if (cg->groups[i].unified)
            return cg->groups[i].dir;
    return -1;
}

void cgroup_hits(const struct cgroup *cg, struct cgroup_hits *ret) {
    *ret = cg->last_hits;
    if (cg->n)
        *ret = (struct cgroup_hits){.pids = cgroup_pids_hits(cg)};
    for (unsigned i = 0; i < cg->n; i++)
        if (cg->groups[i].controllers & CGROUP_MEMORY)
            ret->oom_kills = cgroup_get(cg->groups[i].dir, cgroup_ops_of(cg->groups[i].unified)->oom_kills, "oom_kill", 0);
}

uint64_t cgroup_pids_hits(const struct cgroup *cg) {
    for (unsigned i = 0; i < cg->n; i++)
        if (cg->groups[i].controllers & CGROUP_PIDS)
            return cgroup_get(cg->groups[i].dir, "pids.events", "max", 0);
    return cg->last_hits.pids;
}

void cgroup_usage(const struct cgroup *cg, struct cgroup_usage *ret) {
    *ret = cg->last_usage;
    for (unsigned i = 0; i < cg->n; i++) {
        const struct cgroup_group *g = &cg->groups[i];
        const struct cgroup_ops *ops = cgroup_ops_of(g->unified);

        if (g->controllers & CGROUP_MEMORY)
            ret->memory_peak = cgroup_get(g->dir, ops->memory_peak, NULL, 0);
        if (g->controllers & CGROUP_PIDS)
            ret->pids_peak = cgroup_get(g->dir, "pids.peak", NULL, 0);
        ops->usage_cpu(g, ret);
    }
}

int cgroup_done(struct cgroup *cg) {
    int r = 0;

    for (unsigned i = cg->n; i-- > 0;) {
        struct cgroup_group *g = &cg->groups[i];
        int one = cg->adopted ? 0 : cgroup_group_remove(g);

        if (r == 0)
            r = one;
        closep(&g->enter);
        closep(&g->dir);
        if (cg->moved && g->unified) {
            *strrchr(g->path, '/') = 0;
            cgroup_v2_restore(g->path);
        }
    }
    *cg = (struct cgroup)CGROUP_INIT;
    return r;
}
