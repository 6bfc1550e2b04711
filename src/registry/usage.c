/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes use: from their control groups, and by one walk over /proc for those that have none. */
#include "registry/usage.h"

#include <ctype.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "base/vec.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"

/* -- the walk ----------------------------------------------------------------------------------------------------------- */

/* What belongs to a sandbox is what descends from its PID 1: that adopts its orphans, in a pid namespace and as a subreaper. The links of
 * namespaces would say the same, but not of processes whose links cannot be read. */
struct usage_of {
    pid_t init; /* PID 1 of the sandbox */
    struct box_usage *usage;
    bool wants_memory, wants_cpu, wants_pids;
};

enum { WALK_MAX = 512 * 1024, WALK_TEXT_MAX = 1024, NO_SANDBOX = -1, NOT_SEEN = -2 };

struct usage_seen {
    pid_t pid, parent;
    int whose; /* index of the sandbox, NO_SANDBOX, or NOT_SEEN */
    unsigned threads;
    unsigned long long ticks; /* of user and kernel, and of the children it has waited for */
};

struct usage_walk {
    int proc;
    struct usage_seen *v; /* by pid: so the kernel lists them */
    size_t n;
};

static void walk_done(struct usage_walk *w) {
    free(w->v);
}

static bool read_seen(int proc, pid_t pid, struct usage_seen *ret) {
    char path[32], text[WALK_TEXT_MAX];
    unsigned long long user, kernel, waited_user, waited_kernel;
    const char *at;

    snprintf(path, sizeof path, "%d/stat", (int)pid);
    if (fd_read_file_at(proc, path, text, sizeof text) <= 0 || !(at = strrchr(text, ')')))
        return false;
    *ret = (struct usage_seen){.pid = pid, .whose = NOT_SEEN};
    if (sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %u", &ret->parent, &user, &kernel,
               &waited_user, &waited_kernel, &ret->threads) != 6)
        return false;
    ret->ticks = user + kernel + waited_user + waited_kernel;
    return true;
}

static int compare_pids(const void *a, const void *b) {
    const struct usage_seen *x = a, *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct usage_seen *find_seen(const struct usage_walk *w, pid_t pid) {
    return w->n ? bsearch(&(struct usage_seen){.pid = pid}, w->v, w->n, sizeof *w->v, compare_pids) : NULL;
}

/* Climbs to a process whose sandbox is known, and marks all on the way: a chain of processes, however long, is climbed once. */
static int whose(const struct usage_walk *w, struct usage_seen *s) {
    struct usage_seen *at = s, *next;
    int found = NO_SANDBOX;

    while (at && at->whose == NOT_SEEN) {
        at->whose = NO_SANDBOX; /* ends a circle, which numbers that were given anew meanwhile could make */
        at = find_seen(w, at->parent);
    }
    if (at)
        found = at->whose;
    for (at = s; found != NO_SANDBOX && at && at->whose == NO_SANDBOX; at = next) {
        at->whose = found;
        next = find_seen(w, at->parent);
    }
    return found;
}

/* Resident pages that are no file's, as bawn-init counts them (init/tree.c). */
static uint64_t anonymous_bytes(int proc, pid_t pid) {
    char path[32], text[256];
    unsigned long resident, shared;

    snprintf(path, sizeof path, "%d/statm", (int)pid);
    if (fd_read_file_at(proc, path, text, sizeof text) <= 0 || sscanf(text, "%*u %lu %lu", &resident, &shared) != 2 ||
        shared > resident)
        return 0;
    return (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void add_use(const struct usage_walk *w, const struct usage_seen *s, const struct usage_of *of) {
    if (of->wants_memory)
        of->usage->memory += anonymous_bytes(w->proc, s->pid);
    if (of->wants_cpu)
        of->usage->cpu_us += s->ticks * (uint64_t)(1000000 / sysconf(_SC_CLK_TCK));
    if (of->wants_pids)
        of->usage->pids += s->threads;
}

/* A sandbox whose PID 1 is not there, or hidden from us, stays unknown. */
static void begin_walk(const struct usage_walk *w, struct usage_of *of, int index) {
    struct usage_seen *init = find_seen(w, of->init);
    struct box_usage *u = of->usage;

    if (!init)
        return;
    init->whose = index;
    of->wants_memory = !u->has_memory;
    of->wants_cpu = !u->has_cpu;
    of->wants_pids = !u->has_pids;
    u->has_memory = u->has_cpu = u->has_pids = true;
}

/* Fills in what is not known of each of them. */
static void usage_walk(struct usage_of *v, size_t n) {
    CLEANUP(walk_done) struct usage_walk w = {.proc = -1};
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    if (n == 0 || dir_open_at(AT_FDCWD, "/proc", &d) < 0)
        return;
    w.proc = d.fd;
    while (w.n < WALK_MAX && (e = dir_next(&d)) && VEC_ROOM(w.v, w.n) == 0)
        if (isdigit((unsigned char)e->d_name[0]) && read_seen(w.proc, (pid_t)strtol(e->d_name, NULL, 10), &w.v[w.n]))
            w.n++;
    for (size_t i = 0; i < n; i++)
        begin_walk(&w, &v[i], (int)i);
    for (size_t i = 0; i < w.n; i++) {
        int found = w.v[i].whose == NOT_SEEN ? whose(&w, &w.v[i]) : w.v[i].whose;

        if (found != NO_SANDBOX)
            add_use(&w, &w.v[i], &v[found]);
    }
}

/* -- control groups ----------------------------------------------------------------------------------------------------- */

/* The names of cgroup2, then those of version 1. */
static void read_group(int dir, struct box_usage *u) {
    uint64_t cpu_ns;

    u->has_memory |= file_number(dir, "memory.current", NULL, &u->memory) == 0 ||
                     file_number(dir, "memory.usage_in_bytes", NULL, &u->memory) == 0;
    u->has_pids |= file_number(dir, "pids.current", NULL, &u->pids) == 0;
    if (file_number(dir, "cpu.stat", "usage_usec", &u->cpu_us) == 0) {
        u->has_cpu = true;
    } else if (file_number(dir, "cpuacct.usage", NULL, &cpu_ns) == 0) {
        u->has_cpu = true;
        u->cpu_us = cpu_ns / 1000;
    }
}

static void read_groups(const struct box_state *s, struct box_usage *ret) {
    *ret = (struct box_usage){0};
    for (size_t i = 0; i < s->cgroups.len; i++) {
        CLEANUP(closep) int dir = open(s->cgroups.v[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (dir >= 0)
            read_group(dir, ret);
    }
}

static bool is_whole(const struct box_usage *u) {
    return u->has_memory && u->has_cpu && u->has_pids;
}

void box_usage(const struct box_state *s, struct box_usage *ret) {
    read_groups(s, ret);
    if (!is_whole(ret) && s->init > 0)
        usage_walk(&(struct usage_of){.init = s->init, .usage = ret}, 1);
}

void box_usage_all(const struct box *v, size_t n, struct box_usage *ret) {
    CLEANUP(freep) struct usage_of *rest = calloc(n + 1, sizeof *rest);
    size_t n_rest = 0;

    for (size_t i = 0; i < n; i++) {
        ret[i] = (struct box_usage){0};
        if (box_look(&v[i], NULL) > BOX_STOPPING)
            continue;
        read_groups(&v[i].state, &ret[i]);
        if (rest && !is_whole(&ret[i]) && v[i].state.init > 0)
            rest[n_rest++] = (struct usage_of){.init = v[i].state.init, .usage = &ret[i]};
    }
    usage_walk(rest, n_rest);
}
