/* SPDX-License-Identifier: Apache-2.0 */
/* Opens both sides of a copy; workspace/copy/transfer.h does the rest. */
#include "ops/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "jail/plan/own.h"
#include "link/tree_fetch.h"
#include "os/fd.h"
#include "proto/execmsg.h"

/* -- cp ----------------------------------------------------------------------------------------------------------------- */

struct copy_places {
    bool out; /* from the sandbox */
    struct inside_file inside;
    const char *host;   /* the path out here */
    bool whole_content; /* the source ends with "/.": what is in it, not itself */
};

static int choose_places(const struct files_copy *c, struct copy_places *q, struct err *err) {
    CLEANUP(freep) char *source = NULL, *target = NULL;
    const char *from = c->from, *to = c->to;
    bool out = inside_split(from, &source, &from), in = inside_split(to, &target, &to);
    const struct sandbox_pick_opts pick = {.name = out ? source : target, .need = SANDBOX_RUNNING};
    int r;

    if (out && in)
        return err_usage(err, "cannot copy from one sandbox to another; copy to the host first");
    if (!out && !in)
        return err_usage(err, "neither path is 'SANDBOX:PATH', a path in a sandbox");
    q->out = out;
    q->host = out ? to : from;
    q->whole_content = str_eq(from, ".") || str_ends(from, "/.") || str_eq(from, "/");
    r = sandbox_pick(&pick, &q->inside.pick, err);
    return r < 0 ? r : inside_path(&q->inside.pick, out ? from : to, &q->inside.path, err);
}

/* Whether the workspace inside is the folder that is out here, so that what is written on one side is read on the other. */
static bool is_shared(const struct box_state *s, bool out) {
    return str_eq(s->engine, "native") &&
           (str_eq(s->mode, "direct") || (out && (str_eq(s->mode, "overlay") || str_eq(s->mode, "ro"))));
}

/*
 * A folder that comes into itself would be copied until it is too deep, or the disk is full. The workspace has the same path on both sides. from, to:
 * the folder and where it comes into; name: under this, NULL: only its content does, and it may replace itself.
 */
static int check_itself(const struct copy_places *q, const char *from, const char *to, const char *name, struct err *err) {
    const struct box *b = &q->inside.pick.box;
    bool below = str_eq(from, "/") || str_below(to, from) || (str_eq(to, from) && name);

    if (!is_shared(&b->state, q->out) || !path_holds(b->info.workspace, to) || !below)
        return 0;
    return err_set(err, -EINVAL, "'%.300s' cannot be copied into itself: '%.300s' is in it", from, to);
}

/* Folder or file `from` becomes (dir, name), or what is in it comes into dir if name is NULL. */
static int bring(struct transfer *t, int from, const struct stat *st, int dir, const char *name, const char *shown,
                 struct err *err) {
    CLEANUP(closep) int folder = -1;

    if (S_ISREG(st->st_mode) && !name)
        return err_usage(err, "'%.300s' is a file; name a file as target, too", shown);
    if (tree_is_remote(dir))
        return tree_give(dir, t, &(struct tree_gift){.from = from, .mode = st->st_mode, .name = name}, err);
    if (S_ISREG(st->st_mode))
        return transfer_file(t, from, dir, name, st->st_mode, shown, err);
    folder = name ? transfer_folder(t, dir, name, err) : -1;
    if (name && folder < 0)
        return folder;
    return S_ISSOCK(st->st_mode) ? tree_fetch(from, t, name ? folder : dir, err)
                                 : transfer_tree(t, from, name ? folder : dir, err);
}

/* -- to the host -------------------------------------------------------------------------------------------------------- */

static bool is_special(mode_t mode) {
    return !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode);
}

/* The folder on the host, and the name in it. Links in the user's own path are followed. */
static int open_host_target(const struct copy_places *q, bool from_folder, int *ret_dir, char **ret_name, struct err *err) {
    CLEANUP(freep) char *path = strdup(q->host);
    CLEANUP(closep) int dir = open(q->host, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *name = q->whole_content && from_folder ? NULL : strrchr(q->inside.path, '/') + 1;
    struct stat st;
    char *slash;

    if (!path || !q->host[0])
        return path ? err_usage(err, "the path on the host is empty") : err_oom(err);
    if (dir < 0) {
        while (path[1] && path[strlen(path) - 1] == '/' && from_folder)
            path[strlen(path) - 1] = 0;
        slash = strrchr(path, '/');
        name = slash ? slash + 1 : path;
        if (slash)
            *slash = 0;
        dir = open(!slash ? "." : path[0] ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || !name[0])
            return err_sys(err, dir < 0 ? -errno : -ENOTDIR, "open the folder '%.300s'", slash ? path : ".");
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_special(st.st_mode))
            return err_set(err, -EINVAL, "'%.300s' is a device, FIFO or socket; 'bawn get' writes to its standard output",
                           q->host);
    }
    *ret_name = name ? strdup(name) : NULL;
    if (name && !*ret_name)
        return err_oom(err);
    *ret_dir = TAKE_FD(dir);
    return 0;
}

static int copy_out(const struct copy_places *q, struct transfer *t, struct err *err) {
    CLEANUP(closep) int from = -1, dir = -1;
    CLEANUP(freep) char *name = NULL, *to = NULL;
    struct stat st;
    int r = inside_open(&q->inside.pick, q->inside.path, EXEC_OPEN_READ, &from, err);

    if (r == 0 && (fstat(from, &st) < 0 ||
                   (is_special(st.st_mode) && !S_ISSOCK(st.st_mode)))) /* bawn-init looked, too; it is not believed */
        r = err_set(err, -EINVAL, "'%.300s' is neither a file nor a folder", q->inside.path);
    r = r < 0 ? r : open_host_target(q, !S_ISREG(st.st_mode), &dir, &name, err);
    r = r < 0 || !S_ISDIR(st.st_mode) ? r : paths_of_fd(dir, &to, err);
    r = r < 0 || !to ? r : check_itself(q, q->inside.path, to, name, err);
    return r < 0 ? r : bring(t, from, &st, dir, name, q->host, err);
}

/* -- into the sandbox --------------------------------------------------------------------------------------------------- */

static int open_host_source(const char *path, struct stat *ret, struct err *err) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, ret) < 0)
        return err_sys(err, -errno, "open '%.300s'", path);
    if (!S_ISREG(ret->st_mode) && !S_ISDIR(ret->st_mode))
        return err_set(err, -EINVAL, "'%.300s' is neither a file nor a folder; 'bawn put' takes standard input", path);
    return TAKE_FD(fd);
}

/* The name that "a/b/" has. */
static char *name_of(const char *path) {
    size_t end = strlen(path);

    while (end > 1 && path[end - 1] == '/')
        end--;
    for (size_t i = end; i > 0; i--)
        if (path[i - 1] == '/')
            return strndup(path + i, end - i);
    return strndup(path, end);
}

static int copy_in(const struct copy_places *q, struct transfer *t, struct err *err) {
    CLEANUP(closep) int dir = -1, from = -1;
    CLEANUP(freep) char *name = NULL, *source = NULL, *own = name_of(q->host);
    struct stat st;
    bool content = q->whole_content || str_eq(own ? own : "", "..");
    int r = from = own ? open_host_source(q->host, &st, err) : err_oom(err);

    r = r < 0
            ? r
            : inside_open_target(&q->inside.pick, q->inside.path, content && S_ISDIR(st.st_mode) ? NULL : own, &dir, &name, err);
    r = r < 0 || !S_ISDIR(st.st_mode) ? r : paths_of_fd(from, &source, err);
    r = r < 0 || !source ? r : check_itself(q, source, q->inside.path, name, err);
    return r < 0 ? r : bring(t, from, &st, dir, name, q->inside.path, err);
}

int files_copy(const struct files_copy *c, struct transfer *ret, struct err *err) {
    struct copy_places q = {.inside = INSIDE_FILE_INIT};
    int r = choose_places(c, &q, err);

    *ret = (struct transfer){.progress = c->progress, .out = q.out, .give = !q.out, .umask_ = c->umask_};
    r = r < 0 ? r : inside_audit(&q.inside.pick, q.out ? "cp out" : "cp in", q.inside.path, q.host, err);
    if (r >= 0)
        r = q.out ? copy_out(&q, ret, err) : copy_in(&q, ret, err);
    inside_file_done(&q.inside);
    return r;
}

/* -- put and get -------------------------------------------------------------------------------------------------------- */

int files_put(const struct files_put *q, struct transfer *ret, struct err *err) {
    CLEANUP(inside_file_done) struct inside_file f = INSIDE_FILE_INIT;
    CLEANUP(closep) int dir = -1;
    CLEANUP(freep) char *name = NULL;
    int r = inside_file_pick(q->sandbox, q->path, &f, err);

    *ret = (struct transfer){.progress = q->progress, .give = true, .umask_ = q->umask_};
    r = r < 0 ? r : inside_audit(&f.pick, "put", f.path, NULL, err);
    r = r < 0 ? r : inside_open_target(&f.pick, f.path, NULL, &dir, &name, err);
    if (r == 0 && !name)
        r = err_set(err, -EISDIR, "'%.300s' is a folder in the sandbox: give the name of a file", f.path);
    if (r == 0 && tree_is_remote(dir))
        return tree_give(dir, ret, &(struct tree_gift){.from = q->from, .mode = q->mode, .name = name}, err);
    return r < 0 ? r : transfer_file(ret, q->from, dir, name, q->mode, f.path, err);
}

int files_get(const char *sandbox, const char *path, struct files_got *ret, struct err *err) {
    struct inside_file *f = &ret->file;
    int r = inside_file_pick(sandbox, path, f, err);

    r = r < 0 ? r : inside_audit(&f->pick, "get", f->path, NULL, err);
    r = r < 0 ? r : inside_open(&f->pick, f->path, EXEC_OPEN_READ, &ret->fd, err);
    if (r == 0 && (fstat(ret->fd, &ret->st) < 0 || !S_ISREG(ret->st.st_mode)))
        r = err_set(err, -EISDIR, "'%.300s' is not a file; 'bawn cp' copies folders", f->path);
    return r;
}

void files_got_done(struct files_got *g) {
    closep(&g->fd);
    inside_file_done(&g->file);
}
