/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ca/nssdb.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "os/remove.h"

static const char program[] = "/usr/bin/certutil", folder[] = "nssdb";
static const char *const files[] = {"cert9.db", "key4.db", "pkcs11.txt"};

/* It gets no environment, no input, nobody listens; it dies with us; and it works in the folder, because it writes the path that it was
 * told into a file that the sandbox sees. */
static void NORETURN become(int dirfd, char *const argv[]) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    char *none[] = {NULL};

    for (int i = 0; i <= STDERR_FILENO; i++)
        if (null < 0 || dup2(null, i) < 0)
            _exit(EXIT_SANDBOX);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && fchdir(dirfd) == 0)
        execve(program, argv, none);
    _exit(EXIT_SANDBOX);
}

static bool runs(int dirfd, char *const argv[]) {
    pid_t pid = fork();
    int status = -1;

    if (pid == 0)
        become(dirfd, argv);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool make(int dirfd) {
    char *create[] = {"certutil", "-N", "-d", "sql:nssdb", "--empty-password", NULL};
    char *add[] = {"certutil", "-A", "-d", "sql:nssdb", "-n", "Bawn sandbox CA", "-t", "C,,", "-i", "ca.pem", NULL};

    if (mkdirat(dirfd, folder, 0755) < 0 || !runs(dirfd, create) || !runs(dirfd, add))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char name[64];

        snprintf(name, sizeof name, "%s/%s", folder, files[i]);
        if (fchmodat(dirfd, name, 0644, 0) < 0)
            return false;
    }
    return true;
}

int nssdb_make(int dirfd, struct err *err) {
    int r;

    if (access(program, X_OK) < 0 || make(dirfd))
        return 0;
    r = remove_tree(dirfd, folder);
    return r < 0 && r != -ENOENT ? err_sys(err, r, "remove a trust store that could not be made") : 0;
}
