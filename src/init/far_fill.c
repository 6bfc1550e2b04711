/* SPDX-License-Identifier: Apache-2.0 */
/* What a container on another machine is made of, and what comes back of it. */
#include "init/far_fill.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "base/strv.h"
#include "jail/fence/caps.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/remove.h"
#include "proto/cursor.h"
#include "proto/entermsg.h"
#include "workspace/copy/treestream.h"

enum { FILL_ARGS = 5, FILL_ID = 0, FILL_GROUP = 1, FILL_INIT = 4, TREES_MAX = 256 };

struct fill {
    struct enter_far head;
    char *list;
    uid_t uid;
    gid_t gid;
    int trees[TREES_MAX]; /* the folders of the list, open: those of the user may be closed to root */
    size_t n_trees;
};

static int read_request(struct fill *f, struct err *err) {
    if (fd_read_full(STDIN_FILENO, &f->head, sizeof f->head) != (ssize_t)sizeof f->head ||
        memcmp(f->head.magic, ENTER_FAR_MAGIC, sizeof f->head.magic) != 0 || f->head.len > ENTER_LIST_MAX)
        return err_set(err, -EPROTO, "the supervisor does not speak the language of this bawn-init");
    f->list = malloc((size_t)f->head.len + 1);
    if (!f->list)
        return err_oom(err);
    return fd_read_full(STDIN_FILENO, f->list, f->head.len) == (ssize_t)f->head.len
               ? 0
               : err_set(err, -EPROTO, "what the supervisor sends is cut");
}

static int acknowledge(struct err *err) {
    int r = fd_write_all(STDOUT_FILENO, &(char){ENTER_FAR_ACK}, 1);

    return r < 0 ? err_sys(err, r, "answer the supervisor") : 0;
}

/* -- filling --------------------------------------------------------------------------------------------------------------- */

static int make_above(const char *path) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');

    if ((size_t)snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path) >= sizeof parent)
        return -ENAMETOOLONG;
    return parent[0] ? dir_make(AT_FDCWD, parent, 0755, 0755) : 0;
}

/* What the image has there, or the engine copied from it. */
static int clear_folder(int fd) {
    CLEANUP(strv_done) struct strv names = {0};
    int r = dir_names(fd, ".", &names);

    for (size_t i = 0; r == 0 && i < names.len; i++) {
        if (unlinkat(fd, names.v[i], 0) < 0 && errno != ENOENT)
            r = errno == EISDIR || errno == EPERM ? remove_tree(fd, names.v[i]) : -errno;
        r = r == -EBUSY ? 0 : r; /* another volume is mounted there */
    }
    return r;
}

static int make_tree_folder(struct fill *f, const struct enter_item *i) {
    int fd;

    if (f->n_trees == TREES_MAX)
        return -E2BIG;
    if (mkdir(i->path, 0755) < 0 && errno != EEXIST)
        return -errno;
    fd = open(i->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    f->trees[f->n_trees++] = fd;
    return clear_folder(fd);
}

static int write_file(const struct enter_item *i, int flags) {
    CLEANUP(closep) int fd = open(i->path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, i->content, i->len);

    return r < 0 ? r : fchmod(fd, i->mode ? i->mode : 0644) < 0 ? -errno : 0;
}

/* Whatever is there goes; a file that the engine mounts, /etc/hosts for example, is written to. */
static int make_file(const struct enter_item *i) {
    if (unlink(i->path) == 0 || errno == ENOENT)
        return write_file(i, O_CREAT | O_EXCL);
    return errno == EBUSY ? write_file(i, O_TRUNC) : -errno;
}

static int make_link(const struct enter_item *i) {
    if (unlink(i->path) < 0 && errno != ENOENT && rmdir(i->path) < 0)
        return -errno;
    return symlink(i->content, i->path) < 0 ? -errno : 0;
}

static int make_item(struct fill *f, const struct enter_item *i) {
    int r = make_above(i->path);

    if (r < 0)
        return r;
    switch ((enum enter_kind)i->kind) {
    case ENTER_DIR:
        return mkdir(i->path, i->mode ? i->mode : 0755) < 0 && errno != EEXIST ? -errno : 0;
    case ENTER_SYMLINK:
        return make_link(i);
    case ENTER_FILE:
        return make_file(i);
    case ENTER_TREE:
    case ENTER_OWN_TREE:
        return make_tree_folder(f, i);
    case ENTER_KINDS:
        break;
    }
    return -EBADMSG;
}

/* Who has the capability to be any user again is root in between. */
static int act_as(uid_t uid, gid_t gid) {
    return uid == 0 ? (seteuid(uid) < 0 || setegid(gid) < 0 ? -errno : 0) : (setegid(gid) < 0 || seteuid(uid) < 0 ? -errno : 0);
}

static int receive_tree(const char *path, int folder, struct err *err) {
    CLEANUP(freep) struct tree_io *io = calloc(1, sizeof *io);
    CLEANUP(transfer_done) struct transfer t = {.times = true};
    int r;

    if (!io)
        return err_oom(err);
    io->fd = STDIN_FILENO;
    r = tree_receive(io, &t, folder, false, err);
    if (r < 0 && !err->msg[0])
        return err_sys(err, r, "receive '%s'", path);
    if (r == 0 && t.left_out)
        return err_set(err, -EIO, "'%s' is not whole: %s", path, t.notes.len ? t.notes.v[0] : "something was left out");
    return r;
}

static int take_tree(const struct fill *f, const struct enter_item *i, int folder, struct err *err) {
    bool own = i->kind == ENTER_OWN_TREE;
    int r = own ? act_as(f->uid, f->gid) : 0;

    if (r < 0)
        return err_sys(err, r, "act as user %u, group %u", f->uid, f->gid);
    r = receive_tree(i->path, folder, err);
    if (own && act_as(0, 0) < 0)
        return err_sys(err, -EPERM, "be root again");
    return r < 0 ? r : acknowledge(err);
}

static int make_all(struct fill *f, struct err *err) {
    struct cursor c = {f->list, f->head.len};
    struct enter_item i;
    int r;

    while ((r = enter_item_decode(&c, &i)) > 0) {
        r = make_item(f, &i);
        if (r < 0)
            return err_sys(err, r, "make '%s' in the container", i.path);
    }
    return r < 0 ? err_set(err, r, "the list of what the container is made of is not understood") : 0;
}

static int give_folder(const struct fill *f, const struct enter_item *i, int folder, struct err *err) {
    bool own = i->kind == ENTER_OWN_TREE;

    if (fchmod(folder, i->mode ? i->mode : 0755) < 0 || (own && fchown(folder, f->uid, f->gid) < 0))
        return err_sys(err, -errno, "give '%s' to the user of the sandbox", i->path);
    return 0;
}

typedef int fill_tree(const struct fill *f, const struct enter_item *i, int folder, struct err *err);
static int for_each_tree(const struct fill *f, fill_tree *visit, struct err *err) {
    struct cursor c = {f->list, f->head.len};
    struct enter_item i;
    size_t n = 0;
    int r = 0;

    while (r == 0 && enter_item_decode(&c, &i) > 0)
        if (i.kind == ENTER_TREE || i.kind == ENTER_OWN_TREE)
            r = visit(f, &i, f->trees[n++], err);
    return r;
}

static int fill_all(struct fill *f, struct err *err) {
    int r = make_all(f, err);

    r = r < 0 ? r : for_each_tree(f, give_folder, err);
    r = r < 0 ? r : acknowledge(err);
    return r < 0 ? r : for_each_tree(f, take_tree, err);
}

/* -- and back ---------------------------------------------------------------------------------------------------------------- */

static int become(const struct fill *f, struct err *err) {
    int r = caps_drop_bounding(err);

    if (r < 0)
        return r;
    if (setgroups(0, NULL) < 0 || setresgid(f->gid, f->gid, f->gid) < 0 || setresuid(f->uid, f->uid, f->uid) < 0)
        return err_sys(err, -errno, "become user %u, group %u", f->uid, f->gid);
    return caps_drop_all(err);
}

static int send_back(const struct fill *f, struct err *err) {
    CLEANUP(freep) struct tree_io *io = calloc(1, sizeof *io);
    struct cursor c = {f->list, f->head.len};
    struct enter_item i;
    int r = io ? become(f, err) : err_oom(err);

    if (r < 0)
        return r;
    io->fd = STDOUT_FILENO;
    while ((r = enter_item_decode(&c, &i)) > 0) {
        CLEANUP(closep) int folder = open(i.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (folder < 0)
            return err_sys(err, -errno, "open '%s'", i.path);
        r = tree_send(io, folder, true, err);
        if (r < 0)
            return err_sys(err, r, "send '%s'", i.path);
    }
    return r < 0 ? err_set(err, r, "the list of what comes back is not understood") : 0;
}

int far_fill_main(int argc, char **argv, struct err *err) {
    struct fill f = {.list = NULL};
    char enter[PATH_MAX];
    const char *slash = argc >= FILL_ARGS ? strrchr(argv[FILL_INIT], '/') : NULL;
    int r;

    if (!slash || !enter_id_parse(argv[FILL_ID], &f.uid) || !enter_id_parse(argv[FILL_GROUP], &f.gid))
        return err_set(err, -EINVAL, "bawn-init is started by bawn, not by hand");
    umask(0);
    r = read_request(&f, err);
    if (r == 0 && f.head.what == ENTER_FAR_COLLECT) {
        r = send_back(&f, err);
        if (r == 0)
            _exit(0);
    }
    r = r < 0 ? r : f.head.what != ENTER_FAR_FILL ? err_set(err, -EPROTO, "unknown request %u", f.head.what) : fill_all(&f, err);
    free(f.list);
    if (r < 0)
        return r;
    snprintf(enter, sizeof enter, "%.*s/bawn-enter", (int)(slash - argv[FILL_INIT]), argv[FILL_INIT]);
    execve(enter, argv - 1, (char *const[]){NULL}); /* argv[-1] is the word that came before them */
    return err_sys(err, -errno, "execute '%s'", enter);
}
