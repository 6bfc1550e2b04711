/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of place and sync: two trees, host/ and run/tree/, in a folder of their own that is removed with all in it. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "os/fd.h"
#include "workspace/copy/walk.h"

struct sides {
    char top[64];
    int top_fd, host, run;
};

static inline int sides_remove_one(const char *path, const struct stat *st UNUSED, int type UNUSED, struct FTW *ftw UNUSED) {
    return remove(path);
}

/* nftw() knows no path longer than PATH_MAX, the walker no tree deeper than WALK_DEPTH_MAX: together they get all. */
static inline int sides_drop(const struct walk_entry *e, UNUSED void *arg, UNUSED struct err *err) {
    unlinkat(e->dir, e->name, S_ISDIR(e->st.st_mode) ? AT_REMOVEDIR : 0);
    return WALK_ON;
}

static inline int sides_open_one(const char *path, const struct stat *st, int type UNUSED, struct FTW *ftw UNUSED) {
    if (S_ISDIR(st->st_mode) && (st->st_mode & 0700) != 0700)
        return chmod(path, 0700);
    return 0;
}

static inline int sides_setup(void **state) {
    struct sides *s = calloc(1, sizeof *s);

    snprintf(s->top, sizeof s->top, "/tmp/bawn-sides.XXXXXX");
    if (!mkdtemp(s->top))
        return -1;
    s->top_fd = open(s->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mkdirat(s->top_fd, "host", 0755) < 0 || mkdirat(s->top_fd, "run", 0700) < 0)
        return -1;
    s->host = openat(s->top_fd, "host", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->run = openat(s->top_fd, "run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = s;
    return 0;
}

static inline int sides_teardown(void **state) {
    struct sides *s = *state;

    const struct walk_ops ops = {.found = sides_drop, .left = sides_drop, .pry = true};

    walk_tree(s->top_fd, NULL, &ops, NULL);
    close(s->host);
    close(s->run);
    close(s->top_fd);
    nftw(s->top, sides_open_one, 16, FTW_PHYS);
    nftw(s->top, sides_remove_one, 16, FTW_PHYS | FTW_DEPTH);
    free(s);
    return 0;
}

/* Paths are below the top: "host/a", "run/tree/a". */
static inline void sides_write(const struct sides *s, const char *path, const char *text) {
    CLEANUP(closep) int fd = openat(s->top_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static inline void sides_mkdir(const struct sides *s, const char *path) {
    assert_int_equal(mkdirat(s->top_fd, path, 0755), 0);
}

static inline bool sides_has(const struct sides *s, const char *path) {
    return faccessat(s->top_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline struct stat sides_stat(const struct sides *s, const char *path) {
    struct stat st;

    if (fstatat(s->top_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        fail_msg("%s is not there", path);
    return st;
}

static inline void sides_expect(const struct sides *s, const char *path, const char *text) {
    char data[4096];
    ssize_t n = fd_read_file_at(s->top_fd, path, data, sizeof data);

    if (n < 0)
        fail_msg("%s is not there", path);
    assert_string_equal(data, text);
}

static inline void sides_expect_link(const struct sides *s, const char *path, const char *target) {
    char data[4096] = {0};

    if (readlinkat(s->top_fd, path, data, sizeof data - 1) < 0)
        fail_msg("%s is no link", path);
    assert_string_equal(data, target);
}
