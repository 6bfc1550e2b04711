/* SPDX-License-Identifier: Apache-2.0 */
/* Races against the guard, in C: other languages are too slow to win. race HOW ROUNDS PROTECTED-PATH [CALL | MOVED FIFO] ends with 0 if the
 * protected path was reached, with 3 if not. See test_protect_races.py. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[4096] __attribute__((aligned(4096)));
static const char *evil;
static char safe[256];
static volatile int over;

/* Both have the same length, so that there is never a third path. */
static void *flip(void *arg) {
    (void)arg;
    while (!over) {
        memcpy(path, safe, strlen(safe) + 1);
        memcpy(path, evil, strlen(evil) + 1);
    }
    return NULL;
}

static void on_signal(int sig) {
    static int n;

    (void)sig;
    strcpy(path, n++ % 2 ? safe : evil);
}

static int done(void) {
    struct stat st;
    return lstat(evil, &st) == 0 && (S_ISREG(st.st_mode) ? st.st_size > 0 : 1);
}

static void use(const char *call, int i) {
    char other[64];
    int fd;

    snprintf(other, sizeof other, "scratch/%d.%d", getpid(), i % 8);
    if (!strcmp(call, "open") && (fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0755)) >= 0) {
        if (write(fd, "evil\n", 5) != 5)
            abort();
        close(fd);
    }
    if (!strcmp(call, "legacy") && (fd = syscall(SYS_creat, path, 0755)) >= 0) {
        if (write(fd, "evil\n", 5) != 5)
            abort();
        close(fd);
    }
    if (!strcmp(call, "mkdir"))
        mkdir(path, 0755);
    if (!strcmp(call, "symlink") && symlink("x", path) == 0)
        ;
    if (!strcmp(call, "mknod"))
        mkfifo(path, 0755);
    if (!strcmp(call, "rename") || !strcmp(call, "link")) {
        fd = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0755);
        if (fd < 0 || write(fd, "evil\n", 5) != 5)
            return;
        close(fd);
        if (!strcmp(call, "rename"))
            rename(other, path);
        else if (link(other, path) < 0)
            ;
    }
    if (strcmp(call, "open") && strcmp(call, "legacy") && strcmp(call, "rename"))
        remove(safe);
}

/* A child that asks for the harmless path, and a parent that writes the other one into its memory while it waits. */
static int by_memory(const char *call, int rounds) {
    char *shared = path;
    pid_t pid = fork();

    if (pid == 0) {
        for (int i = 0; i < rounds; i++) {
            strcpy(path, safe);
            use(call, i);
        }
        _exit(0);
    }
    for (;;) {
        struct iovec from = {(void *)evil, strlen(evil) + 1}, to = {shared, strlen(evil) + 1};
        int status;

        if (process_vm_writev(pid, &from, 1, &to, 1, 0) < 0 && errno != ESRCH)
            return 2;
        if (waitpid(pid, &status, WNOHANG) == pid)
            break;
        if (done()) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            break;
        }
    }
    return 0;
}

/* A debugger that changes the call, or the path it names, between entry and kernel. */
static int by_debugger(int rounds) {
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        for (int i = 0; i < 2 * rounds; i++) {
            int fd = i % 2 ? open(safe, O_WRONLY | O_CREAT, 0755)
                           : (int)syscall(SYS_getppid, AT_FDCWD, path, O_WRONLY | O_CREAT, 0755);

            if (fd >= 0) {
                write(fd, "evil\n", 5);
                close(fd);
            }
        }
        _exit(0);
    }
    waitpid(pid, &status, 0);
    ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (int entry = 1;; entry = !entry) {
        struct user_regs_struct regs;

        if (done() || ptrace(PTRACE_SYSCALL, pid, 0, 0) < 0 || waitpid(pid, &status, 0) < 0 || WIFEXITED(status) ||
            WIFSIGNALED(status))
            break;
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80) || ptrace(PTRACE_GETREGS, pid, 0, &regs) < 0 || !entry)
            continue;
        if (regs.orig_rax == SYS_getppid) {
            regs.orig_rax = SYS_openat;
            ptrace(PTRACE_SETREGS, pid, 0, &regs);
        } else if (regs.orig_rax == SYS_openat) {
            struct iovec from = {(void *)evil, strlen(evil) + 1}, to = {path, strlen(evil) + 1};

            process_vm_writev(pid, &from, 1, &to, 1, 0);
            regs.rsi = (unsigned long)path;
            ptrace(PTRACE_SETREGS, pid, 0, &regs);
        }
    }
    return 0;
}

/* An open of a FIFO waits for its other end; meanwhile the name becomes something else. */
static void *wait_at_fifo(void *arg) {
    int fd = open(safe, O_WRONLY | (arg ? O_CREAT : 0), 0755);

    if (fd >= 0 && write(fd, "evil\n", 5) != 5)
        abort();
    if (fd >= 0)
        close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    const char *how = argv[1], *call = argc > 4 ? argv[4] : "";
    int rounds = atoi(argv[2]);
    pthread_t t;

    evil = argv[3];
    snprintf(safe, sizeof safe, "s%*s", (int)strlen(evil) - 1, "");
    memset(safe + 1, 'f', strlen(evil) - 1);
    strcpy(path, evil);
    if (!strcmp(how, "threads")) {
        pthread_create(&t, NULL, flip, NULL);
        for (int i = 0; i < rounds && !done(); i++)
            use(call, i);
        over = 1;
        pthread_join(t, NULL);
    } else if (!strcmp(how, "signals") || !strcmp(how, "restarting")) {
        struct sigaction act = {.sa_handler = on_signal, .sa_flags = !strcmp(how, "restarting") ? SA_RESTART : 0};
        struct itimerval clock = {{0, 150}, {0, 150}}, off = {{0, 0}, {0, 0}};

        strcpy(path, safe);
        sigaction(SIGALRM, &act, NULL);
        setitimer(ITIMER_REAL, &clock, NULL);
        for (int i = 0; i < rounds && !done(); i++)
            use(call, i);
        setitimer(ITIMER_REAL, &off, NULL);
    } else if (!strcmp(how, "memory")) {
        if (by_memory(call, rounds))
            return 2;
    } else if (!strcmp(how, "debugger")) {
        by_debugger(rounds);
    } else if (!strcmp(how, "fifo") || !strcmp(how, "fifo-create")) {
        int create = !strcmp(how, "fifo-create");

        strcpy(safe, argv[5]); /* the FIFO */
        if (mkfifo(safe, 0755) < 0)
            return 2;
        pthread_create(&t, NULL, wait_at_fifo, create ? "" : NULL);
        poll(NULL, 0, 200); /* until it waits; too short a time is only a weaker attack */
        if (unlink(safe) < 0)
            return 2;
        if (create ? mkdir(argv[4], 0755) < 0 : rename(argv[4], safe) < 0)
            return 3;
        poll(NULL, 0, 300); /* until it has looked again */
        if (create)
            chmod(safe, 0644);
        return done() ? 0 : 3;
    }
    return done() ? 0 : 3;
}
