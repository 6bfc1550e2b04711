/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for a supervisor on another kernel: a process that has it open, and a socket to that instead of the folder (workspace/copy/treestream.h). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/init.h"
#include "os/fd.h"
#include "workspace/copy/treestream.h"

enum { FD_SOCKET = 3, FD_FOLDER = 4, FD_FREE = 5 };

/* It has our rights, which are those of the commands, and nothing else that is ours. */
static NORETURN void folder_main(int sock, int folder) {
    sigset_t none;

    sock = fcntl(sock, F_DUPFD_CLOEXEC, FD_FREE);
    folder = fcntl(folder, F_DUPFD_CLOEXEC, FD_FREE);
    if (sock < 0 || folder < 0 || dup2(sock, FD_SOCKET) < 0 || dup2(folder, FD_FOLDER) < 0 || fd_close_from(FD_FREE) < 0)
        _exit(EXIT_SANDBOX);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    _exit(tree_serve(FD_SOCKET, FD_FOLDER) < 0 ? EXIT_SANDBOX : 0);
}

bool folder_is(int fd) {
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

int folder_serve(int *fd) {
    CLEANUP(closep) int ours = -1, theirs = -1;
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ours = pair[0];
    theirs = pair[1];
    pid = fork(); /* reaped like everything else */
    if (pid < 0)
        return -errno;
    if (pid == 0)
        folder_main(theirs, *fd);
    closep(fd);
    *fd = TAKE_FD(ours);
    return 0;
}
