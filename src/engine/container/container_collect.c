/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes back from a container on another machine: its folders are received beside our copies, and each takes the place of its copy at once, when
 * all of them are whole. Nothing that comes is believed (workspace/copy/treestream.h), and a copy that is not whole changes nothing here: review
 * and sync would take what is missing for deleted.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/container/container_far.h"
#include "link/tree_fetch.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/remove.h"

enum { COLLECT_SAID_MAX = 16 * 1024, COLLECT_END_MS = 10000, COLLECT_FOLDERS_MAX = TREE_CELL_FOLDERS_MAX };
static const char new_suffix[] = ".far";

static bool comes_back(const struct container_plan *c, size_t n) {
    return c->mounts[n].writable && !c->mounts[n].shared && container_far_is_tree(c, n);
}

/* -- in the child ----------------------------------------------------------------------------------------------------------------- */

/* The same owner and mode as the copy has. What a run that was killed left is removed. */
static int make_beside(const char *from, struct err *err) {
    CLEANUP(freep) char *path = str_dupf("%s%s", from, new_suffix);
    struct stat st;
    int r = !path ? -ENOMEM : stat(from, &st) < 0 ? -errno : remove_tree(AT_FDCWD, path);

    r = r == -ENOENT ? 0 : r;
    if (r == 0 && (mkdir(path, 0700) < 0 || (geteuid() == 0 && lchown(path, st.st_uid, st.st_gid) < 0) ||
                   chmod(path, st.st_mode & 0777) < 0))
        r = -errno;
    r = r < 0 ? r : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return r < 0 ? err_sys(err, r == -1 ? -errno : r, "folder beside '%s'", from) : r;
}

static int receive_one(struct tree_io *io, const char *from, int to, struct err *err) {
    CLEANUP(transfer_done) struct transfer t = {.give = true, .times = true, .whole = true};
    int r = tree_receive(io, &t, to, false, err);

    for (size_t i = 0; i < t.notes.len; i++)
        log_note("from the container: %s", t.notes.v[i]);
    return r < 0 && !err->msg[0] ? err_sys(err, r, "receive '%s'", from) : r;
}

struct beside {
    const char *from[COLLECT_FOLDERS_MAX];
    int to[COLLECT_FOLDERS_MAX];
    size_t n;
};

/* The child ends with them: nothing is closed. */
static int make_all(const struct container_plan *c, struct beside *ret, struct err *err) {
    for (size_t i = 0; i < c->n_mounts; i++) {
        int fd;

        if (!comes_back(c, i))
            continue;
        if (ret->n == COLLECT_FOLDERS_MAX)
            return err_set(err, -E2BIG, "more than %d folders come back from the container", COLLECT_FOLDERS_MAX);
        fd = make_beside(c->mounts[i].from, err);
        if (fd < 0)
            return fd;
        ret->from[ret->n] = c->mounts[i].from;
        ret->to[ret->n++] = fd;
    }
    return 0;
}

static int receive_all(struct container_box *b, int stream, const struct buf *list, struct err *err) {
    CLEANUP(freep) struct tree_io *io = calloc(1, sizeof *io);
    struct beside all = {.n = 0};
    int r = io ? make_all(&b->plan, &all, err) : err_oom(err);

    r = r < 0 ? r : tree_cell_lock(all.to, all.n, err);
    r = r < 0 ? r : container_far_request(stream, ENTER_FAR_COLLECT, list, err);
    if (r < 0)
        return r;
    io->fd = stream;
    for (size_t i = 0; r == 0 && i < all.n; i++)
        r = receive_one(io, all.from[i], all.to[i], err);
    return r;
}

/* -- in the supervisor ----------------------------------------------------------------------------------------------------------------- */

static int put_in_place(const struct container_plan *c, struct err *err) {
    for (size_t i = 0; i < c->n_mounts; i++) {
        const char *from = c->mounts[i].from;
        CLEANUP(freep) char *beside = comes_back(c, i) ? str_dupf("%s%s", from, new_suffix) : NULL;

        if (beside && renameat2(AT_FDCWD, beside, AT_FDCWD, from, RENAME_EXCHANGE) < 0)
            return err_sys(err, -errno, "put '%s' in its place", from);
    }
    return 0;
}

static void remove_beside(const struct container_plan *c) {
    for (size_t i = 0; i < c->n_mounts; i++) {
        CLEANUP(freep) char *beside = comes_back(c, i) ? str_dupf("%s%s", c->mounts[i].from, new_suffix) : NULL;

        if (beside)
            remove_tree(AT_FDCWD, beside);
    }
}

static int make_list(const struct container_plan *c, struct buf *list) {
    for (size_t i = 0; i < c->n_mounts; i++)
        if (comes_back(c, i))
            enter_item_encode(&(struct enter_item){.kind = ENTER_OWN_TREE, .path = c->mounts[i].to, .content = ""}, list);
    return buf_ok(list) ? 0 : -ENOMEM;
}

static int receive(struct container_box *b, int stream, const struct buf *list, struct err *err) {
    CLEANUP(closep) int answer = -1;
    pid_t pid;
    int r = container_far_child(b, receive_all, stream, list, &pid, &answer, err);
    struct pollfd p = {.fd = answer, .events = POLLIN};

    if (r < 0)
        return r;
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    return container_far_answer(pid, answer, err);
}

static int collect(struct container_box *b, const struct buf *list, struct err *err) {
    CLEANUP(closep) int ours = -1, theirs = -1;
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, -errno, "stream of the container");
    ours = pair[0];
    theirs = pair[1];
    buf_clear(&b->said);
    r = container_far_attach(b, theirs, err);
    closep(&theirs);
    r = r < 0 ? r : receive(b, ours, list, err);
    closep(&ours);
    if (!container_ended(b, COLLECT_END_MS))
        container_kill(b);
    if (r < 0 && b->said.len)
        r = container_trouble(b->kind, buf_str(&b->said), r, err);
    return r < 0 ? r : put_in_place(&b->plan, err);
}

void container_far_collect(struct container_box *b) {
    CLEANUP(buf_done) struct buf list = BUF_INIT(ENTER_LIST_MAX);
    struct err err = {0};
    int r;

    if (!TAKE(b->filled, false))
        return;
    r = make_list(&b->plan, &list);
    r = r < 0 ? err_oom(&err) : list.len ? collect(b, &list, &err) : 0;
    remove_beside(&b->plan);
    if (r < 0) {
        log_err(&err);
        log_line("what was changed in the container could not be brought back: the workspace is as it was before");
    }
}

void container_far_remove(struct container_box *b) {
    CLEANUP(buf_done) struct buf said = BUF_INIT(COLLECT_SAID_MAX);
    char *const argv[] = {(char *)(uintptr_t)b->kind->program, "rm", "--force", "--volumes", b->cid, NULL};

    if (b->cid[0] && container_call(&b->cli, argv, NULL, NULL, &said) != 0) {
        b->folder.stays = true;
        log_line("engine %s does not answer: the next run with it removes what is left of the container", b->kind->name);
    }
    b->cid[0] = 0;
}
