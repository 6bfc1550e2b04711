/* SPDX-License-Identifier: Apache-2.0 */
/* One walk over /proc for any number of sandboxes. What belongs to one is what descends from its PID 1: that adopts its orphans, in a pid
 * namespace and as a subreaper. The links of namespaces would say the same, but not of processes that cannot be looked into. */
#include <ctype.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/vec.h"
#include "os/dir.h"
#include "os/fd.h"
#include "registry/usage_priv.h"

enum { WALK_MAX = 512 * 1024, WALK_TEXT_MAX = 1024, NOBODYS = -1, NOT_SEEN = -2 };

struct usage_seen {
    pid_t pid, parent;
    int whose; /* index of the sandbox, NOBODYS, or NOT_SEEN */
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

static void read_all(struct usage_walk *w, struct dir *d) {
    const struct dirent *e;

    while (w->n < WALK_MAX && (e = dir_next(d)) && VEC_ROOM(w->v, w->n) == 0)
        if (isdigit((unsigned char)e->d_name[0]) && read_seen(w->proc, (pid_t)strtol(e->d_name, NULL, 10), &w->v[w->n]))
            w->n++;
}

static struct usage_seen *find(const struct usage_walk *w, pid_t pid) {
    size_t low = 0, high = w->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (w->v[mid].pid < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low < w->n && w->v[low].pid == pid ? &w->v[low] : NULL;
}

/* Climbs until somebody is known, and tells all on the way: a chain of processes, however long, is climbed once. */
static int whose(const struct usage_walk *w, struct usage_seen *s) {
    struct usage_seen *at = s, *next;
    int found = NOBODYS;

    while (at && at->whose == NOT_SEEN) {
        at->whose = NOBODYS; /* ends a circle, which numbers that were given anew meanwhile could make */
        at = find(w, at->parent);
    }
    if (at)
        found = at->whose;
    for (at = s; found != NOBODYS && at && at->whose == NOBODYS; at = next) {
        at->whose = found;
        next = find(w, at->parent);
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

static void add(const struct usage_walk *w, const struct usage_seen *s, const struct usage_of *of) {
    if (of->wants_memory)
        of->usage->memory += anonymous_bytes(w->proc, s->pid);
    if (of->wants_cpu)
        of->usage->cpu_us += s->ticks * (uint64_t)(1000000 / sysconf(_SC_CLK_TCK));
    if (of->wants_pids)
        of->usage->pids += s->threads;
}

/* A sandbox whose PID 1 is not there, or hidden from us, stays unknown. */
static void begin(const struct usage_walk *w, struct usage_of *of, int index) {
    struct usage_seen *init = find(w, of->init);
    struct box_usage *u = of->usage;

    if (!init)
        return;
    init->whose = index;
    of->wants_memory = !u->has_memory;
    of->wants_cpu = !u->has_cpu;
    of->wants_pids = !u->has_pids;
    u->has_memory = u->has_cpu = u->has_pids = true;
}

void usage_walk(struct usage_of *v, size_t n) {
    CLEANUP(walk_done) struct usage_walk w = {.proc = -1};
    CLEANUP(dir_done) struct dir d = DIR_INIT;

    if (n == 0 || dir_open_at(AT_FDCWD, "/proc", &d) < 0)
        return;
    w.proc = d.fd;
    read_all(&w, &d);
    for (size_t i = 0; i < n; i++)
        begin(&w, &v[i], (int)i);
    for (size_t i = 0; i < w.n; i++) {
        int found = w.v[i].whose == NOT_SEEN ? whose(&w, &w.v[i]) : w.v[i].whose;

        if (found != NOBODYS)
            add(&w, &w.v[i], &v[found]);
    }
}
