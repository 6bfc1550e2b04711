/* SPDX-License-Identifier: Apache-2.0 */
/* Installs agents. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/agent/agent_run.h"
#include "ops/notice.h"
#include "os/dir.h"
#include "os/process.h"
#include "os/remove.h"
#include "os/spawn.h"

/* This program once more, in the new folder, where npm runs as any other command does: the package's scripts are not to be trusted. */
static int run_npm(const char *folder, const char *package, struct err *err) {
    char *argv[] = {"bawn",         "run",         "-C",        (char *)(uintptr_t)folder,
                    "--no-secrets", "--ssh-agent", "off",       "--",
                    "npm",          "install",     "--no-fund", "--no-audit",
                    "--prefix",     ".",           NULL,        NULL};
    const struct spawn s = {
        .path = "/proc/self/exe",
        .argv = argv,
        .envp = environ,
        .fds = (const int[]){STDIN_FILENO, STDERR_FILENO, STDERR_FILENO}, /* what npm says is no output of ours */
        .n_fds = 3,
        .cwd = SPAWN_CWD_STAY,
        .group = SPAWN_TERMINAL,
        .outlives = true,
        .same_signals = true};
    int status;

    argv[ARRAY_LEN(argv) - 2] = (char *)(uintptr_t)package;
    status = spawn_run(&s);
    if (status < 0)
        return err_sys(err, status, "start npm");
    status = process_exit_status(status);
    return status == 0 ? 0 : err_set(err, -EIO, "npm could not install %s (exit status %d)", package, status);
}

/* What an install left that was killed: NAME.new-PID, NAME.old-PID. */
static void sweep_installs(const char *all, const char *name) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    size_t n = strlen(name);
    const struct dirent *e;

    dir_open_linked(all, &d);
    while ((e = dir_next(&d))) {
        const char *rest = e->d_name + n;
        int pid;

        if (strncmp(e->d_name, name, n) == 0 && (sscanf(rest, ".new-%d", &pid) == 1 || sscanf(rest, ".old-%d", &pid) == 1) &&
            pid > 0 && kill(pid, 0) < 0 && errno == ESRCH)
            remove_tree(d.fd, e->d_name);
    }
}

static int replace_folder(const char *fresh, const char *folder, struct err *err) {
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
    sweep_installs(all, a->name);
    r = paths_make_dirs(fresh, err);
    if (r < 0)
        return r;
    notice_say(n, "installing %s with npm, in a sandbox", a->package);
    r = run_npm(fresh, a->package, err);
    r = r < 0 ? r : replace_folder(fresh, folder, err);
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
