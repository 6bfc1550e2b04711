/* SPDX-License-Identifier: Apache-2.0 */
/* Applying in a scene of test_change.h: outcomes and whole trees as text. */
#pragma once

#include <dirent.h>

#include "base/strv.h"
#include "test_change.h"
#include "workspace/apply/apply.h"

static inline int overlay_scene(void **state) {
    int r = scene_make(state, WORKSPACE_OVERLAY, "upper");
    struct scene *s = *state;

    s->rd.path = s->top;
    return r;
}

static inline int upper_of(const struct scene *s) {
    return openat(s->run, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static inline void put_whiteout(int root, const char *path) {
    assert_int_equal(mknodat(root, path, S_IFCHR | 0600, makedev(0, 0)), 0);
}

static inline void look_at_run(struct scene *s) {
    struct err err = {0};

    change_set_done(&s->set);
    if (change_set_make(&s->rd, s->ws, s->hidden, &s->set, &err) < 0)
        fail_msg("%s", err.msg);
}

/* One line per change: outcome, path. */
static inline char *apply_text(struct scene *s, const struct apply_opts *opts) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);
    CLEANUP(apply_result_done) struct apply_result result = {0};
    struct err err = {0};

    look_at_run(s);
    if (apply_changes(&s->rd, &s->set, s->ws, opts, &result, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < result.n; i++)
        buf_addf(&b, "%s %s\n", apply_outcome_names[result.v[i].outcome], result.v[i].change->path);
    buf_adds(&b, result.conflicts ? "(nothing done)\n" : "");
    return buf_take(&b);
}

#define expect_apply(s, opts, text)                         \
    do {                                                    \
        CLEANUP(freep) char *applied = apply_text(s, opts); \
        assert_string_equal(applied ? applied : "", text);  \
    } while (0)

static inline int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void list_tree(int dir, const char *prefix, struct strv *out) {
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fdopendir(fd);
    struct dirent *e;

    while ((e = readdir(d))) {
        CLEANUP(closep) int sub = -1;
        char text[256] = "", path[PATH_MAX];
        struct stat st;

        if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
            continue;
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "/" : "", e->d_name);
        assert_int_equal(fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW), 0);
        if (S_ISREG(st.st_mode))
            assert_true(fd_read_file_at(dir, e->d_name, text, sizeof text) >= 0);
        if (S_ISLNK(st.st_mode))
            assert_true(readlinkat(dir, e->d_name, text, sizeof text - 1) >= 0);
        strv_addf(out, "%s %c%03o %s\n", path,
                  S_ISDIR(st.st_mode)   ? 'd'
                  : S_ISLNK(st.st_mode) ? 'l'
                                        : '-',
                  S_ISLNK(st.st_mode) ? 0 : (unsigned)st.st_mode & 07777, text);
        if (S_ISDIR(st.st_mode)) {
            sub = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            list_tree(sub, path, out);
        }
    }
    closedir(d);
}

/* Every path with type, mode and content. */
static inline char *tree_text(int dir) {
    CLEANUP(strv_done) struct strv lines = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(1024 * 1024);

    list_tree(dir, "", &lines);
    if (lines.len)
        qsort(lines.v, lines.len, sizeof(char *), by_text);
    for (size_t i = 0; i < lines.len; i++)
        buf_adds(&b, lines.v[i]);
    buf_adds(&b, "");
    return b.len ? buf_take(&b) : strdup("");
}

static inline void expect_file(int root, const char *path, const char *text) {
    expect_content(openat(root, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), text);
}

static inline void expect_none(int root, const char *path) {
    assert_int_equal(faccessat(root, path, F_OK, AT_SYMLINK_NOFOLLOW), -1);
    assert_true(errno == ENOENT || errno == ENOTDIR);
}
