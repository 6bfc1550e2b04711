/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on files, timed from the inside.
 *
 *     io [--warm N] [--times N] read DIR | stat DIR | create DIR N | writers DIR N | overwrite DIR | delete DIR | exec PROGRAM ARG...
 *
 * One process does all repetitions and prints their times in microseconds as a JSON array, so that the start of the
 * sandbox around it does not count. What `exec` runs is timed with its start, outside as well as inside.
 * `writers` is `create` by WRITERS processes at once, N files and a folder each.
 * `create` and `delete` leave nothing to repeat: use them with --warm 0 and --times 1.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "base/opt.h"
#include "base/parse.h"

extern char **environ;

enum { TIMES_MAX = 1000, READ_SIZE = 128 * 1024, WRITE_SIZE = 1024, PER_FOLDER = 100, CREATE_MAX = 10000000, WRITERS = 8 };
enum opt_id { OPT_WARM = 1, OPT_TIMES };

static const struct opt opts[] = {
    {OPT_WARM, 'w', "warm", "N", "repetitions that are not timed, before the others", NULL},
    {OPT_TIMES, 'n', "times", "N", "timed repetitions", NULL},
};

struct work {
    const char *name;
    int (*run)(char **args, struct err *err);
    int n_args; /* at least */
};

/* What a walk does with what it finds. */
struct visit {
    bool look;                                                  /* stat of every entry, like find(1) with a test that needs it */
    int (*file)(int dir_fd, const char *name, struct err *err); /* every regular file */
    int (*folder)(int dir_fd, const char *name, struct err *err); /* every folder, after what is in it */
};

static void closep(int *fd) {
    if (*fd >= 0)
        close(*fd);
}

static void closedirp(DIR **dir) {
    if (*dir)
        closedir(*dir);
}

static int read_file(int dir_fd, const char *name, struct err *err) {
    char data[READ_SIZE];
    CLEANUP(closep) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_sys(err, -errno, "open '%s'", name);
    ssize_t n;
    while ((n = read(fd, data, sizeof(data))) > 0)
        ;
    return n == 0 ? 0 : err_sys(err, -errno, "read '%s'", name);
}

static int write_file(int dir_fd, const char *name, int flags, struct err *err) {
    static const char data[WRITE_SIZE];
    CLEANUP(closep) int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0644);
    if (fd < 0)
        return err_sys(err, -errno, "open '%s'", name);
    return write(fd, data, sizeof(data)) == WRITE_SIZE ? 0 : err_sys(err, -errno, "write '%s'", name);
}

/* Without O_TRUNC: ext4 would begin to write to the disk at close(), and the disk is not what is measured. */
static int overwrite_file(int dir_fd, const char *name, struct err *err) {
    return write_file(dir_fd, name, 0, err);
}

static int delete_file(int dir_fd, const char *name, struct err *err) {
    return unlinkat(dir_fd, name, 0) == 0 ? 0 : err_sys(err, -errno, "remove '%s'", name);
}

static int delete_folder(int dir_fd, const char *name, struct err *err) {
    return unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 ? 0 : err_sys(err, -errno, "remove '%s'", name);
}

static int entry_type(const struct visit *v, int dir_fd, const struct dirent *entry, mode_t *ret, struct err *err) {
    struct stat st;
    if (!v->look && entry->d_type != DT_UNKNOWN) {
        *ret = DTTOIF(entry->d_type);
        return 0;
    }
    if (fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, -errno, "look at '%s'", entry->d_name);
    *ret = st.st_mode & S_IFMT;
    return 0;
}

static int walk(int dir_fd, const struct visit *v, struct err *err);

static int walk_entry(int dir_fd, const struct dirent *entry, const struct visit *v, struct err *err) {
    mode_t type;
    int r = entry_type(v, dir_fd, entry, &type, err);
    if (r < 0)
        return r;
    if (S_ISREG(type))
        return v->file ? v->file(dir_fd, entry->d_name, err) : 0;
    if (!S_ISDIR(type))
        return 0;
    int fd = openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    r = fd < 0 ? err_sys(err, -errno, "open '%s'", entry->d_name) : walk(fd, v, err);
    return r >= 0 && v->folder ? v->folder(dir_fd, entry->d_name, err) : r;
}

/* Takes dir_fd over. */
static int walk(int dir_fd, const struct visit *v, struct err *err) {
    CLEANUP(closedirp) DIR *dir = fdopendir(dir_fd);
    if (!dir) {
        close(dir_fd);
        return err_sys(err, -errno, "list a directory");
    }
    struct dirent *entry;
    int r = 0;
    while (r >= 0 && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = walk_entry(dirfd(dir), entry, v, err);
    return r;
}

static int walk_path(const char *path, const struct visit *v, struct err *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_sys(err, -errno, "open '%s'", path) : walk(fd, v, err);
}

static int work_read(char **args, struct err *err) {
    return walk_path(args[0], &(struct visit){.look = true, .file = read_file}, err);
}

static int work_stat(char **args, struct err *err) {
    return walk_path(args[0], &(struct visit){.look = true}, err);
}

static int work_overwrite(char **args, struct err *err) {
    return walk_path(args[0], &(struct visit){.file = overwrite_file}, err);
}

static int work_delete(char **args, struct err *err) {
    int r = walk_path(args[0], &(struct visit){.file = delete_file, .folder = delete_folder}, err);
    return r < 0 ? r : delete_folder(AT_FDCWD, args[0], err);
}

static int make_folder(int dir_fd, const char *name, int *ret_fd, struct err *err) {
    if (mkdirat(dir_fd, name, 0755) < 0)
        return err_sys(err, -errno, "make the folder '%s'", name);
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_sys(err, -errno, "open '%s'", name);
    *ret_fd = fd;
    return 0;
}

/* One folder of at most PER_FOLDER files. */
static int create_folder(int top, uint64_t number, uint64_t files, struct err *err) {
    char name[32];
    CLEANUP(closep) int fd = -1;
    snprintf(name, sizeof(name), "d%llu", (unsigned long long)number);
    int r = make_folder(top, name, &fd, err);
    for (uint64_t i = 0; r >= 0 && i < files; i++) {
        snprintf(name, sizeof(name), "file%llu.txt", (unsigned long long)i);
        r = write_file(fd, name, O_CREAT | O_EXCL, err);
    }
    return r;
}

static int create_files(const char *dir, uint64_t count, struct err *err) {
    CLEANUP(closep) int top = -1;
    int r = make_folder(AT_FDCWD, dir, &top, err);
    for (uint64_t i = 0; r >= 0 && i < count; i += PER_FOLDER)
        r = create_folder(top, i / PER_FOLDER, MIN_OF(count - i, (uint64_t)PER_FOLDER), err);
    return r;
}

static int work_create(char **args, struct err *err) {
    uint64_t count;
    int r = parse_u64(args[1], 1, CREATE_MAX, &count, err);
    return r < 0 ? r : create_files(args[0], count, err);
}

static int await(pid_t pid, const char *what, struct err *err) {
    int status;
    if (waitpid(pid, &status, 0) < 0)
        return err_sys(err, -errno, "wait for %s", what);
    return status == 0 ? 0 : err_set(err, -EIO, "%s failed with wait status 0x%x", what, (unsigned)status);
}

static _Noreturn void write_as_one(const char *dir, int number, uint64_t count) {
    struct err err = {0};
    char name[4096];
    snprintf(name, sizeof(name), "%s/w%d", dir, number);
    _exit(create_files(name, count, &err) < 0);
}

static int work_writers(char **args, struct err *err) {
    uint64_t count;
    CLEANUP(closep) int top = -1;
    pid_t pids[WRITERS];
    int r = parse_u64(args[1], 1, CREATE_MAX, &count, err), n;
    if (r >= 0)
        r = make_folder(AT_FDCWD, args[0], &top, err);
    for (n = 0; r >= 0 && n < WRITERS; n++) {
        pids[n] = fork();
        if (pids[n] == 0)
            write_as_one(args[0], n, count);
        if (pids[n] < 0)
            return err_sys(err, -errno, "start a writer");
    }
    for (int i = 0; r >= 0 && i < n; i++)
        r = await(pids[i], "a writer", err);
    return r;
}

static int work_exec(char **args, struct err *err) {
    posix_spawn_file_actions_t fa;
    pid_t pid;
    int r = posix_spawn_file_actions_init(&fa);
    if (r != 0)
        return err_sys(err, -r, "prepare a start");
    r = posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawnp(&pid, args[0], &fa, NULL, args, environ);
    posix_spawn_file_actions_destroy(&fa);
    if (r != 0)
        return err_sys(err, -r, "start '%s'", args[0]);
    return await(pid, args[0], err);
}

static const struct work works[] = {
    {"read", work_read, 1},     {"stat", work_stat, 1}, {"create", work_create, 2},   {"overwrite", work_overwrite, 1},
    {"delete", work_delete, 1}, {"exec", work_exec, 1}, {"writers", work_writers, 2},
};

static const struct work *work_find(const char *name) {
    for (size_t i = 0; name && i < ARRAY_LEN(works); i++)
        if (strcmp(works[i].name, name) == 0)
            return &works[i];
    return NULL;
}

static int work_times(const struct work *w, char **args, uint64_t warm, uint64_t times, double *ret_us, struct err *err) {
    for (uint64_t i = 0; i < warm + times; i++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        int r = w->run(args, err);
        if (r < 0)
            return r;
        clock_gettime(CLOCK_MONOTONIC, &to);
        if (i >= warm)
            ret_us[i - warm] = (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;
    }
    return 0;
}

static int fail(const struct err *err) {
    fprintf(stderr, "io: %s\n", err->msg);
    return err_exit_status(err);
}

int main(int argc, char **argv) {
    uint64_t warm = 1, times = 1;
    double us[TIMES_MAX];
    struct err err = {0};
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r;
    while ((r = opt_next(&it, &err)) > 0) {
        r = it.id == OPT_WARM ? parse_u64(it.value, 0, TIMES_MAX, &warm, &err) : parse_u64(it.value, 1, TIMES_MAX, &times, &err);
        if (r < 0)
            break;
    }
    const struct work *w = r < 0 ? NULL : work_find(argv[it.pos]);
    if (r >= 0 && (!w || argc - it.pos - 1 < w->n_args))
        r = err_usage(&err,
                      "usage: io [--warm N] [--times N] read DIR | stat DIR | create DIR N | writers DIR N | overwrite DIR | "
                      "delete DIR | exec PROGRAM ARG...");
    if (r >= 0)
        r = work_times(w, argv + it.pos + 1, warm, times, us, &err);
    if (r < 0)
        return fail(&err);
    for (uint64_t i = 0; i < times; i++)
        printf("%c%.1f", i == 0 ? '[' : ',', us[i]);
    printf("]\n");
    return 0;
}
