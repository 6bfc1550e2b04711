/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over /proc: only where the kernel does not do it for us (no pid namespace, no memory cgroup). */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "init/init.h"
#include "os/fd.h"

enum { TREE_MAX = 32768 };

struct node {
    pid_t pid, parent;
    bool inside;
};

static int read_parent(pid_t pid, pid_t *ret) {
    char path[32], stat[1024];
    const char *p;
    int parent;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (fd_read_file_at(AT_FDCWD, path, stat, sizeof stat) <= 0)
        return -ESRCH;
    p = strrchr(stat, ')');
    if (!p || sscanf(p + 2, "%*c %d", &parent) != 1)
        return -ESRCH;
    *ret = parent;
    return 0;
}

static size_t read_all(struct node *nodes) {
    DIR *d = opendir("/proc");
    struct dirent *e;
    size_t n = 0;

    while (d && n < TREE_MAX && (e = readdir(d))) {
        pid_t pid;

        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (read_parent(pid, &nodes[n].parent) == 0) {
            nodes[n].pid = pid;
            nodes[n++].inside = false;
        }
    }
    if (d)
        closedir(d);
    return n;
}

/* Marks the descendants of this process; repeats until nothing is added, the order of /proc is no order. */
static size_t mark_descendants(struct node *nodes, size_t n) {
    size_t marked = 0, before;
    pid_t self = getpid();

    do {
        before = marked;
        for (size_t i = 0; i < n; i++) {
            bool found = nodes[i].parent == self;

            for (size_t k = 0; !nodes[i].inside && !found && k < n; k++)
                found = nodes[k].inside && nodes[k].pid == nodes[i].parent;
            if (found && !nodes[i].inside) {
                nodes[i].inside = true;
                marked++;
            }
        }
    } while (marked != before);
    return marked;
}

/* Sends it to all; returns how many there are. */
static size_t signal_all(int sig) {
    static struct node nodes[TREE_MAX]; /* too large for the stack; bawn-init has one thread */
    size_t n = read_all(nodes), found = mark_descendants(nodes, n);

    for (size_t i = 0; sig == SIGKILL && i < n; i++) /* stop all first, so that none can fork away from under us */
        if (nodes[i].inside)
            kill(nodes[i].pid, SIGSTOP);
    for (size_t i = 0; i < n; i++)
        if (nodes[i].inside)
            kill(nodes[i].pid, sig);
    return found;
}

/* One that was forked while we looked is found by the next look, so nothing is waited for without looking again. */
int tree_kill_descendants(void) {
    static const struct timespec moment = {.tv_nsec = 1000000};
    pid_t ended;

    /* Orphans come to us, so that without children there is nothing inside: most commands leave none, and looking at every process is slow. */
    while ((ended = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
        ;
    while (ended == 0 || errno != ECHILD) {
        size_t found = signal_all(SIGKILL);

        while ((ended = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
            ;
        if (found == 0 && ended < 0)
            return 0;
        nanosleep(&moment, NULL);
    }
    return 0;
}

void tree_signal_descendants(int sig) {
    signal_all(sig);
}

static uint64_t anonymous_bytes(pid_t pid) {
    char path[32], statm[256];
    unsigned long resident, shared;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    if (fd_read_file_at(AT_FDCWD, path, statm, sizeof statm) <= 0)
        return 0;
    if (sscanf(statm, "%*u %lu %lu", &resident, &shared) != 2 || shared > resident)
        return 0;
    return (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t tree_memory(bool only_descendants) {
    static struct node nodes[TREE_MAX];
    size_t n = read_all(nodes);
    uint64_t sum = 0;

    if (only_descendants)
        mark_descendants(nodes, n);
    for (size_t i = 0; i < n; i++)
        if (!only_descendants || nodes[i].inside)
            sum += anonymous_bytes(nodes[i].pid);
    return sum;
}

/* A folder's links are its folders, and "." twice. */
size_t tree_tasks(void) {
    DIR *d = opendir("/proc");
    struct dirent *e;
    size_t n = 0;

    while (d && (e = readdir(d))) {
        char path[sizeof e->d_name + 8];
        struct stat st;

        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(path, sizeof path, "%s/task", e->d_name);
        n += fstatat(dirfd(d), path, &st, 0) == 0 && st.st_nlink > 2 ? st.st_nlink - 2 : 1;
    }
    if (d)
        closedir(d);
    return n;
}
