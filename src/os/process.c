#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#include "os/fd.h"

enum { CHILD_STACK = 256 * 1024 };

pid_t process_clone(int (*child)(void *), void *arg, unsigned long flags, int *ret_pidfd) {
    int pidfd = -1, saved;
    pid_t pid;
    char *stack = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);

    if (stack == MAP_FAILED)
        return -errno;
    if (ret_pidfd)
        flags |= CLONE_PIDFD;
    pid = clone(child, stack + CHILD_STACK, (int)(flags | SIGCHLD), arg, ret_pidfd ? &pidfd : NULL);
    saved = errno;
    munmap(stack, CHILD_STACK);
    if (pid < 0)
        return -saved;
    if (ret_pidfd)
        *ret_pidfd = pidfd;
    return pid;
}

uint64_t process_start_time(pid_t pid) {
    char path[32], stat[1024];
    unsigned long long start;
    const char *p;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (fd_read_file_at(AT_FDCWD, path, stat, sizeof stat) <= 0)
        return 0;
    p = strrchr(stat, ')'); /* the name before it may contain anything */
    if (!p || sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &start) != 1)
        return 0;
    return start;
}
