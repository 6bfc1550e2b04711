/*
 * Work on files, timed from the inside.
 *
 *     io [--warm N] [--times N] read DIR | stat DIR | exec PROGRAM ARG...
 *
 * One process does all repetitions and prints their times in microseconds as a JSON array, so that the start of the
 * sandbox around it does not count. What `exec` runs is timed with its start, outside as well as inside.
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

enum { TIMES_MAX = 1000, READ_SIZE = 128 * 1024 };
enum opt_id { OPT_WARM = 1, OPT_TIMES };

static const struct opt opts[] = {
    {OPT_WARM, 'w', "warm", "N", "repetitions that are not timed, before the others", NULL},
    {OPT_TIMES, 'n', "times", "N", "timed repetitions", NULL},
};

struct work {
    const char *name;
    int (*run)(char **args, struct err *err);
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

/* Takes dir_fd over. Looks at every entry like find(1) with a test that needs stat; with `contents`, reads the files too. */
static int walk(int dir_fd, bool contents, struct err *err) {
    CLEANUP(closedirp) DIR *dir = fdopendir(dir_fd);
    if (!dir) {
        close(dir_fd);
        return err_sys(err, -errno, "list a directory");
    }
    struct dirent *entry;
    int r = 0;
    while (r >= 0 && (entry = readdir(dir))) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return err_sys(err, -errno, "look at '%s'", entry->d_name);
        if (S_ISDIR(st.st_mode)) {
            int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
            r = fd < 0 ? err_sys(err, -errno, "open '%s'", entry->d_name) : walk(fd, contents, err);
        } else if (contents && S_ISREG(st.st_mode)) {
            r = read_file(dirfd(dir), entry->d_name, err);
        }
    }
    return r;
}

static int walk_path(const char *path, bool contents, struct err *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_sys(err, -errno, "open '%s'", path) : walk(fd, contents, err);
}

static int work_read(char **args, struct err *err) {
    return walk_path(args[0], true, err);
}

static int work_stat(char **args, struct err *err) {
    return walk_path(args[0], false, err);
}

static int work_exec(char **args, struct err *err) {
    posix_spawn_file_actions_t fa;
    pid_t pid;
    int status, r = posix_spawn_file_actions_init(&fa);
    if (r != 0)
        return err_sys(err, -r, "prepare a start");
    r = posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawnp(&pid, args[0], &fa, NULL, args, environ);
    posix_spawn_file_actions_destroy(&fa);
    if (r != 0)
        return err_sys(err, -r, "start '%s'", args[0]);
    if (waitpid(pid, &status, 0) < 0)
        return err_sys(err, -errno, "wait for '%s'", args[0]);
    return status == 0 ? 0 : err_set(err, -EIO, "'%s' failed with wait status 0x%x", args[0], (unsigned)status);
}

static const struct work works[] = {
    {"read", work_read},
    {"stat", work_stat},
    {"exec", work_exec},
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
    if (r >= 0 && (!w || !argv[it.pos + 1]))
        r = err_usage(&err, "usage: io [--warm N] [--times N] read DIR | stat DIR | exec PROGRAM ARG...");
    if (r >= 0)
        r = work_times(w, argv + it.pos + 1, warm, times, us, &err);
    if (r < 0)
        return fail(&err);
    for (uint64_t i = 0; i < times; i++)
        printf("%c%.1f", i == 0 ? '[' : ',', us[i]);
    printf("]\n");
    return 0;
}
