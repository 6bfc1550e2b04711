/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/agent/agent_run.h"
#include "ops/notice.h"
#include "os/remove.h"

/* This program once more, in the new folder, where npm runs as any other command does: the package's scripts are not to be trusted. */
static int run_npm(const char *folder, const char *package, struct err *err) {
    char *argv[] = {"bawn",         "run",         "-C",        (char *)(uintptr_t)folder,
                    "--no-secrets", "--ssh-agent", "off",       "--",
                    "npm",          "install",     "--no-fund", "--no-audit",
                    "--prefix",     ".",           NULL,        NULL};
    int status = 0;
    pid_t pid;

    argv[ARRAY_LEN(argv) - 2] = (char *)(uintptr_t)package;
    pid = fork();
    if (pid < 0)
        return err_sys(err, -errno, "start npm");
    if (pid == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO); /* what npm says is no output of ours */
        execv("/proc/self/exe", argv);
        _exit(EXIT_NOTFOUND);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, -errno, "wait for npm");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(err, -EIO, "npm could not install %s (exit status %d)", package,
                   WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* What an install left that was killed: NAME.new-PID, NAME.old-PID. */
static void sweep(const char *all, const char *name) {
    DIR *d = opendir(all);
    size_t n = strlen(name);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        const char *rest = e->d_name + n;
        int pid;

        if (strncmp(e->d_name, name, n) == 0 && (sscanf(rest, ".new-%d", &pid) == 1 || sscanf(rest, ".old-%d", &pid) == 1) &&
            pid > 0 && kill(pid, 0) < 0 && errno == ESRCH)
            remove_tree(dirfd(d), e->d_name);
    }
    if (d)
        closedir(d);
}

static int replace(const char *fresh, const char *folder, struct err *err) {
    CLEANUP(freep) char *old = str_dupf("%s.old-%d", folder, (int)getpid());

    if (!old)
        return err_oom(err);
    if (rename(folder, old) < 0 && errno != ENOENT)
        return err_sys(err, -errno, "move '%s' away", folder);
    if (rename(fresh, folder) < 0) {
        int r = err_sys(err, -errno, "put '%s' in its place", folder);

        rename(old, folder);
        return r;
    }
    remove_tree(AT_FDCWD, old);
    return 0;
}

int agent_install(const struct agent *a, const struct host_facts *facts, const struct notice *n, struct err *err) {
    CLEANUP(freep) char *npm = agent_find_in_path("npm", facts), *all = NULL, *folder = NULL, *fresh = NULL;
    int r;

    if (!a->package)
        return err_usage(err, "%s is no package of npm; install it yourself, so that '%s' is in PATH",
                         a->title ? a->title : a->name, a->command);
    if (!npm)
        return err_set(err, -ENOENT, "npm is not in PATH: install node and npm, or '%s' itself", a->command);
    r = paths_state_if_home(facts->environ_, facts->home, "agents", &all, err);
    if (r < 0 || !all)
        return r < 0 ? r : err_set(err, -ENOENT, "there is no place for it; set HOME or XDG_STATE_HOME");
    folder = str_dupf("%s/%s", all, a->name);
    fresh = str_dupf("%s/%s.new-%d", all, a->name, (int)getpid());
    if (!folder || !fresh)
        return err_oom(err);
    sweep(all, a->name);
    r = paths_make_dirs(fresh, err);
    if (r < 0)
        return r;
    notice_say(n, "installing %s with npm, in a sandbox", a->package);
    r = run_npm(fresh, a->package, err);
    r = r < 0 ? r : replace(fresh, folder, err);
    if (r < 0)
        remove_tree(AT_FDCWD, fresh);
    return r;
}

int agent_install_named(const char *name, const struct notice *n, struct agent *ret, struct err *err) {
    CLEANUP(strv_done) struct strv owned = {0};
    struct host_facts facts;
    int r = host_facts(&facts, &owned, err);

    r = r < 0 ? r : agent_read(name, facts.environ_, facts.home, ret, err);
    if (r == 0)
        return err_usage(err, "there is no agent '%s' (see 'bawn agents')", name);
    return r < 0 ? r : agent_install(ret, &facts, n, err);
}
