/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast `.sandboxignore` is: the matcher in paths per second, and the search of a tree.
 *
 *     ignore [--patterns 200] [--files 50000] [--per-folder 20] [--rounds 20] [--keep]
 *
 * Makes that many files (up to six folders deep) below the current directory, about one in a hundred of them
 * hidden, and prints the best and the median of the rounds: the machine is noisy, and the page cache warm after the first one.
 * Rules are the built-in ones and, up to the number asked for, a mixture like those of large projects.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/parse.h"
#include "base/strv.h"
#include "os/fd.h"
#include "workspace/hide/defaults.h"
#include "workspace/hide/ignore_scan.h"

enum { OPT_PATTERNS = 1, OPT_FILES, OPT_PER_FOLDER, OPT_ROUNDS, OPT_KEEP, TEXT_MAX = IGNORE_FILE_MAX, ROUNDS_MAX = 10000 };

static const struct opt opts[] = {
    {OPT_PATTERNS, 0, "patterns", "N", "rules in all", NULL},
    {OPT_FILES, 0, "files", "N", "files in the tree", NULL},
    {OPT_PER_FOLDER, 0, "per-folder", "N", "files in one folder", NULL},
    {OPT_ROUNDS, 0, "rounds", "N", "how often", NULL},
    {OPT_KEEP, 0, "keep", NULL, "leave the tree behind", NULL},
};

struct effort {
    uint64_t patterns, files, per_folder, rounds;
    bool keep;
};

static double now(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* One in ten needs a wildcard matcher; the others are names, endings, beginnings and paths. */
static void make_rules(const struct effort *e, struct buf *b) {
    static const char *const kinds[] = {"name%u\n",     "*.ext%u\n",    "out%u/\n",      "/top%u/gen\n", "pre%u*\n",
                                        "gen-*-%u.c\n", "**/cache%u\n", "!keep%u.env\n", "*.tmp%u\n",    "docs%u/**/*.html\n"};

    defaults_text(b);
    for (unsigned i = (unsigned)n_ignore_defaults; i < e->patterns; i++)
        buf_addf(b, kinds[i % ARRAY_LEN(kinds)], i);
}

static void make_paths(const struct effort *e, struct strv *paths) {
    static const char *const names[] = {"main.c", "index.js",  "README.md", "package.json", "util_test.go",
                                        "a.rs",   "style.css", "lib.h",     "Makefile",     "x.py"};

    for (unsigned i = 0; i < e->files; i++) {
        unsigned d = i / (unsigned)e->per_folder;
        int r = i % 100 == 7 ? strv_addf(paths, "src%u/mod%u/pkg%u/.env", d % 20, d / 20 % 20, d)
                : d % 3      ? strv_addf(paths, "src%u/mod%u/pkg%u/%u%s", d % 20, d / 20 % 20, d, i, names[i % 10])
                             : strv_addf(paths, "src%u/mod%u/lib/internal/pkg%u/%u%s", d % 20, d / 20 % 20, d, i, names[i % 10]);

        if (r < 0)
            abort();
    }
}

static int make_file(int top, char *path, struct err *err) {
    CLEANUP(closep) int fd = -1;

    for (char *s = strchr(path, '/'); s; s = strchr(s + 1, '/')) {
        *s = 0;
        if (mkdirat(top, path, 0755) < 0 && errno != EEXIST)
            return err_sys(err, -errno, "mkdir '%s'", path);
        *s = '/';
    }
    fd = openat(top, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd < 0 ? err_sys(err, -errno, "create '%s'", path) : 0;
}

static int remove_tree(int parent, const char *name) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    while (dir && (e = readdir(dir)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlinkat(fd, e->d_name, 0) < 0)
            remove_tree(fd, e->d_name);
    if (dir)
        closedir(dir);
    return unlinkat(parent, name, AT_REMOVEDIR);
}

static void report(const char *what, double *seconds, size_t n, double count, const char *unit) {
    qsort(seconds, n, sizeof *seconds, by_size);
    printf("%-8s best %8.3f ms  median %8.3f ms  %.2f million %s/s\n", what, seconds[0] * 1e3, seconds[n / 2] * 1e3,
           count / seconds[n / 2] / 1e6, unit);
}

static int bench_match(const struct effort *e, const struct buf *rules, const struct strv *paths, double *seconds,
                       struct err *err) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    size_t hidden = 0;
    int r = ig ? ignore_add_file(ig, "", IGNORE_FILE, rules->data, rules->len, err) : err_oom(err);

    if (r < 0)
        return r;
    for (size_t round = 0; round < e->rounds; round++) {
        double start = now();

        for (size_t i = 0; i < paths->len; i++)
            hidden += ignore_match(ig, paths->v[i], false) == IGNORE_EXCLUDED;
        seconds[round] = now() - start;
    }
    report("match", seconds, e->rounds, (double)paths->len, "paths");
    printf("         %zu of %zu hidden\n", hidden / e->rounds, paths->len);
    return 0;
}

static int count(const struct ignore_found *f, void *arg, struct err *err) {
    ++*(size_t *)arg;
    return 0;
}

static int bench_scan(const struct effort *e, int top, double *seconds, struct err *err) {
    size_t hidden = 0;

    for (size_t round = 0; round < e->rounds; round++) {
        CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
        double start = now();
        int r = ig ? ignore_scan(ig, top, count, &hidden, err) : err_oom(err);

        if (r < 0)
            return r;
        seconds[round] = now() - start;
    }
    report("scan", seconds, e->rounds, (double)e->files, "files");
    printf("         %zu hidden\n", hidden / e->rounds);
    return 0;
}

static int bench(const struct effort *e, int top, struct err *err) {
    CLEANUP(buf_done) struct buf rules = BUF_INIT(TEXT_MAX);
    CLEANUP(strv_done) struct strv paths = {0};
    static double seconds[ROUNDS_MAX];
    int r;

    make_rules(e, &rules);
    make_paths(e, &paths);
    if (!buf_ok(&rules))
        return err_oom(err);
    r = bench_match(e, &rules, &paths, seconds, err);
    for (size_t i = 0; r == 0 && i < paths.len; i++)
        r = make_file(top, paths.v[i], err);
    if (r == 0)
        r = make_file(top, (char[]){IGNORE_FILE}, err);
    if (r == 0 && fd_write_file_at(top, IGNORE_FILE, buf_str(&rules)) < 0)
        r = err_set(err, -EIO, "write '" IGNORE_FILE "'");
    return r < 0 ? r : bench_scan(e, top, seconds, err);
}

static int read_options(int argc, char **argv, struct effort *e, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0) {
        int bad = 0;

        switch (it.id) {
        case OPT_PATTERNS:
            bad = parse_u64(it.value, 1, IGNORE_PATTERNS_MAX, &e->patterns, err);
            break;
        case OPT_FILES:
            bad = parse_u64(it.value, 1, 10000000, &e->files, err);
            break;
        case OPT_PER_FOLDER:
            bad = parse_u64(it.value, 1, 100000, &e->per_folder, err);
            break;
        case OPT_ROUNDS:
            bad = parse_u64(it.value, 1, ROUNDS_MAX, &e->rounds, err);
            break;
        case OPT_KEEP:
            e->keep = true;
            break;
        }
        if (bad < 0)
            return bad;
    }
    return r;
}

int main(int argc, char **argv) {
    struct effort e = {.patterns = 200, .files = 50000, .per_folder = 20, .rounds = 20};
    char name[] = "ignore-bench.XXXXXX";
    CLEANUP(closep) int top = -1;
    struct err err = {0};
    int r = read_options(argc, argv, &e, &err);

    if (r == 0 && !mkdtemp(name))
        r = err_sys(&err, -errno, "make a folder here");
    if (r == 0) {
        top = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = bench(&e, top, &err);
        if (!e.keep)
            remove_tree(AT_FDCWD, name);
    }
    if (r < 0)
        log_err(&err);
    return r < 0 ? 1 : 0;
}
