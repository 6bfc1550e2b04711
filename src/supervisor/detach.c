/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "config/load/paths.h"
#include "os/fd.h"
#include "supervisor/helper.h"

/* Where a program of this name is; -ENOENT. */
static int find_program(const char *name, char *const *envp, char out[static PATH_MAX]) {
    const char *rest = strchr(name, '/') ? NULL : paths_getenv(envp, "PATH");

    if (!rest) /* a relative path would be looked for in the workspace */
        return name[0] == '/' && (size_t)snprintf(out, PATH_MAX, "%s", name) < PATH_MAX && access(out, X_OK) == 0 ? 0 : -ENOENT;
    while (*rest) {
        size_t len = strcspn(rest, ":");

        if (rest[0] == '/' && (size_t)snprintf(out, PATH_MAX, "%.*s/%s", (int)len, rest, name) < PATH_MAX &&
            access(out, X_OK) == 0)
            return 0;
        rest += len + (rest[len] == ':');
    }
    return -ENOENT;
}

static void NORETURN become_detached(const char *path, char *const *argv, char *const *envp) {
    int null = open("/dev/null", O_RDWR);

    if (setsid() >= 0 && null >= 0 && dup2(null, 0) >= 0 && dup2(null, 1) >= 0 && dup2(null, 2) >= 0 && fd_close_from(3) == 0 &&
        helper_default_signals() == 0 && chdir("/") == 0 && fork() == 0)
        execve(path, argv, envp);
    _exit(0);
}

int detach_start(const char *program, char *const *argv, char *const *envp) {
    char path[PATH_MAX];
    int status, r = find_program(program, envp, path);
    pid_t pid = r < 0 ? -1 : fork();

    if (pid == 0)
        become_detached(path, argv, envp);
    if (r == 0 && pid < 0)
        r = -errno;
    return r < 0 ? r : helper_wait(program, pid, &status, NULL);
}
