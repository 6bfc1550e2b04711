/* SPDX-License-Identifier: Apache-2.0 */
/* A workspace and the folder of a run, filled by hand, and change sets as text. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/change/change.h"
#include "workspace/hide/ignore.h"
#include "workspace/run/journal.h"

struct scene {
    char top[32];
    int ws, run;
    struct rundir rd;
    struct ignore *hidden;
    struct change_set set;
};

static inline int scene_make(void **state, enum workspace_mode mode, const char *new_side) {
    struct scene *s = calloc(1, sizeof *s);
    int top;

    snprintf(s->top, sizeof s->top, "/tmp/bawn-test.XXXXXX");
    assert_non_null(mkdtemp(s->top));
    top = open(s->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(top, "ws", 0755), 0);
    assert_int_equal(mkdirat(top, "run", 0755), 0);
    s->ws = openat(top, "ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->run = openat(top, "run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(top);
    if (new_side)
        assert_int_equal(mkdirat(s->run, new_side, 0755), 0);
    s->rd = (struct rundir){.name = (char *)"r", .fd = s->run, .lock = -1, .info = {.mode = mode, .begun_ns = UINT64_MAX}};
    s->set = (struct change_set)CHANGE_SET_INIT;
    *state = s;
    return 0;
}

static inline int scene_rm(const char *path, const struct stat *st UNUSED, int type UNUSED, struct FTW *ftw UNUSED) {
    return remove(path);
}

static inline int scene_remove(void **state) {
    struct scene *s = *state;

    change_set_done(&s->set);
    ignore_free(s->hidden);
    close(s->ws);
    close(s->run);
    nftw(s->top, scene_rm, 32, FTW_DEPTH | FTW_PHYS);
    free(s);
    return 0;
}

static inline void scene_hide(struct scene *s, const char *rules) {
    s->hidden = ignore_new();
    assert_int_equal(ignore_add_file(s->hidden, "", "x", rules, strlen(rules), NULL), 0);
}

/* Makes the folders on the way; the content replaces what was there. */
static inline void put(int root, const char *path, const char *text) {
    char part[PATH_MAX];
    int fd;

    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        mkdirat(root, part, 0755);
    }
    fd = openat(root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static inline void mark(int root, const char *path, const char *name, const char *value) {
    CLEANUP(closep) int fd = openat(root, path, O_RDONLY | O_CLOEXEC);

    assert_int_equal(fsetxattr(fd, name, value, strlen(value), 0), 0);
}

static inline uint64_t ns_of(struct timespec t) {
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* What was made before and what is made after have different times, whatever the clock's step is. */
static inline void begin_run(struct scene *s) {
    const struct timespec step = {.tv_nsec = 30 * 1000 * 1000};
    struct timespec now;

    nanosleep(&step, NULL);
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    s->rd.info.begun_ns = ns_of(now);
    nanosleep(&step, NULL);
}

/* One line per change: A, M, D or R; what differs (c, m, l, t, x); ! the host changed it; ? the old content is not known;
 * h hidden; the path. */
static inline char *listing(struct scene *s) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);
    struct err err = {0};
    int r;

    change_set_done(&s->set);
    r = change_set_make(&s->rd, s->ws, s->hidden, &s->set, &err);
    if (r < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < s->set.n; i++) {
        const struct change *c = &s->set.v[i];

        buf_addc(&b, "AMDR"[c->kind]);
        for (unsigned k = 0; k < 5; k++)
            if (c->what & 1u << k)
                buf_addc(&b, "cmltx"[k]);
        buf_adds(&b, c->host_changed ? "!" : "");
        buf_adds(&b, c->old_unknown ? "?" : "");
        buf_adds(&b, c->hidden ? "h" : "");
        buf_addf(&b, " %s", c->path);
        if (c->from)
            buf_addf(&b, " <- %s", c->from);
        buf_addc(&b, '\n');
    }
    return buf_take(&b);
}

#define expect(s, text)                                  \
    do {                                                 \
        CLEANUP(freep) char *listed = listing(s);        \
        assert_string_equal(listed ? listed : "", text); \
    } while (0)

static inline void expect_content(int fd, const char *text) {
    CLEANUP(closep) int own = fd;
    char buf[256] = {0};

    assert_true(own >= 0);
    assert_true(read(own, buf, sizeof buf - 1) >= 0);
    assert_string_equal(buf, text);
}
