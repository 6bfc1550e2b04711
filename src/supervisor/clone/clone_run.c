/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a run's folder: copied, or moved. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/clone/clone_priv.h"
#include "workspace/copy/manifest.h"
#include "workspace/copy/transfer.h"

static const char *const parts[WORKSPACE_MODES] = {[WORKSPACE_OVERLAY] = "upper", [WORKSPACE_SYNC] = "tree"};

int clone_folder(int from, int to, const char *name, struct clone_tree *how, struct err *err) {
    CLEANUP(closep) int source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), target = -1;
    int r;

    if (source < 0)
        return errno == ENOENT ? 0 : err_sys(err, -errno, "open '%s'", name);
    if (mkdirat(to, name, 0700) < 0)
        return err_sys(err, -errno, "make '%s'", name);
    target = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0)
        return err_sys(err, -errno, "make '%s'", name);
    how->from = source;
    how->to = target;
    r = clone_tree_make(how, err);
    how->from = how->to = -1;
    return r < 0 ? err_ctx(err, r, "%s", name) : 0;
}

static int clone_file(int from, int to, const char *name, struct err *err) {
    struct stat st;
    CLEANUP(closep) int source = transfer_open(from, name, &st), target = -1;
    uint64_t bytes;
    int r;

    if (source < 0)
        return source == -ENOENT ? 0 : err_sys(err, source, "open '%s'", name);
    target = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = target < 0 ? -errno : transfer_content(source, target, (uint64_t)st.st_size, &bytes);
    return r < 0 ? err_sys(err, r, "copy '%s'", name) : 0;
}

/*
 * A manifest knows the files of its copy by inode and ctime, which no copy of the copy has. A file that is as the manifest says gets
 * the stamp of its new self; one that was changed inside keeps a stamp that no longer fits, and so stays changed.
 */
struct stamping {
    struct manifest *m;
    int r;
};

static void stamp(const char *path, const struct stat *from, const struct stat *to, void *arg) {
    struct stamping *s = arg;
    const struct manifest_entry *e = manifest_find(s->m, path);
    struct manifest_stamp was = manifest_stamp_of(from), now = manifest_stamp_of(to), host;

    if (s->r < 0 || !e || !e->copy.mode || !e->copy.ctime_ns || !manifest_same(&e->copy, &was))
        return;
    host = e->host;
    s->r = manifest_set(s->m, path, &host, &now, NULL);
}

static int clone_copy(int from, int to, struct clone_tree *count, struct err *err) {
    CLEANUP(manifest_freep) struct manifest *m = NULL;
    struct stamping s = {0};
    int r = manifest_load(from, "manifest", &m, err);

    if (r == -ENOENT)
        return err_set(err, r, "the copy of the workspace is not finished yet; try again when the sandbox has started");
    if (r < 0)
        return r;
    s.m = m;
    count->copied = stamp;
    count->arg = &s;
    r = clone_folder(from, to, "tree", count, err);
    count->copied = NULL;
    r = r < 0 ? r : s.r < 0 ? err_oom(err) : manifest_save(m, to, "manifest", err);
    clock_pass(clock_coarse()); /* a change after this has another ctime than the stamps */
    return r;
}

static int move_one(int from, int to, const char *name, struct err *err) {
    return renameat(from, name, to, name) < 0 && errno != ENOENT ? err_sys(err, -errno, "move '%s'", name) : 0;
}

/* Inodes and their ctimes stay, so the stamps of a manifest do, too. */
int clone_move_parts(int from, int to, struct err *err) {
    static const char *const all[] = {"upper", "tree", "manifest", "journal", "base"};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(all); i++)
        r = move_one(from, to, all[i], err);
    return r;
}

/* Gone: an earlier try moved it, and then lost the race for its name. */
int clone_move_folder(int from, int to, const char *name, struct err *err) {
    if (renameat(from, name, to, name) == 0)
        return 0;
    return errno == ENOENT ? err_set(err, -ESTALE, "the name of the fork was taken at this moment; try again")
                           : err_sys(err, -errno, "move '%s'", name);
}

int clone_run_parts(int from, int to, enum workspace_mode mode, struct clone_tree *count, struct err *err) {
    int r = 0;

    if (!parts[mode])
        return 0;
    if (mode == WORKSPACE_SYNC) {
        r = clone_copy(from, to, count, err);
    } else {
        count->whiteouts = true;
        r = clone_folder(from, to, parts[mode], count, err);
        count->whiteouts = false;
    }
    r = r < 0 ? r : clone_file(from, to, "journal", err);
    return r < 0 ? r : clone_folder(from, to, "base", count, err);
}
