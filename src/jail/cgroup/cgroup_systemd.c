/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups through systemd, for callers that may not make any themselves: the program bawn-scope asks the manager for a
 * transient scope with Delegate=yes around *this process*. Inside it the rules of cgroup_v2.c hold, the limits are set on
 * a group of ours and are read back there. They are not set on the scope: StartTransientUnit reports success also where
 * nothing is enforced, and a memory limit on the scope could kill the supervisor, which is inside, instead of the sandbox.
 *
 * The child of clone cannot be moved this way (it shares memory with its parent, which sleeps), so the parent moves
 * first. systemd removes the scope with everything below it when the last process has left.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "jail/cgroup/cgroup_priv.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"

enum { HELPER_SAYS_MAX = 4096, HELPER_SHOWN_MAX = 120 };

/* Nothing of the caller's environment but the way to its bus: no LD_PRELOAD, no SYSTEMD_*. */
static void helper_env(const char *bus_dir, char runtime[static 256], char bus[static 512], char *env[static 3]) {
    const char *address = getenv("DBUS_SESSION_BUS_ADDRESS");

    snprintf(runtime, 256, "XDG_RUNTIME_DIR=%s", bus_dir);
    env[0] = runtime;
    env[1] = NULL;
    if (address && snprintf(bus, 512, "DBUS_SESSION_BUS_ADDRESS=%s", address) < 512)
        env[1] = bus;
    env[2] = NULL;
}

/* Runs the helper to its end. What it says, if it fails, is the reason. */
static int helper_run(struct cgroup *cg, const char *helper, const char *name, const char *bus_dir) {
    char runtime[256], bus[512], pid[16], unit[CGROUP_NAME_MAX + 8], *env[3];
    char *argv[] = {(char *)"bawn-scope", unit, pid, NULL};
    const struct spawn spawn = {.path = helper, .argv = argv, .envp = env};
    CLEANUP(buf_done) struct buf said = BUF_INIT(HELPER_SAYS_MAX);
    const char *why;
    int r;

    snprintf(pid, sizeof pid, "%d", (int)getpid());
    snprintf(unit, sizeof unit, "%s.scope", name);
    helper_env(bus_dir, runtime, bus, env);
    r = spawn_collect(&spawn, &said, NULL);
    if (r < 0) {
        cgroup_because(cg, "cannot run %s: %s", helper, strerror(-r));
        return r;
    }
    if (process_exit_status(r) == 0)
        return 0;
    why = said.len ? buf_str(&said) : "bawn-scope died";
    cgroup_because(cg, "systemd gives no scope: %.*s", (int)MIN_OF(strcspn(why, "\n"), (size_t)HELPER_SHOWN_MAX), why);
    return -EIO;
}

/* The scope itself belongs to systemd, which removes it as soon as it is empty. */
static int kill_scope(const char *path, bool unified UNUSED) {
    CLEANUP(closep) int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return str_ends(path, ".scope") ? fd_write_file_at(dir, "cgroup.kill", "1") : -EINVAL;
}

/* The kernel says where this process is now; what the manager says proves nothing. */
static bool scope_entered(const char *name, struct cgroup_host *ret) {
    char text[CGROUP_TEXT_MAX], want[CGROUP_NAME_MAX + 16];

    snprintf(want, sizeof want, "/%s.scope\n", name);
    if (fd_read_file_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) <= 0 || !strstr(text, want))
        return false;
    cgroup_locate(ret, "/sys/fs/cgroup", text, NULL);
    return true;
}

int cgroup_systemd_scope(struct cgroup *cg, const char *name, const char *helper) {
    struct cgroup_host here;
    char buf[200];
    const char *bus_dir = cgroup_bus_dir(buf, sizeof buf);

    if (!helper || !bus_dir) {
        cgroup_because(cg, "%s", helper ? "the bus of systemd is gone" : "the program bawn-scope is not installed");
        return 0;
    }
    if (helper_run(cg, helper, name, bus_dir) < 0)
        return 0;
    if (!scope_entered(name, &here)) {
        cgroup_because(cg, "systemd made a scope but did not move this process into it");
        return 0;
    }
    for (unsigned i = 0; i < here.n; i++)
        if (here.dirs[i].unified) {
            *strrchr(here.dirs[i].path, '/') = 0;
            cgroup_scan(here.dirs[i].path, true, kill_scope);
        }
    return 1;
}
