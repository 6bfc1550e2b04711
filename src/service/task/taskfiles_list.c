/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a folder, as JSON: by name, a folder before what is in it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/strv.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "service/task/taskfiles_priv.h"

enum { OUT_MAX = 64 * 1024 * 1024, DEPTH_MAX = 128 };

struct file_list {
    struct buf out;
    struct jsonout j;
    const char *after;
    bool deep;
    uint64_t n, limit;
    char path[PATH_MAX], last[PATH_MAX];
    bool more;
};

/* The order of the walk: '/' before every other byte. */
static int compare_paths(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    return (*a == '/' ? 1 : (unsigned char)*a + (*a ? 1 : 0)) - (*b == '/' ? 1 : (unsigned char)*b + (*b ? 1 : 0));
}

static const char *type_of(mode_t mode) {
    return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "folder" : S_ISLNK(mode) ? "link" : "other";
}

static void entry_json(struct file_list *l, int dir, const char *name, const struct stat *st) {
    char text[CLOCK_TEXT_SIZE], target[PATH_MAX], mode[8];
    uint64_t ns = (uint64_t)st->st_mtim.tv_sec * 1000000000 + (uint64_t)st->st_mtim.tv_nsec;
    ssize_t n;

    snprintf(mode, sizeof mode, "%04o", (unsigned)st->st_mode & 07777);
    jsonout_open(&l->j, NULL, '{');
    jsonout_text(&l->j, "path", l->path);
    jsonout_text(&l->j, "type", type_of(st->st_mode));
    if (S_ISREG(st->st_mode))
        jsonout_u64(&l->j, "size", (uint64_t)st->st_size);
    jsonout_text(&l->j, "mode", mode);
    jsonout_text(&l->j, "modified", clock_text(st->st_mtim.tv_sec < 0 ? 0 : ns, CLOCK_ISO_MS, text));
    if (S_ISLNK(st->st_mode) && (n = readlinkat(dir, name, target, sizeof target - 1)) >= 0) {
        target[n] = 0;
        jsonout_text(&l->j, "target", target);
    }
    jsonout_close(&l->j, '}');
}

static int list_folder(struct file_list *l, int dir, size_t len, int depth);

static int list_entry(struct file_list *l, int dir, const char *name, size_t len, int depth) {
    CLEANUP(closep) int below = -1;
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* gone meanwhile */
    if (compare_paths(l->path, l->after) > 0) {
        l->more = l->n == l->limit;
        if (l->more)
            return 0;
        l->n++;
        snprintf(l->last, sizeof l->last, "%s", l->path);
        entry_json(l, dir, name, &st);
    }
    if (!l->deep || !S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
        return 0;
    below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return below < 0 ? 0 : list_folder(l, below, len, depth + 1);
}

static int list_folder(struct file_list *l, int dir, size_t len, int depth) {
    CLEANUP(strv_done) struct strv names = {0};
    int r = dir_names(dir, ".", &names);

    for (size_t i = 0; r == 0 && !l->more && i < names.len; i++) {
        int n = snprintf(l->path + len, sizeof l->path - len, "%s%s", len ? "/" : "", names.v[i]);

        if (n > 0 && (size_t)n < sizeof l->path - len)
            r = list_entry(l, dir, names.v[i], len + (size_t)n, depth);
        l->path[len] = 0;
    }
    return r == -ENOENT ? 0 : r;
}

int taskfiles_list(char **args, struct err *err) {
    CLEANUP(closep) int dir = safepath_open(AT_FDCWD, args[0], O_RDONLY | O_DIRECTORY);
    struct file_list l = {.out = BUF_INIT(OUT_MAX), .after = args[3], .deep = str_eq(args[1], "1")};
    int r = dir < 0 ? dir : 0;

    if (r < 0)
        return err_sys(err, r, "open '%s'", args[0]);
    l.j = (struct jsonout){.to = &l.out, .compact = true};
    if (parse_u64(args[2], 1, 1000000, &l.limit, err) < 0)
        return err->code;
    if (!str_eq(args[0], "."))
        snprintf(l.path, sizeof l.path, "%s", args[0]);
    jsonout_open(&l.j, NULL, '{');
    jsonout_open(&l.j, "items", '[');
    r = list_folder(&l, dir, strlen(l.path), 0);
    jsonout_close(&l.j, ']');
    jsonout_text(&l.j, "next", l.more ? l.last : NULL);
    jsonout_close(&l.j, '}');
    r = r < 0 ? r : buf_ok(&l.out) ? fd_write_all(STDOUT_FILENO, l.out.data, l.out.len) : -EFBIG;
    buf_done(&l.out);
    return r < 0 ? err_sys(err, r, "list '%s'", args[0]) : 0;
}
