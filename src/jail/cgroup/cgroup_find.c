/* SPDX-License-Identifier: Apache-2.0 */
/* What this host and this user can have: where the caller's own groups are and whether children can be made there. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/str.h"
#include "jail/cgroup/cgroup_priv.h"
#include "os/fd.h"

enum { MOUNTINFO_MAX = 1024 * 1024 }; /* a container host has thousands of lines */

static const struct {
    const char *name;
    unsigned bit;
} controllers[] = {{"cpu", CGROUP_CPU}, {"memory", CGROUP_MEMORY}, {"pids", CGROUP_PIDS}};

unsigned cgroup_controllers_parse(const char *list, char separator) {
    const char stop[] = {separator, '\n', 0};
    unsigned bits = 0;

    while (*list) {
        size_t len = strcspn(list, stop);

        for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
            if (strlen(controllers[i].name) == len && memcmp(controllers[i].name, list, len) == 0)
                bits |= controllers[i].bit;
        list += len;
        list += *list != 0;
    }
    return bits;
}

static const char *next_line(const char *line) {
    const char *end = strchr(line, '\n');

    return end ? end + 1 : NULL;
}

/* One line of /proc/self/cgroup: "4:memory:/a/b", "0::/" */
struct own_line {
    char controllers[128];
    const char *path;
    int path_len;
    unsigned bits;
    bool unified;
};

static bool own_line_parse(const char *line, struct own_line *ret) {
    const char *list = strchr(line, ':');
    const char *path = list ? strchr(list + 1, ':') : NULL;
    size_t len;

    if (!path || (size_t)(path - list - 1) >= sizeof ret->controllers)
        return false;
    len = (size_t)(path - list - 1);
    memcpy(ret->controllers, list + 1, len);
    ret->controllers[len] = 0;
    ret->path = path + 1;
    ret->path_len = (int)strcspn(ret->path, "\n");
    ret->unified = len == 0 && line[0] == '0';
    ret->bits = cgroup_controllers_parse(ret->controllers, ',');
    return ret->unified || ret->bits;
}

static bool dir_add(struct cgroup_host *ret, const struct own_line *own, const char *mount, const char *path, int path_len) {
    struct cgroup_dir *d = &ret->dirs[ret->n];
    struct statfs fs;
    int n;

    if (ret->n == CGROUP_DIRS_MAX)
        return false;
    if (path_len == 1)
        path_len = 0; /* "/": no trailing slash */
    n = snprintf(d->path, sizeof d->path, "%s%.*s", mount, path_len, path);
    if (n < 0 || (size_t)n >= sizeof d->path || statfs(d->path, &fs) < 0)
        return false;
    if (fs.f_type != (own->unified ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC))
        return false;
    d->unified = own->unified;
    d->controllers = own->bits;
    d->enabled = 0;
    ret->n++;
    return true;
}

static bool locate_usual(struct cgroup_host *ret, const struct own_line *own, const char *sysfs) {
    const char *const names[] = {own->unified ? "" : own->controllers, own->unified ? "unified" : NULL};

    for (size_t i = 0; i < ARRAY_LEN(names) && names[i]; i++) {
        char mount[256];
        int n = snprintf(mount, sizeof mount, "%s%s%s", sysfs, *names[i] ? "/" : "", names[i]);

        if (n > 0 && (size_t)n < sizeof mount && dir_add(ret, own, mount, own->path, own->path_len))
            return true;
    }
    return false;
}

/* The part of mountinfo's line that matters: "ID PARENT DEV ROOT MOUNT OPTIONS [TAGS] - TYPE SOURCE SUPER" */
static bool mount_line_fits(const char *line, const struct own_line *own, char root[static 512], char mount[static 512]) {
    char type[16], super[256], copy[2048];
    const char *tail;
    size_t len = strcspn(line, "\n");

    if (len >= sizeof copy)
        return false;
    memcpy(copy, line, len);
    copy[len] = 0;
    tail = strstr(copy, " - cgroup"); /* all but a few lines end here */
    if (!tail || sscanf(tail, " - %15s %*s %255s", type, super) != 2)
        return false;
    if (sscanf(copy, "%*s %*s %*s %511s %511s", root, mount) != 2)
        return false;
    if (own->unified)
        return str_eq(type, "cgroup2");
    return str_eq(type, "cgroup") && (cgroup_controllers_parse(super, ',') & own->bits) == own->bits;
}

/* In a container without a cgroup namespace only a part of the hierarchy is mounted, and the own path starts with it. */
static bool locate_mount(struct cgroup_host *ret, const struct own_line *own, const char *mountinfo) {
    for (const char *line = mountinfo; line && *line; line = next_line(line)) {
        char root[512], mount[512];
        size_t len;

        if (!mount_line_fits(line, own, root, mount))
            continue;
        len = str_eq(root, "/") ? 0 : strlen(root);
        if ((size_t)own->path_len < len || memcmp(own->path, root, len) != 0)
            continue;
        if (own->path[len] != '/' && (size_t)own->path_len != len)
            continue;
        if (dir_add(ret, own, mount, own->path + len, own->path_len - (int)len))
            return true;
    }
    return false;
}

void cgroup_locate(struct cgroup_host *ret, const char *sysfs, const char *cgroup_text, const char *mountinfo_text) {
    ret->n = 0;
    for (const char *line = cgroup_text; line && *line; line = next_line(line)) {
        struct own_line own;

        if (!own_line_parse(line, &own))
            continue;
        if (mountinfo_text)
            locate_mount(ret, &own, mountinfo_text);
        else
            locate_usual(ret, &own, sysfs);
    }
}

/* How many of the hierarchies in /proc/self/cgroup have controllers that matter, and how many were found. */
static bool located_all(const struct cgroup_host *h, const char *cgroup_text) {
    unsigned named = 0, found = 0, unified = 0;

    for (const char *line = cgroup_text; line && *line; line = next_line(line)) {
        struct own_line own;

        if (own_line_parse(line, &own))
            named |= own.bits;
    }
    for (unsigned i = 0; i < h->n; i++) {
        found |= h->dirs[i].controllers;
        unified |= h->dirs[i].unified;
    }
    return named == found && (named || unified);
}

static void locate(struct cgroup_host *ret, const char *cgroup_text) {
    CLEANUP(freep) char *mountinfo = NULL;

    cgroup_locate(ret, "/sys/fs/cgroup", cgroup_text, NULL);
    if (located_all(ret, cgroup_text))
        return;
    mountinfo = malloc(MOUNTINFO_MAX);
    if (mountinfo && fd_read_file_at(AT_FDCWD, "/proc/self/mountinfo", mountinfo, MOUNTINFO_MAX) > 0)
        cgroup_locate(ret, NULL, cgroup_text, mountinfo);
}

static void keep_writable(struct cgroup_host *h) {
    unsigned left = 0;

    for (unsigned i = 0; i < h->n; i++)
        if (faccessat(AT_FDCWD, h->dirs[i].path, W_OK | X_OK, AT_EACCESS) == 0) {
            if (left != i)
                h->dirs[left] = h->dirs[i];
            left++;
        }
    h->n = left;
}

static bool alone_in(int dir) {
    char procs[64], self[16];

    snprintf(self, sizeof self, "%d\n", (int)getpid());
    return fd_read_file_at(dir, "cgroup.procs", procs, sizeof procs) > 0 && str_eq(procs, self);
}

/* Which controllers a new child of this cgroup2 group can have: see the rules at the head of cgroup_v2.c. */
static const char *v2_look(struct cgroup_dir *d) {
    char text[512], *slash = strrchr(d->path, '/');
    CLEANUP(closep) int dir = -1;

    if (slash && str_eq(slash + 1, CGROUP_LEAF))
        *slash = 0;
    dir = open(d->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return "its own cgroup cannot be opened";
    if (fd_read_file_at(dir, "cgroup.subtree_control", text, sizeof text) >= 0)
        d->enabled = cgroup_controllers_parse(text, ' ');
    if (fd_read_file_at(dir, "cgroup.controllers", text, sizeof text) >= 0)
        d->controllers = cgroup_controllers_parse(text, ' ');
    if (!(d->controllers & ~d->enabled))
        return NULL;
    if (faccessat(dir, "cgroup.type", F_OK, 0) < 0 || alone_in(dir))
        return NULL; /* the root group has no type and may hold processes */
    if (slash && *slash == 0)
        return NULL; /* it was moved into the leaf, so the parent holds none */
    d->controllers = d->enabled;
    return "its own cgroup holds other processes, so it cannot hand out controllers";
}

const char *cgroup_bus_dir(char *buf, size_t size) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char socket[256];

    if (geteuid() == 0)
        return access("/run/systemd/system", F_OK) == 0 && access("/run/dbus/system_bus_socket", W_OK) == 0 ? "/run/dbus" : NULL;
    if (runtime && runtime[0] == '/')
        snprintf(buf, size, "%s", runtime);
    else
        snprintf(buf, size, "/run/user/%u", (unsigned)geteuid());
    snprintf(socket, sizeof socket, "%s/bus", buf);
    return access(socket, W_OK) == 0 ? buf : NULL;
}

/* What systemd has to give. A user's manager has what was delegated to user@UID.service. */
static unsigned manager_controllers(void) {
    char path[128] = "/sys/fs/cgroup/cgroup.controllers", text[512];
    unsigned uid = (unsigned)geteuid();

    if (uid)
        snprintf(path, sizeof path, "/sys/fs/cgroup/user.slice/user-%u.slice/user@%u.service/cgroup.controllers", uid, uid);
    if (fd_read_file_at(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    return cgroup_controllers_parse(text, ' ');
}

static void set_can(struct cgroup_host *h, unsigned bits, bool kill) {
    h->can = (struct cgroup_caps){.cpu = bits & CGROUP_CPU,
                                  .memory = bits & CGROUP_MEMORY,
                                  .swap = bits & CGROUP_MEMORY,
                                  .pids = bits & CGROUP_PIDS,
                                  .kill = kill};
}

static const char *v2_look_all(struct cgroup_host *h) {
    for (unsigned i = 0; i < h->n; i++)
        if (h->dirs[i].unified)
            return v2_look(&h->dirs[i]);
    return NULL;
}

static void set_direct(struct cgroup_host *h) {
    unsigned bits = 0, v1 = 0;
    bool unified = false;

    for (unsigned i = 0; i < h->n; i++) {
        unified |= h->dirs[i].unified;
        bits |= h->dirs[i].controllers;
        v1 |= h->dirs[i].unified ? 0 : h->dirs[i].controllers;
    }
    h->kind = !h->n ? CGROUP_NONE : !v1 ? CGROUP_V2 : unified ? CGROUP_HYBRID : CGROUP_V1;
    set_can(h, bits, unified);
}

static bool complete(const struct cgroup_host *h) {
    return h->can.cpu && h->can.memory && h->can.pids;
}

static void set_systemd(struct cgroup_host *h) {
    unsigned bits = manager_controllers();

    if (!bits)
        return;
    h->kind = CGROUP_SYSTEMD;
    h->n = 0;
    set_can(h, bits, true);
}

static void explain(struct cgroup_host *h, const char *v2_why, bool found, bool bus) {
    if (complete(h)) {
        h->why = h->remedy = NULL;
        return;
    }
    if (h->kind == CGROUP_SYSTEMD) {
        h->why = "systemd has not delegated every controller to this user";
        h->remedy = "as root: systemctl edit user@.service, add [Service] Delegate=cpu memory pids, log in again";
    } else if (!found) {
        h->why = "no cgroup file system is mounted";
        h->remedy = "as root: mount -t cgroup2 cgroup2 /sys/fs/cgroup";
    } else if (v2_why) {
        h->why = v2_why;
        h->remedy = "start bawn with: systemd-run --user --scope -p Delegate=yes bawn ...";
    } else if (h->kind != CGROUP_NONE) {
        h->why = "not every controller (cpu, memory, pids) is mounted and writable";
        h->remedy = "as root: give this user a child group in the missing hierarchies";
    } else {
        h->why = bus ? "this user may not make cgroups, and systemd has no controllers to give"
                     : "this user may not make cgroups, and has no systemd session bus";
        h->remedy = "log in through a session of systemd (not su), or have root delegate a group";
    }
}

void cgroup_probe(struct cgroup_host *ret) {
    char text[CGROUP_TEXT_MAX], buf[200];
    const char *v2_why = NULL;
    bool bus = false, found;

    *ret = (struct cgroup_host){.kind = CGROUP_NONE};
    if (fd_read_file_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) > 0)
        locate(ret, text);
    found = ret->n > 0;
    keep_writable(ret);
    set_direct(ret);
    if (!complete(ret)) {
        v2_why = v2_look_all(ret);
        set_direct(ret);
    }
    if (!complete(ret)) {
        bus = cgroup_bus_dir(buf, sizeof buf) != NULL;
        if (bus)
            set_systemd(ret);
    }
    explain(ret, v2_why, found, bus);
}
