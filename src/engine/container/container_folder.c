/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of one run on the host:
 *
 *     $XDG_RUNTIME_DIR/bawn/box-<pid>-<start time>.docker/run/...        /run/bawn inside
 *                                                        /run/sock       where bawn-enter connects to
 *                                                        /link/...       our programs, where they are not in the image
 *                                                        /files/N        single files, mounted where they belong
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "engine/container/container.h"
#include "jail/plan/own.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/process.h"
#include "os/remove.h"

static const char prefix[] = "box-";
enum { MACHINE_SIZE = 13, ENGINE_SIZE = 20 };

/* A container that the engine left can only be removed by it: those of the others stay. */
static bool is_dead(const char *name, const char *engine) {
    const char *dot = strchr(name, '.');
    unsigned long long start;
    int pid;

    return str_starts(name, prefix) && dot && str_eq(dot + 1, engine) &&
           sscanf(name + strlen(prefix), "%d-%llu", &pid, &start) == 2 && pid > 0 && process_is_dead(pid, start);
}

static int find_dead(int parent, const char *engine, struct strv *ret) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = dir_open_at(parent, ".", &d);

    while (r >= 0 && (e = dir_next(&d)))
        if (is_dead(e->d_name, engine))
            r = strv_add(ret, e->d_name);
    return r;
}

void container_folder_sweep(const struct container_folder *f) {
    for (size_t i = 0; i < f->dead.len; i++)
        remove_tree(f->parent, f->dead.v[i]);
}

void container_folder_close(struct container_folder *f) {
    char path[80];

    closep(&f->listener);
    snprintf(path, sizeof path, "%s/run/sock", f->name);
    unlinkat(f->parent, path, 0);
}

void container_folder_empty(const struct container_folder *f) {
    static const char *const folders[] = {"link", "run", "files"};
    CLEANUP(closep)
    int folder = f->parent < 0 || !f->name[0] ? -1 : openat(f->parent, f->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    for (size_t i = 0; folder >= 0 && i < ARRAY_LEN(folders); i++)
        remove_tree(folder, folders[i]);
}

void container_folder_done(struct container_folder *f) {
    closep(&f->listener);
    if (f->parent >= 0 && f->name[0] && !f->stays)
        remove_tree(f->parent, f->name);
    closep(&f->parent);
    free(f->path);
    strv_done(&f->dead);
    *f = (struct container_folder)CONTAINER_FOLDER_INIT;
}

static int open_parent(int *ret, struct err *err) {
    CLEANUP(freep) char *path = NULL;
    int r = paths_runtime(environ, &path, err);

    if (r < 0 || !path)
        return r < 0 ? r : err_set(err, -ENOENT, "there is no XDG_RUNTIME_DIR and no home");
    r = paths_open_own(path, true, "they could talk to your sandboxes", err);
    if (r < 0)
        return r;
    *ret = r;
    return 0;
}

/* The parent is the user's alone; these are for a user of the sandbox, which may have another id. */
static int make_folders(const struct container_folder *f) {
    static const char *const folders[] = {"", "/link", "/run", "/files"};
    char path[128];

    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        snprintf(path, sizeof path, "%s%s", f->name, folders[i]);
        if (mkdirat(f->parent, path, 0755) < 0 || fchmodat(f->parent, path, 0755, 0) < 0)
            return -errno;
    }
    return 0;
}

/* By way of /proc, because the path may be longer than an address. */
static int open_listener(struct container_folder *f) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char path[80];

    snprintf(path, sizeof path, "%s/run/sock", f->name);
    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%s", f->parent, path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || fchmodat(f->parent, path, 0666, 0) < 0 || listen(fd, 1) < 0)
        return -errno;
    f->listener = TAKE_FD(fd);
    return 0;
}

/* An engine may be used by several machines, and by containers of one machine: their processes have the same numbers. */
static void name_machine(char ret[static MACHINE_SIZE]) {
    CLEANUP(buf_done) struct buf id = BUF_INIT(256);
    char hex[SHA256_HEX_SIZE], host[HOST_NAME_MAX + 1] = "", space[64] = "";
    struct sha256 h;

    file_read("/etc/machine-id", 0, &id);
    gethostname(host, sizeof host - 1);
    (void)!readlink("/proc/self/ns/pid", space, sizeof space - 1);
    sha256_init(&h);
    sha256_add(&h, buf_str(&id), id.len);
    sha256_add(&h, host, strlen(host));
    sha256_add(&h, space, strlen(space));
    sha256_end_hex(&h, hex);
    snprintf(ret, MACHINE_SIZE, "%.*s", MACHINE_SIZE - 1, hex);
}

int container_label_parse(const char *label, bool remote, int *ret_pid, unsigned long long *ret_start) {
    char ours[MACHINE_SIZE];
    const char *machine = strchr(label, '-');

    machine = machine ? strchr(machine + 1, '-') : NULL;
    name_machine(ours);
    if (machine ? !str_eq(machine + 1, ours) : remote)
        return -EINVAL;
    return sscanf(label, "%d-%llu", ret_pid, ret_start) == 2 && *ret_pid > 0 ? 0 : -EINVAL;
}

/* "docker", or "docker-1a2b3c4d" for one of another machine: what a killed run left can only be removed there. */
static void name_engine(const char *engine, const char *where, char ret[static ENGINE_SIZE]) {
    char hex[SHA256_HEX_SIZE];
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, where, strlen(where));
    sha256_end_hex(&h, hex);
    snprintf(ret, ENGINE_SIZE, "%.10s%s%.*s", engine, *where ? "-" : "", *where ? 8 : 0, hex);
}

int container_folder_make(const char *program, const char *where, struct container_folder *ret, struct err *err) {
    CLEANUP(container_folder_done) struct container_folder f = CONTAINER_FOLDER_INIT;
    CLEANUP(freep) char *parent = NULL;
    char machine[MACHINE_SIZE], engine[ENGINE_SIZE];
    int r = open_parent(&f.parent, err);

    if (r < 0)
        return r;
    name_machine(machine);
    name_engine(program, where, engine);
    r = find_dead(f.parent, engine, &f.dead);
    if (r < 0)
        return err_sys(err, r, "look for what other runs left");
    r = paths_of_fd(f.parent, &parent, err);
    if (r < 0)
        return r;
    snprintf(f.label, sizeof f.label, "%d-%llu", (int)getpid(), (unsigned long long)process_start_time(getpid()));
    snprintf(f.owner, sizeof f.owner, "%.40s-%s", f.label, machine);
    snprintf(f.name, sizeof f.name, "%s%.31s.%s", prefix, f.label, engine);
    f.path = str_dupf("%s/%s", parent, f.name);
    if (!f.path)
        return err_oom(err);
    r = make_folders(&f);
    r = r < 0 ? r : open_listener(&f);
    if (r < 0)
        return err_sys(err, r, "make the folder '%s'", f.path);
    *ret = TAKE(f, (struct container_folder)CONTAINER_FOLDER_INIT);
    return 0;
}

/* With the folders above it. */
static int make_parents(int folder, const char *name) {
    const char *slash = strrchr(name, '/');
    CLEANUP(freep) char *parent = slash ? str_dupf("%.*s", (int)(slash - name), name) : NULL;

    if (!slash)
        return 0;
    return parent ? dir_make(folder, parent, 0755, 0755) : -ENOMEM;
}

static int write_file(int folder, const struct container_file *f) {
    CLEANUP(closep) int fd = -1;
    int r = make_parents(folder, f->name);

    if (r < 0 || f->link)
        return r < 0 ? r : symlinkat(f->content, folder, f->name) < 0 ? -errno : 0;
    fd = openat(folder, f->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    r = fd < 0 ? -errno : fd_write_all(fd, f->content, strlen(f->content));
    return r < 0 ? r : fchmod(fd, f->mode ? f->mode : 0644) < 0 ? -errno : 0;
}

/* /run/bawn is read-only when what is below it is mounted, so the names have to be there. */
static int make_mount_point(int folder, const struct container_mount *m) {
    CLEANUP(freep) char *name = str_dupf("run%s", m->to + strlen(CONTAINER_RUN));
    CLEANUP(closep) int fd = -1;
    struct stat st;
    int r = !name ? -ENOMEM : stat(m->from, &st) < 0 ? -errno : make_parents(folder, name);

    if (r < 0)
        return r;
    if (S_ISDIR(st.st_mode))
        return dir_make(folder, name, 0755, 0755);
    fd = openat(folder, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    return fd < 0 ? -errno : 0;
}

int container_folder_fill(const struct container_folder *f, const struct container_plan *c, bool mounted, struct err *err) {
    CLEANUP(closep) int folder = openat(f->parent, f->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    static const char *const programs[] = {"link/bawn-enter", "link/bawn-init"};
    int r = folder < 0 ? -errno : 0;

    for (size_t i = 0; c->root_programs.len == 0 && r == 0 && i < ARRAY_LEN(programs); i++)
        r = write_file(folder, &(struct container_file){.name = (char *)(uintptr_t)programs[i], .content = ""});
    for (size_t i = 0; r == 0 && i < c->n_files; i++)
        r = c->files[i].in_image ? 0 : write_file(folder, &c->files[i]);
    for (size_t i = 0; mounted && r == 0 && i < c->n_mounts; i++)
        if (path_holds(CONTAINER_RUN, c->mounts[i].to) && !str_eq(CONTAINER_RUN, c->mounts[i].to))
            r = make_mount_point(folder, &c->mounts[i]);
    return r < 0 ? err_sys(err, r, "write the files of the container to '%s'", f->path) : 0;
}

static int give_below(int dir, const char *name, uid_t uid, gid_t gid) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = dir_open_at(dir, name, &d);

    while (r == 0 && (e = dir_next(&d))) {
        int type = dir_type(&d, e);

        r = type == DT_DIR ? give_below(d.fd, e->d_name, uid, gid) : 0;
        if (r == 0 && fchownat(d.fd, e->d_name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
            r = -errno;
        r = r == -ENOENT ? 0 : r; /* another sandbox that shares it removed it */
    }
    return r < 0 ? r : d.error;
}

static int give_tree(const char *path, uid_t uid, gid_t gid) {
    int r = give_below(AT_FDCWD, path, uid, gid);

    return r < 0 ? r : lchown(path, uid, gid) < 0 ? -errno : 0;
}

int container_give(const struct plan *p, const struct container_plan *c, struct err *err) {
    for (size_t i = 0; p->ids.by_root && i < c->n_mounts; i++) {
        const struct container_mount *m = &c->mounts[i];
        int r = m->writable && m->ours ? give_tree(m->from, p->ids.host_uid, p->ids.host_gid) : 0;

        if (r < 0)
            return err_sys(err, r, "give '%s' to the user of the sandbox", m->from);
    }
    return 0;
}

static bool is_last(const struct container_folder *f) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    bool last = dir_open_at(f->parent, ".", &d) == 0;

    while (last && (e = dir_next(&d)))
        last = !str_starts(e->d_name, prefix) || str_eq(e->d_name, f->name);
    return last;
}

void container_take_back(const struct container_folder *f, const struct plan *p, const struct container_plan *c) {
    if (!p->ids.by_root || p->ids.host_uid == p->ids.workspace_uid || !is_last(f))
        return;
    for (size_t i = 0; i < c->n_mounts; i++)
        if (c->mounts[i].writable && c->mounts[i].shared)
            give_tree(c->mounts[i].from, p->ids.workspace_uid, p->ids.workspace_gid);
}
