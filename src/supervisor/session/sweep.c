/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what killed processes of ours left. */
#include "supervisor/session/sweep.h"
#include "config/load/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "engine/private_dir.h"
#include "jail/cgroup/cgroup.h"
#include "jail/plan/plan.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/remove.h"
#include "registry/registry.h"
#include "registry/running.h"
#include "supervisor/clone/clone_box.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_client.h"
#include "supervisor/helper.h"
#include "workspace/run/rundir.h"

enum { LOOKS_PER_S = 50, DUE_MAX_S = 60 };

static const char socket_suffix[] = ".sock", groups_root[] = "/sys/fs/cgroup/", due_name[] = "swept";

struct sweep_state {
    bool look;
    const char *boxes; /* path of the registry; NULL: none */
    int registry;      /* the same, open; -1: there is none */
    struct swept n;
    unsigned looked; /* at so many sockets */
};

typedef void sweep_fn(struct sweep_state *s, int dir, const char *name);

static void each_name(struct sweep_state *s, int dir, sweep_fn *fn) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    dir_open_at(dir, ".", &d);
    while ((e = dir_next(&d))) {
        fn(s, dir, e->d_name);
        s->looked++;
    }
}

/* -- sockets ------------------------------------------------------------------------------------------------------------ */

/* The number at the beginning of a name; 0: none that is a pid. */
static pid_t pid_of(const char *name) {
    unsigned long n = 0;

    for (; *name >= '0' && *name <= '9' && n < INT_MAX / 10; name++)
        n = n * 10 + (unsigned long)(*name - '0');
    return (pid_t)n;
}

static bool unlink_socket(const struct sweep_state *s, int dir, const char *name) {
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        return false;
    return s->look || unlinkat(dir, name, 0) == 0;
}

/*
 * PID.sock of control.c. While the pid is there it is not asked: with hundreds of keepers each start would wake them all. A supervisor
 * in another pid namespace has a pid that is not there, but answers. ".PID.sock" is one that was not ready yet.
 */
static void sweep_control(struct sweep_state *s, int dir, const char *name) {
    bool unready = name[0] == '.' && control_is_name(name + 1);

    if (helper_owner_is_dead(name, "in-")) /* sockets that a supervisor showed inside (inside_sockets.c) */
        s->n.folders += s->look || remove_tree(dir, name) == 0;
    if ((unready || control_is_name(name)) && process_is_dead(pid_of(name + unready), 0) &&
        control_is_stale(dir, name, SOCK_STREAM))
        s->n.sockets += unlink_socket(s, dir, name);
}

/* -- persistent sandboxes ----------------------------------------------------------------------------------------------------- */

int sweep_groups(const struct box *b) {
    int n = 0;

    for (size_t i = 0; i < b->state.cgroups.len; i++) {
        const char *path = b->state.cgroups.v[i], *slash = strrchr(path, '/');

        if (str_starts(path, groups_root) && !strstr(path, "/../") && str_starts(slash, "/bawn-"))
            n += rmdir(path) == 0;
    }
    return n;
}

/* box/NAME.sock. Its lock is ours meanwhile, so that no keeper of that name makes a new one just now. */
static void sweep_box(struct sweep_state *s, int dir, const char *file) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    size_t len = strlen(file), end = len > strlen(socket_suffix) ? len - strlen(socket_suffix) : 0;
    char name[NAME_MAX + 1];
    int r;

    if (end == 0 || !str_ends(file, socket_suffix))
        return;
    snprintf(name, sizeof name, "%.*s", (int)end - (file[0] == '.'), file + (file[0] == '.'));
    if (box_check_name(name, NULL) < 0 || (s->registry >= 0 && registry_is_alive(s->registry, name)) ||
        !control_is_stale(dir, file, SOCK_SEQPACKET))
        return;
    r = s->boxes ? registry_open(s->boxes, name, true, &b, NULL) : -ENOENT;
    if (r < 0 && r != -ENOENT)
        return;
    if (r == 0 && !s->look)
        s->n.groups += sweep_groups(&b);
    s->n.sockets += unlink_socket(s, dir, file);
}

/* Hidden names are no sandboxes. */
static void sweep_checkpoints(struct sweep_state *s, int boxes, const char *name) {
    if (name[0] != '.')
        s->n.checkpoints += checkpoints_sweep(boxes, name);
}

/* -- when -------------------------------------------------------------------------------------------------------------- */

/* The file's time is when it is due again. One that is far off was made by another clock. */
static bool is_due(int runtime) {
    struct timespec now;
    struct stat st;

    clock_gettime(CLOCK_REALTIME, &now);
    return fstatat(runtime, due_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_mtim.tv_sec <= now.tv_sec ||
           st.st_mtim.tv_sec > now.tv_sec + DUE_MAX_S;
}

static void set_due(int runtime, unsigned looked) {
    unsigned seconds = MIN_OF(looked / LOOKS_PER_S, (unsigned)DUE_MAX_S);
    CLEANUP(closep)
    int fd = seconds ? openat(runtime, due_name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600) : -1;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {0}};

    clock_gettime(CLOCK_REALTIME, &times[1]);
    times[1].tv_sec += seconds;
    if (fd >= 0)
        futimens(fd, times);
}

/* -- all ---------------------------------------------------------------------------------------------------------------- */

static void sweep_runtime(struct sweep_state *s, char *const *environ_) {
    CLEANUP(freep) char *path = NULL;
    CLEANUP(closep) int dir = -1, box = -1;

    if (paths_runtime(environ_, &path, NULL) < 0 || !path)
        return;
    dir = control_own_folder(AT_FDCWD, path);
    box = dir < 0 ? -1 : control_own_folder(dir, "box");
    each_name(s, dir, sweep_control);
    each_name(s, box, sweep_box);
    if (!s->look && dir >= 0)
        set_due(dir, s->looked);
}

void sweep_private(char *const *environ_, const char *home) {
    CLEANUP(freep) char *place = NULL;

    private_dir_sweep(NULL);
    if (paths_state_if_home(environ_, home, PLAN_PRIVATE, &place, NULL) == 0 && place)
        private_dir_sweep(place);
}

void sweep_stale(char *const *environ_, const char *home, bool look, struct swept *ret) {
    CLEANUP(freep) char *boxes = NULL, *runs = NULL;
    CLEANUP(closep) int registry = -1;
    struct cgroup_host host;
    struct sweep_state s = {.look = look};

    if (registry_folder(environ_, home, &boxes, NULL) == 0 && boxes)
        registry = control_own_folder(AT_FDCWD, boxes);
    s.boxes = registry >= 0 ? boxes : NULL;
    s.registry = registry;
    sweep_runtime(&s, environ_);
    if (!look) {
        CLEANUP(box_list_done) struct box_list runs_now = {0};

        running_list(environ_, &runs_now, NULL); /* removes what the dead left there */
        cgroup_probe(&host);
        s.n.groups += cgroup_sweep(&host);
        sweep_private(environ_, home);
        s.n.sandboxes = s.boxes ? registry_sweep(s.boxes) : 0;
        each_name(&s, registry, sweep_checkpoints);
        if (rundir_folder(environ_, home, &runs, NULL) == 0)
            rundir_sweep(runs);
    }
    if (ret)
        *ret = s.n;
}

void sweep_if_due(char *const *environ_, const char *home) {
    CLEANUP(freep) char *path = NULL;
    CLEANUP(closep) int runtime = -1;

    if (paths_runtime(environ_, &path, NULL) == 0 && path)
        runtime = control_own_folder(AT_FDCWD, path);
    if (runtime < 0 || is_due(runtime))
        sweep_stale(environ_, home, false, NULL);
}
