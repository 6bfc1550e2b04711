/* SPDX-License-Identifier: Apache-2.0 */
/* Receives a tree in a child that is locked in; its answer comes through a pipe. */
#include "link/tree_fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/fence/caps.h"
#include "jail/fence/cell.h"
#include "jail/fence/landlock.h"
#include "os/fd.h"
#include "os/process.h"

enum { TREE_FILES_MAX = 1024, TREE_MEMORY_MAX = 512 * 1024 * 1024 };

static const uint32_t allowed[] = {
    CELL_CALLS_OF_ITSELF,
    __NR_read,
    __NR_write,
    __NR_readv,
    __NR_writev,
    __NR_recvfrom,
    __NR_recvmsg,
    __NR_sendto,
    __NR_sendmsg,
    __NR_shutdown,
    __NR_close,
    __NR_fcntl,
    __NR_lseek,
    __NR_ftruncate,
    __NR_fallocate,
    __NR_fstat,
    __NR_newfstatat,
    __NR_statx,
    __NR_fstatfs,
    __NR_openat,
    __NR_openat2,
    __NR_mkdirat,
    __NR_linkat,
    __NR_symlinkat,
    __NR_readlinkat,
    __NR_renameat,
    __NR_renameat2,
    __NR_unlinkat,
    __NR_getdents64,
    __NR_fchmod,
    __NR_fchown,
    __NR_fchownat,
    __NR_utimensat,
    __NR_setfsuid,
    __NR_setfsgid,
    __NR_getuid,
    __NR_geteuid,
    __NR_getgid,
    __NR_getegid,
#ifdef __NR_poll
    __NR_poll,
#endif
    __NR_ppoll,
};

static const struct sock_filter arguments[] = {CELL_BEGIN, CELL_NO_EXEC, CELL_NO_NEW_CODE};

static const struct cell_limit limits[] = {
    CELL_MEMORY(TREE_MEMORY_MAX),
    {RLIMIT_NOFILE, TREE_FILES_MAX, TREE_FILES_MAX},
    {RLIMIT_NPROC, 0, 0},
    {RLIMIT_CORE, 0, 0},
};

static int fence(const int *folders, size_t n, struct err *err) {
    const struct landlock_opts opts = {.scope_abstract = true, .scope_signals = true, .deny_tcp = true};
    struct landlock_rule rules[TREE_CELL_FOLDERS_MAX];
    int r;

    if (n > TREE_CELL_FOLDERS_MAX)
        return err_set(err, -E2BIG, "more than %d folders come back from the sandbox", TREE_CELL_FOLDERS_MAX);
    for (size_t i = 0; i < n; i++)
        rules[i] = (struct landlock_rule){.fd = folders[i], .access = LANDLOCK_WRITE};
    r = landlock_restrict(rules, n, &opts, err);
    return r == -EOPNOTSUPP ? 0 : r;
}

int tree_cell_lock(const int *folders, size_t n, struct err *err) {
    const struct cell_filter filter = CELL_FILTER("the receiver of a sandbox's files", arguments, allowed);
    /* For root: what is made belongs to the owner of the folder. */
    const uint32_t wanted = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER;
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(err, -errno, "give up privileges");
    r = caps_reduce(wanted, err);
    r = r < 0 ? r : fence(folders, n, err);
    r = r < 0 ? r : cell_limit(limits, ARRAY_LEN(limits), err);
    return r < 0 ? r : cell_install(&filter, err);
}

/* -- one tree --------------------------------------------------------------------------------------------------------------- */

enum { FETCH_ANSWER = 3, FETCH_SOCKET, FETCH_FOLDER, FETCH_FDS };

/* Nothing of the parent's is left but these three and the standard streams. */
static int keep_descriptors(int answer, int sock, int to) {
    const int from[] = {answer, sock, to};
    int above[ARRAY_LEN(from)];

    for (size_t i = 0; i < ARRAY_LEN(from); i++)
        if ((above[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FETCH_FDS)) < 0)
            return -errno;
    for (size_t i = 0; i < ARRAY_LEN(from); i++)
        if (dup3(above[i], FETCH_ANSWER + (int)i, O_CLOEXEC) < 0)
            return -errno;
    return fd_close_from(FETCH_FDS);
}

static NORETURN void fetch_main(struct tree_io *io, struct transfer *t, int answer, int sock, int to) {
    const int folder = FETCH_FOLDER;
    struct err err = {0};
    int r;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    r = keep_descriptors(answer, sock, to);
    r = r < 0 ? err_sys(&err, r, "close inherited descriptors") : tree_cell_lock(&folder, 1, &err);
    r = r < 0 ? r : tree_ask(FETCH_SOCKET, t, FETCH_FOLDER, &err);
    io->fd = FETCH_ANSWER;
    _exit(tree_answer(io, t, r, &err) < 0);
}

int tree_fetch(int sock, struct transfer *t, int to, struct err *err) {
    CLEANUP(freep) struct tree_io *io = calloc(1, sizeof *io);
    CLEANUP(closep) int ours = -1, theirs = -1;
    int r = io ? fd_pipe(&ours, &theirs) : -ENOMEM;
    pid_t pid = r < 0 ? -1 : fork();

    if (r < 0 || pid < 0)
        return err_sys(err, r < 0 ? r : -errno, "process that receives the files");
    if (pid == 0)
        fetch_main(io, t, theirs, sock, to);
    closep(&theirs);
    io->fd = ours;
    r = tree_read_answer(io, t, err);
    process_wait(pid);
    return r;
}
