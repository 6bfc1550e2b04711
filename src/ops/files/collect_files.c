/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox into an archive or a JSON text. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "engine/private_dir.h"
#include "jail/plan/plan.h"
#include "link/tree_fetch.h"
#include "ops/files/collect.h"
#include "ops/files/inside.h"
#include "os/fd.h"
#include "proto/execmsg.h"
#include "workspace/copy/place.h"
#include "workspace/copy/tarball.h"
#include "workspace/copy/transfer.h"
#include "workspace/copy/walk.h"

enum { LEFT_OUT_MAX = 1000 };

/* One file or folder of the inside on its way into an archive or a JSON text. */
struct collect_gather {
    const char *path; /* absolute, inside: what the user named */
    struct tarball *tar;
    struct buf *json; /* if there is no tar */
    uint64_t *left;
    struct strv *notes;
    unsigned entries;
};

static int leave_out(struct collect_gather *g, const char *path, const char *why, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4 * WALK_PATH_MAX);

    if (g->notes->len >= LEFT_OUT_MAX)
        return 0;
    buf_add_printable(&b, path);
    buf_addf(&b, ": %s", why);
    return !buf_ok(&b) || strv_add(g->notes, buf_str(&b)) < 0 ? err_oom(err) : 0;
}

/* -- JSON --------------------------------------------------------------------------------------------------------------- */

int collect_json_file(struct buf *b, const char *path, int fd, const struct stat *st, struct err *err) {
    CLEANUP(freep) char *data = NULL;
    struct jsonout j = {.to = b};
    ssize_t n;

    if (st->st_size > COLLECT_FILES_MAX)
        return err_set(err, -EFBIG, "'%.300s' has more than 64 MiB, too much for JSON: 'bawn cp', or 'bawn collect --format tar'",
                       path);
    data = malloc((size_t)st->st_size + 1);
    n = data ? fd_read_full(fd, data, (size_t)st->st_size) : -ENOMEM;
    if (n < 0)
        return err_sys(err, (int)n, "read the file");
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "path", path);
    buf_addf(b, ", \"mode\": \"%04o\"", (unsigned)st->st_mode & 0777);
    jsonout_u64(&j, "size", (uint64_t)n);
    buf_adds(b, ", \"base64\": \"");
    base64_add(b, data, (size_t)n);
    buf_adds(b, "\"}");
    return buf_ok(b) ? 0 : err_oom(err);
}

static int put_json_file(struct collect_gather *g, const char *path, int fd, const struct stat *st, struct err *err) {
    if ((uint64_t)st->st_size > *g->left)
        return leave_out(g, path, "all files together have more than 64 MiB, too much for JSON", err);
    *g->left -= (uint64_t)st->st_size;
    return collect_json_file(g->json, path, fd, st, err);
}

static int put_json_link(struct collect_gather *g, const char *path, const char *target, struct err *err) {
    struct jsonout j = {.to = g->json};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "path", path);
    jsonout_text(&j, "link", target);
    jsonout_close(&j, '}');
    return buf_ok(g->json) ? 0 : err_oom(err);
}

/* -- both --------------------------------------------------------------------------------------------------------------- */

static int tar_err(int r, const char *path, struct err *err) {
    return r < 0 ? place_err(err, r, "archive", path) : 0;
}

static char *tar_name(const char *path) {
    return str_dupf("files%s", path);
}

static int put_file(struct collect_gather *g, const char *path, int fd, const struct stat *st, struct err *err) {
    CLEANUP(freep) char *name = tar_name(path);

    if (!name)
        return err_oom(err);
    return g->tar ? tar_err(tarball_file(g->tar, name, fd, st), path, err) : put_json_file(g, path, fd, st, err);
}

static int put_entry_file(struct collect_gather *g, const struct walk_entry *e, const char *path, struct err *err) {
    struct stat st;
    CLEANUP(closep) int fd = transfer_open(e->dir, e->name, &st);

    if (fd == -ENOMEM || fd == -EMFILE || fd == -ENFILE)
        return err_sys(err, fd, "open a file");
    return fd < 0 ? leave_out(g, path, strerror(-fd), err) : put_file(g, path, fd, &st, err);
}

static int put_entry_link(struct collect_gather *g, const struct walk_entry *e, const char *path, struct err *err) {
    CLEANUP(freep) char *name = tar_name(path);
    char target[PATH_MAX];
    ssize_t n = readlinkat(e->dir, e->name, target, sizeof target - 1);

    if (n < 0 || !name)
        return name ? leave_out(g, path, "was replaced meanwhile", err) : err_oom(err);
    target[n] = 0;
    if (!g->tar)
        return put_json_link(g, path, target, err);
    if (!transfer_link_stays(target, e->depth))
        return leave_out(g, path, "is a link that leads out of what is collected", err);
    return tar_err(tarball_link(g->tar, name, target, &e->st), path, err);
}

static int put_entry_folder(struct collect_gather *g, const struct walk_entry *e, const char *path, struct err *err) {
    CLEANUP(closep) int fd = openat(e->dir, e->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    CLEANUP(freep) char *name = tar_name(path);
    int r;

    if (fd < 0 || transfer_is_foreign(fd)) {
        r = leave_out(g, path, fd < 0 ? "was replaced meanwhile" : "belongs to the kernel", err);
        return r < 0 ? r : WALK_SKIP;
    }
    if (!name)
        return err_oom(err);
    return g->tar ? tar_err(tarball_folder(g->tar, name, &e->st), path, err) : WALK_ON;
}

static int found(const struct walk_entry *e, void *arg, struct err *err) {
    struct collect_gather *g = arg;
    /* below "/" without a double slash */
    CLEANUP(freep) char *path = *e->path ? str_dupf("%s/%s", g->path[1] ? g->path : "", e->path) : strdup(g->path);

    if (!path)
        return err_oom(err);
    if (++g->entries > TRANSFER_ENTRIES_MAX)
        return err_set(err, -E2BIG, "'%.300s' has too many files", g->path);
    switch (e->st.st_mode & S_IFMT) {
    case S_IFREG:
        return put_entry_file(g, e, path, err);
    case S_IFLNK:
        return put_entry_link(g, e, path, err);
    case S_IFDIR:
        return put_entry_folder(g, e, path, err);
    default:
        return leave_out(g, path, "is a device, FIFO or socket", err);
    }
}

static int closed(const struct walk_entry *e, void *arg, struct err *err) {
    return leave_out(arg, e->path, "permission denied", err);
}

/* "b: why", of what is in the folder; safe for a terminal. */
static int keep_note(struct collect_gather *g, const char *note, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(16 * WALK_PATH_MAX);

    buf_add_printable(&b, g->path);
    buf_addf(&b, "/%s", note);
    return g->notes->len < LEFT_OUT_MAX && (!buf_ok(&b) || strv_add(g->notes, buf_str(&b)) < 0) ? err_oom(err) : 0;
}

/* A folder on another kernel: a copy of it is walked, with links as they are there. */
static int gather_remote(const struct sandbox_pick *p, struct collect_gather *g, int sock, const struct walk_ops *ops,
                         struct err *err) {
    CLEANUP(freep) char *place = str_dupf("%.*s/" PLAN_PRIVATE, (int)(strrchr(p->boxes, '/') - p->boxes), p->boxes);
    CLEANUP(private_dir_remove) struct private_dir copy = PRIVATE_DIR_INIT;
    CLEANUP(transfer_done) struct transfer t = {.times = true};
    int r = place ? private_dir_make(place, &copy, err) : err_oom(err);

    r = r < 0 ? r : tree_fetch(sock, &t, copy.fd, err);
    for (size_t i = 0; r == 0 && i < t.notes.len; i++)
        r = keep_note(g, t.notes.v[i], err);
    return r < 0 ? r : walk_tree(copy.fd, NULL, ops, err);
}

static int gather(const struct sandbox_pick *p, struct collect_gather *g, struct err *err) {
    const struct walk_ops ops = {.found = found, .closed = closed, .arg = g};
    CLEANUP(closep) int fd = -1;
    struct stat st;
    int r = inside_open(p, g->path, EXEC_OPEN_READ, &fd, err);

    if (r < 0)
        return r;
    if (fstat(fd, &st) < 0)
        return err_sys(err, -errno, "look at '%.300s'", g->path);
    if (S_ISREG(st.st_mode))
        return put_file(g, g->path, fd, &st, err);
    if (S_ISSOCK(st.st_mode))
        return gather_remote(p, g, fd, &ops, err);
    if (!S_ISDIR(st.st_mode) || transfer_is_foreign(fd))
        return err_set(err, -EINVAL, "'%.300s' is neither a file nor a folder of the sandbox", g->path);
    return walk_tree(fd, NULL, &ops, err);
}

int collect_tar(const struct sandbox_pick *p, const char *path, struct tarball *t, struct strv *notes, struct err *err) {
    struct collect_gather g = {.path = path, .tar = t, .notes = notes};

    return gather(p, &g, err);
}

int collect_json(const struct sandbox_pick *p, const char *path, struct buf *b, uint64_t *left, struct strv *notes,
                 struct err *err) {
    struct collect_gather g = {.path = path, .json = b, .left = left, .notes = notes};

    return gather(p, &g, err);
}
