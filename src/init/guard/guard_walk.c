/* SPDX-License-Identifier: Apache-2.0 */
/* Walks everything below a folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "init/guard/guard_judge.h"
#include "os/fd.h"

struct guard_tree {
    unsigned *left, depth;
    int (*visit)(void *arg, const struct guard_walk_entry *e);
    void *arg;
    char suffix[PATH_MAX];
    size_t len;
};

static int kind_of(int dir, const struct dirent *e, enum rules_kind *ret) {
    struct stat st;

    if (e->d_type != DT_UNKNOWN) {
        *ret = e->d_type == DT_DIR ? RULES_FOLDER : e->d_type == DT_LNK ? RULES_LINK : RULES_FILE;
        return 0;
    }
    if (fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    *ret = S_ISDIR(st.st_mode) ? RULES_FOLDER : S_ISLNK(st.st_mode) ? RULES_LINK : RULES_FILE;
    return 0;
}

static int walk_folder(struct guard_tree *t, int dir, const char *name);

static int walk_entry(struct guard_tree *t, int dir, const struct dirent *e) {
    struct guard_walk_entry entry = {.dir = dir, .name = e->d_name, .suffix = t->suffix};
    size_t old = t->len, len = strlen(e->d_name);
    int r = kind_of(dir, e, &entry.kind);

    if (r < 0)
        return r;
    if (*t->left == 0 || old + 1 + len >= sizeof t->suffix)
        return -E2BIG;
    --*t->left;
    t->suffix[old] = '/';
    memcpy(t->suffix + old + 1, e->d_name, len + 1);
    t->len = old + 1 + len;
    r = t->visit(t->arg, &entry);
    if (r == 0 && entry.kind == RULES_FOLDER)
        r = walk_folder(t, dir, e->d_name);
    t->len = old;
    t->suffix[old] = 0;
    return r;
}

static int walk_folder(struct guard_tree *t, int dir, const char *name) {
    int r = 0, fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!d) {
        r = -errno;
        closep(&fd);
        return r;
    }
    if (++t->depth > GUARD_DEPTH_MAX)
        r = -E2BIG;
    while (r == 0 && (errno = 0, e = readdir(d)))
        if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
            r = walk_entry(t, dirfd(d), e);
    if (r == 0 && errno != 0)
        r = -errno;
    t->depth--;
    closedir(d);
    return r;
}

int guard_walk(int dir, const char *name, unsigned *left, int (*visit)(void *arg, const struct guard_walk_entry *e), void *arg) {
    struct guard_tree t = {.left = left, .visit = visit, .arg = arg};

    return walk_folder(&t, dir, name);
}
