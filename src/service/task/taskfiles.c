/* SPDX-License-Identifier: Apache-2.0 */
/* Writing, removing, packing and unpacking below the current directory. */
#include "service/task/taskfiles.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/str.h"
#include "jail/fence/landlock.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/safepath.h"
#include "proto/execmsg.h"
#include "service/task/taskfiles_priv.h"
#include "service/task/taskmsg.h"
#include "supervisor/keep/exec_client.h"

enum { COPY_STEP = 128 * 1024 };

/* Where no Landlock is, nothing is done: an archive is written by others. */
static int fence_writes(struct err *err) {
    const struct landlock_rule rules[] = {{.path = ".", .access = LANDLOCK_WRITE}};
    const struct landlock_opts opts = {.scope_abstract = true, .scope_signals = true, .writes_only = true};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, -errno, "no_new_privs");
    return landlock_restrict(rules, ARRAY_LEN(rules), &opts, err);
}

/* The folder above the last part of path, which *ret_name is. */
static int open_parent(const char *path, const char **ret_name, struct err *err) {
    const char *slash = strrchr(path, '/');
    CLEANUP(freep) char *above = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
    int fd = above ? safepath_open(AT_FDCWD, above, O_RDONLY | O_DIRECTORY) : -ENOMEM;

    *ret_name = slash ? slash + 1 : path;
    if (fd >= 0 && (!**ret_name || str_eq(*ret_name, ".") || str_eq(*ret_name, ".."))) {
        close(fd);
        fd = -EINVAL;
    }
    return fd < 0 ? err_sys(err, fd, "open the folder of '%s'", path) : fd;
}

/* Each folder above it: opened, or made in the one before. */
static int make_parents(const char *path, struct err *err) {
    CLEANUP(freep) char *copy = strdup(path);

    if (!copy)
        return err_oom(err);
    for (char *p = copy; (p = strchr(p, '/')); p++) {
        const char *name;
        int parent;

        *p = 0;
        parent = open_parent(copy, &name, err);
        if (parent < 0)
            return parent;
        if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST) {
            close(parent);
            return err_sys(err, -errno, "make '%s'", copy);
        }
        close(parent);
        *p = '/';
    }
    return 0;
}

static int copy_input(int to) {
    CLEANUP(freep) char *part = malloc(COPY_STEP);
    ssize_t n = part ? 1 : -ENOMEM;

    while (n > 0 && (n = fd_read_some(STDIN_FILENO, part, COPY_STEP)) > 0) {
        int r = fd_write_all(to, part, (size_t)n);

        if (r < 0)
            return r;
    }
    return (int)n;
}

/* PATH 0|1: stdin becomes the file, whole or not at all; 1: it may be executed. */
static int files_write(char **args, struct err *err) {
    unsigned char random[8];
    char hex[HEX_SIZE(sizeof random)], temporary[64];
    const char *name;
    CLEANUP(closep) int fd = -1;
    CLEANUP(closep) int parent = -1;
    int r = make_parents(args[0], err);

    if (r < 0 || (parent = open_parent(args[0], &name, err)) < 0)
        return r < 0 ? r : parent;
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_sys(err, -errno, "random bytes");
    hex_encode(random, sizeof random, hex);
    snprintf(temporary, sizeof temporary, ".bawn-%s.new", hex);
    fd = openat(parent, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, -errno, "write '%s'", args[0]);
    r = copy_input(fd);
    r = r < 0                                                                                                 ? r
        : fchmod(fd, str_eq(args[1], "1") ? 0755 : 0644) < 0 || renameat(parent, temporary, parent, name) < 0 ? -errno
                                                                                                              : 0;
    if (r < 0)
        unlinkat(parent, temporary, 0);
    return r < 0 ? err_sys(err, r, "write '%s'", args[0]) : 0;
}

/* PATH: its bytes to stdout. */
static int files_cat(char **args, struct err *err) {
    CLEANUP(closep) int fd = safepath_open(AT_FDCWD, args[0], O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0)
        return err_sys(err, fd, "open '%s'", args[0]);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "'%s' is not a file", args[0]);
    for (;;) {
        char part[COPY_STEP];
        ssize_t n = fd_read_some(fd, part, sizeof part);
        int r = n > 0 ? fd_write_all(STDOUT_FILENO, part, (size_t)n) : (int)n;

        if (n <= 0 || r < 0)
            return r < 0 ? err_sys(err, r, "read '%s'", args[0]) : 0;
    }
}

static int files_delete(char **args, struct err *err) {
    const char *name;
    CLEANUP(closep) int parent = open_parent(args[0], &name, err);
    int r;

    if (parent < 0)
        return parent;
    r = unlinkat(parent, name, 0) == 0 ? 0 : errno == EISDIR || errno == EPERM ? remove_tree(parent, name) : -errno;
    return r < 0 ? err_sys(err, r, "remove '%s'", args[0]) : 0;
}

/* The folder becomes the current one; the fence stays around the workspace. */
static int enter_folder(const char *path, struct err *err) {
    CLEANUP(closep) int fd = safepath_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);

    if (fd < 0 || fchdir(fd) < 0)
        return err_sys(err, fd < 0 ? fd : -errno, "open '%s'", path);
    return 0;
}

static int exec_tar(char *const *argv, struct err *err) {
    static const char *const places[] = {"/usr/bin/tar", "/bin/tar"};

    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        execv(places[i], argv);
    return err_sys(err, -errno, "execute tar");
}

static int files_tar(char **args, struct err *err) {
    char *argv[] = {"tar", "-c", "--one-file-system", "--sort=name", "-f", "-", "--", ".", NULL};
    int r = enter_folder(args[0], err);

    return r < 0 ? r : exec_tar(argv, err);
}

static int files_untar(char **args, struct err *err) {
    char *argv[] = {
        "tar", "-x", "--no-same-owner", "--no-same-permissions", "--no-overwrite-dir", "--delay-directory-restore", "-f",
        "-",   NULL};
    int r = str_eq(args[0], ".") ? 0 : make_parents(args[0], err);

    if (r == 0 && !str_eq(args[0], ".")) {
        const char *name;
        CLEANUP(closep) int parent = open_parent(args[0], &name, err);

        if (parent < 0)
            return parent;
        mkdirat(parent, name, 0755);
    }
    r = r < 0 ? r : enter_folder(args[0], err);
    return r < 0 ? r : exec_tar(argv, err);
}

/* -- verbs -------------------------------------------------------------------------------------------------------------------- */

static const struct files_verb {
    const char *name;
    int n_args; /* at least, for one that starts a program */
    bool fenced;
    int (*perform)(char **args, struct err *err);
} verbs[] = {
    {"--list", 4, true, taskfiles_list},      {"--write", 2, true, files_write},
    {"--delete", 1, true, files_delete},      {"--tar", 1, true, files_tar},
    {"--untar", 1, true, files_untar},        {"--items", 3, false, taskfiles_items},
    {"--expose", 2, false, taskfiles_expose}, {"--cat", 1, true, files_cat},
    {"--source", 1, false, taskfiles_source}, {"--watch", 0, true, taskfiles_watch},
    {"--usage", 0, true, taskfiles_usage},    {"--forget", 0, false, taskfiles_forget},
};

static const struct files_verb *find_verb(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (str_eq(verbs[i].name, name))
            return &verbs[i];
    return NULL;
}

bool taskfiles_knows(const char *verb) {
    return str_eq(verb, "--in") || find_verb(verb) != NULL;
}

/* Root's own sandboxes have other ids, and files that root made there would have no owner. */
static int become_owner(int dir, struct err *err) {
    struct stat st;

    if (geteuid() != 0)
        return 0;
    if (fstat(dir, &st) < 0 || (st.st_uid != 0 && (setgroups(0, NULL) < 0 || setresgid(st.st_gid, st.st_gid, st.st_gid) < 0 ||
                                                   setresuid(st.st_uid, st.st_uid, st.st_uid) < 0)))
        return err_sys(err, -errno, "become the user of the sandbox");
    return 0;
}

/* A sandbox that runs shows its own version of the workspace. One that has stopped meanwhile: as the host has it. */
static int enter_sandbox(const char *sandbox, const char *workspace, struct err *err) {
    CLEANUP(closep) int sock = -1;
    CLEANUP(closep) int dir = -1;
    struct err stopped = {0};
    int r;

    if (exec_connect(environ, NULL, sandbox, &sock, &stopped) < 0)
        return 0;
    r = exec_open(sock, workspace, EXEC_OPEN_FOLDER, &dir, err);
    r = r < 0 ? r : become_owner(dir, err);
    if (r < 0)
        return r;
    return fchdir(dir) < 0 ? err_sys(err, -errno, "enter the workspace of '%s'", sandbox) : 0;
}

/* --in SANDBOX WORKSPACE VERB ...: there instead of in the current directory. */
int taskfiles_main(int argc, char **argv, struct err *err) {
    bool inside = argc > 3 && str_eq(argv[0], "--in");
    const struct files_verb *v = find_verb(argv[inside ? 3 : 0]);
    int r = inside ? enter_sandbox(argv[1], argv[2], err) : 0;

    argc -= inside ? 3 : 0;
    argv += inside ? 3 : 0;
    if (r < 0)
        return r;
    if (!v || argc - 1 < v->n_args || (v->fenced && argc - 1 != v->n_args))
        return err_usage(err, "bawn-task is started by bawnd");
    umask(022);
    r = v->fenced ? fence_writes(err) : 0;
    return r < 0 ? r : v->perform(argv + 1, err);
}

int taskfiles_status(int r) {
    switch (-r) {
    case 0:
        return 0;
    case ENOENT:
    case ENOTDIR:
        return TASK_EXIT_NOT_FOUND;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return TASK_EXIT_FULL;
    case ELOOP:
    case EXDEV:
    case EINVAL:
    case EISDIR:
    case ENOTEMPTY:
    case EEXIST:
    case EACCES:
    case EPERM:
        return TASK_EXIT_REFUSED;
    default:
        return EXIT_SANDBOX;
    }
}
