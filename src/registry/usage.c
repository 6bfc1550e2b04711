#include "registry/usage.h"

#include <fcntl.h>
#include <unistd.h>

#include "os/fd.h"

enum { USAGE_TEXT_MAX = 4096, PROCS_TEXT_MAX = 64 * 1024 };

static bool read_number(int dir, const char *file, const char *key, uint64_t *ret) {
    char text[USAGE_TEXT_MAX];
    const char *at = text;

    if (fd_read_file_at(dir, file, text, sizeof text) <= 0)
        return false;
    if (key) {
        at = strstr(text, key);
        if (!at)
            return false;
        at += strlen(key);
    }
    *ret = strtoull(at, NULL, 10);
    return true;
}

/* The names of cgroup2, then those of version 1. */
static void read_group(int dir, struct box_usage *u) {
    uint64_t v;

    if (read_number(dir, "memory.current", NULL, &v) || read_number(dir, "memory.usage_in_bytes", NULL, &v)) {
        u->has_memory = true;
        u->memory = v;
    }
    if (read_number(dir, "cpu.stat", "usage_usec ", &v)) {
        u->has_cpu = true;
        u->cpu_us = v;
    } else if (read_number(dir, "cpuacct.usage", NULL, &v)) {
        u->has_cpu = true;
        u->cpu_us = v / 1000;
    }
    if (read_number(dir, "pids.current", NULL, &v)) {
        u->has_pids = true;
        u->pids = v;
    }
}

/* User and system time of a process and of the children it has waited for, in clock ticks. */
static uint64_t process_ticks(long pid) {
    char path[48], text[USAGE_TEXT_MAX];
    unsigned long long user = 0, kernel = 0, waited_user = 0, waited_kernel = 0;
    const char *at;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (fd_read_file_at(AT_FDCWD, path, text, sizeof text) <= 0 || !(at = strrchr(text, ')')))
        return 0;
    if (sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &user, &kernel, &waited_user,
               &waited_kernel) != 4)
        return 0;
    return user + kernel + waited_user + waited_kernel;
}

/* Where CPU time is not accounted to the group (version 1 with cpuacct apart): its processes know it, and PID 1 has waited for the
 * rest. */
static void read_processes(int dir, struct box_usage *u) {
    char text[PROCS_TEXT_MAX];
    uint64_t ticks = 0;

    if (fd_read_file_at(dir, "cgroup.procs", text, sizeof text) <= 0)
        return;
    for (char *at = text, *end; *at; at = end + (*end == '\n')) {
        long pid = strtol(at, &end, 10);

        if (end == at)
            break;
        ticks += process_ticks(pid);
    }
    u->has_cpu = true;
    u->cpu_us = ticks * (uint64_t)(1000000 / sysconf(_SC_CLK_TCK));
}

void box_usage(const struct box_state *s, struct box_usage *ret) {
    *ret = (struct box_usage){0};
    for (size_t i = 0; i < s->cgroups.len; i++) {
        CLEANUP(closep) int dir = open(s->cgroups.v[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (dir >= 0)
            read_group(dir, ret);
        if (dir >= 0 && !ret->has_cpu && i + 1 == s->cgroups.len)
            read_processes(dir, ret);
    }
}
