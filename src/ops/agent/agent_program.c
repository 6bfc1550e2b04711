/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the programs of agents on the host, and installs them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/agent/agent_run.h"
#include "ops/notice.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/remove.h"
#include "os/spawn.h"

/* -- finding -------------------------------------------------------------------------------------------------------------- */

/* Inside as they are. */
static const char *const shown[] = {"/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/opt/", "/nix/"};

void agent_program_done(struct agent_program *p) {
    free(p->path);
    free(p->interpreter);
    strv_done(&p->mounts);
    *p = (struct agent_program){0};
}

static bool is_below_folder(const char *path, const char *folder) {
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static char *executable(const char *folder, size_t len, const char *name, const char *workspace) {
    char path[PATH_MAX], real[PATH_MAX];
    struct stat st;

    if ((size_t)snprintf(path, sizeof path, "%.*s/%s", (int)len, folder, name) >= sizeof path || !realpath(path, real))
        return NULL;
    if (workspace && is_below_folder(real, workspace))
        return NULL;
    return stat(real, &st) == 0 && S_ISREG(st.st_mode) && access(real, X_OK) == 0 ? strdup(real) : NULL;
}

char *agent_find_in_path(const char *name, const struct host_facts *facts) {
    const char *rest = paths_getenv(facts->environ_, "PATH");
    char *found = NULL;

    while (!found && rest && *rest) {
        size_t len = strcspn(rest, ":");

        if (rest[0] == '/' && !(is_below_folder(rest, facts->workspace)))
            found = executable(rest, len, name, facts->workspace);
        rest += len + (rest[len] == ':');
    }
    return found;
}

static int find_own(const struct agent *a, const struct host_facts *facts, struct agent_program *ret, struct err *err) {
    CLEANUP(freep) char *state = NULL, *leaf = str_dupf("agents/%s/node_modules/.bin", a->name);
    int r = leaf ? paths_state_if_home(facts->environ_, facts->home, leaf, &state, err) : err_oom(err);

    if (r == 0 && state)
        ret->path = executable(state, strlen(state), a->command, NULL);
    ret->own = ret->path != NULL;
    return r;
}

/* "#!/usr/bin/env node" and the like. */
static bool is_node_script(const char *path) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    char line[128];
    ssize_t n = fd < 0 ? -1 : fd_read_some(fd, line, sizeof line - 1);

    if (n < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[n] = 0;
    line[strcspn(line, "\n")] = 0;
    return strstr(line, "node") != NULL;
}

/* A package with all that it requires, which npm puts beside or below it; or the one file. */
static int show_program(struct agent_program *p, const char *path, struct err *err) {
    static const char modules[] = "/node_modules/";
    const char *at = strstr(path, modules);
    CLEANUP(freep) char *part = at ? strndup(path, (size_t)(at - path) + strlen(modules) - 1) : strdup(path);

    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        if (str_starts(path, shown[i]))
            return 0;
    return part && (strv_has(&p->mounts, part) || strv_add(&p->mounts, part) == 0) ? 0 : err_oom(err);
}

int agent_find(const struct agent *a, const struct host_facts *facts, struct agent_program *ret, struct err *err) {
    CLEANUP(agent_program_done) struct agent_program p = {.path = agent_find_in_path(a->command, facts)};
    int r = p.path ? 0 : find_own(a, facts, &p, err);

    if (r == 0 && p.path && is_node_script(p.path)) {
        p.interpreter = agent_find_in_path("node", facts);
        r = p.interpreter ? show_program(&p, p.interpreter, err)
                          : err_set(err, -ENOENT, "%s needs node, which is not in PATH", p.path);
    }
    if (r == 0 && p.path)
        r = show_program(&p, p.path, err);
    if (r == 0)
        *ret = TAKE(p, (struct agent_program){0});
    return r;
}

/* -- installing ----------------------------------------------------------------------------------------------------------- */

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
