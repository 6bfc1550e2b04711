/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container on another machine. Nothing of ours can be mounted there: the container is made with empty volumes in the places of our folders, our
 * two programs are copied into it, and all else goes through its standard input (spec/enter-protocol.md), before the byte link begins on
 * the same stream. What the command had for itself comes back once it has ended (container_collect.c).
 *
 * The stream is written and read by a child, because the other machine may be slow: the supervisor hears ^C meanwhile, and what the engine says.
 */
#include "engine/container/container_far.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/process.h"
#include "proto/entermsg.h"
#include "workspace/copy/tarball.h"
#include "workspace/copy/treestream.h"

enum { FAR_SAID_MAX = 16 * 1024, FAR_PROGRAMS_MAX = 64 * 1024 * 1024, FAR_SILENCE_S = 60, FAR_LAST_MS = 3000 };

/* -- the list ---------------------------------------------------------------------------------------------------------------- */

static void list_item(struct buf *list, enum enter_kind kind, const char *path, mode_t mode, const char *content, size_t len) {
    enter_item_encode(
        &(struct enter_item){.kind = kind, .mode = mode & 0777, .len = (uint32_t)len, .path = path, .content = content}, list);
}

static int list_file(struct buf *list, const struct container_mount *m, mode_t mode, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(ENTER_LIST_MAX);
    int r = file_read(m->from, 0, &text);

    if (r < 0)
        return err_sys(err, r, "read '%s' for the container", m->from);
    list_item(list, ENTER_FILE, m->to, mode, buf_str(&text), text.len);
    return 0;
}

/* What an earlier one of the mounts has shown elsewhere; NULL: none. */
static const char *shown_before(const struct container_plan *c, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (str_eq(c->mounts[i].from, c->mounts[n].from))
            return c->mounts[i].to;
    return NULL;
}

static int refuse_mount(const struct container_box *b, const struct container_mount *m, struct err *err) {
    return err_set(
        err, -EOPNOTSUPP,
        "engine %s is on another machine (%s), where '%s' cannot be shared for writing; mount it read-only, which is a "
        "copy there, or use --engine native",
        b->kind->name, b->where, m->to);
}

static int list_mount(const struct container_box *b, size_t n, struct buf *list, struct err *err) {
    const struct container_mount *m = &b->plan.mounts[n];
    const char *before = shown_before(&b->plan, n);
    struct stat st;

    if (stat(m->from, &st) < 0)
        return err_sys(err, -errno, "look at '%s' for the container", m->from);
    if (m->writable && !m->ours)
        return refuse_mount(b, m, err);
    if (S_ISREG(st.st_mode))
        return m->writable ? refuse_mount(b, m, err) : list_file(list, m, st.st_mode, err);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, -EOPNOTSUPP, "engine %s is on another machine, where '%s' cannot be", b->kind->name, m->to);
    if (before)
        list_item(list, ENTER_SYMLINK, m->to, 0, before, strlen(before));
    else
        list_item(list, m->writable ? ENTER_OWN_TREE : ENTER_TREE, m->to, st.st_mode, "", 0);
    return 0;
}

static int make_list(const struct container_box *b, struct buf *list, struct err *err) {
    int r = 0;

    list_item(list, ENTER_FILE, CONTAINER_LINK "/list", 0644, buf_str(&b->plan.list), b->plan.list.len);
    list_item(list, ENTER_TREE, CONTAINER_RUN, 0755, "", 0);
    for (size_t i = 0; r == 0 && i < b->plan.n_mounts; i++)
        r = list_mount(b, i, list, err);
    return r < 0 ? r : buf_ok(list) ? 0 : err_set(err, -E2BIG, "the single files that the container gets have more than 8 MiB");
}

bool container_far_is_tree(const struct container_plan *c, size_t n) {
    struct stat st;

    return !shown_before(c, n) && stat(c->mounts[n].from, &st) == 0 && S_ISDIR(st.st_mode);
}

/* -- through the stream --------------------------------------------------------------------------------------------------------- */

static int await_ack(int stream, struct err *err) {
    char byte = 0;
    ssize_t n = fd_read_some(stream, &byte, 1);

    return n == 1 && byte == ENTER_FAR_ACK
               ? 0
               : err_set(err, n < 0 ? (int)n : -EPROTO, "the container did not take what it is made of");
}

/* Caches and volumes of other sandboxes are new there. */
static int send_tree(int stream, const char *from, bool empty, struct err *err) {
    CLEANUP(freep) struct tree_io *io = calloc(1, sizeof *io);
    CLEANUP(closep) int folder = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (!io)
        return err_oom(err);
    if (folder < 0)
        return err_sys(err, -errno, "open '%s'", from);
    io->fd = stream;
    if (empty) {
        tree_put(io, &(struct tree_record){.kind = TREE_END}, NULL);
        r = tree_flush(io);
    } else {
        r = tree_send(io, folder, false, err);
    }
    return r < 0 ? err_sys(err, r, "send '%s' to the container", from) : await_ack(stream, err);
}

int container_far_request(int stream, enum enter_far_what what, const struct buf *list, struct err *err) {
    struct enter_far head = {.what = what, .len = (uint32_t)list->len};
    int r;

    memcpy(head.magic, ENTER_FAR_MAGIC, sizeof head.magic);
    r = fd_write_all(stream, &head, sizeof head);
    r = r < 0 ? r : fd_write_all(stream, buf_str(list), list->len);
    return r < 0 ? err_sys(err, r, "talk to the container") : 0;
}

static int send_all(struct container_box *b, int stream, const struct buf *list, struct err *err) {
    CLEANUP(freep) char *run = str_dupf("%s/run", b->folder.path);
    int r = run ? container_far_request(stream, ENTER_FAR_FILL, list, err) : err_oom(err);

    r = r < 0 ? r : await_ack(stream, err);
    r = r < 0 ? r : send_tree(stream, run, false, err);
    for (size_t i = 0; r == 0 && i < b->plan.n_mounts; i++)
        if (container_far_is_tree(&b->plan, i))
            r = send_tree(stream, b->plan.mounts[i].from, b->plan.mounts[i].writable && b->plan.mounts[i].shared, err);
    return r;
}

/* -- the child that does it --------------------------------------------------------------------------------------------------------- */

static NORETURN void child_main(struct container_box *b, container_far_work *work, int stream, const struct buf *list,
                                int answer) {
    const struct timeval patience = {.tv_sec = FAR_SILENCE_S};
    struct err err = {0};
    int r;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    setsockopt(stream, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(stream, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    r = work(b, stream, list, &err);
    err.code = r < 0 && !err.code ? r : err.code;
    _exit(fd_write_all(answer, &err, sizeof err) < 0);
}

int container_far_child(struct container_box *b, container_far_work *work, int stream, const struct buf *list, pid_t *ret_pid,
                        int *ret_answer, struct err *err) {
    CLEANUP(closep) int theirs = -1;
    int r = fd_pipe(ret_answer, &theirs);
    pid_t pid = r < 0 ? -1 : fork();

    if (r < 0 || pid < 0)
        return err_sys(err, r < 0 ? r : -errno, "process for the container's files");
    if (pid == 0)
        child_main(b, work, stream, list, theirs);
    *ret_pid = pid;
    return 0;
}

int container_far_answer(pid_t pid, int answer, struct err *err) {
    struct err said;
    bool whole = fd_read_full(answer, &said, sizeof said) == (ssize_t)sizeof said;

    process_wait(pid);
    if (whole && said.code == 0)
        return 0;
    said.msg[sizeof said.msg - 1] = 0;
    return whole ? err_set(err, said.code, "%s", said.msg) : err_set(err, -EIO, "the copy of the container's files was ended");
}

/* How long it takes is a matter of what there is to send. */
static int fill(struct container_box *b, int stream, const struct buf *list, struct err *err) {
    CLEANUP(closep) int answer = -1;
    uint64_t limit = TAKE(b->limit_ms, 0);
    pid_t pid;
    int r = container_far_child(b, send_all, stream, list, &pid, &answer, err);

    if (r < 0)
        return r;
    r = container_await(b, answer, err);
    if (r < 0)
        process_end(pid);
    else
        r = container_far_answer(pid, answer, err);
    b->limit_ms = limit;
    b->started_ms = clock_ms();
    if (r < 0 && container_ended(b, FAR_LAST_MS) && b->said.len)
        return container_trouble(b->kind, buf_str(&b->said), r, err);
    return r < 0 ? err_ctx(err, r, "engine %s", b->kind->name) : 0;
}

/* -- the container ----------------------------------------------------------------------------------------------------------------- */

static int add_program(struct tarball *t, const char *path, const char *name) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    st.st_mode = S_IFREG | 0755;
    return tarball_file(t, name, fd, &st);
}

/* Into the container's own layer: who is not root cannot change them. */
static int copy_programs(struct container_box *b, struct err *err) {
    CLEANUP(closep) int file = fd_memory("bawn-programs", "", 0);
    CLEANUP(buf_done) struct buf tar = BUF_INIT(FAR_PROGRAMS_MAX), said = BUF_INIT(FAR_SAID_MAX);
    CLEANUP(freep) char *to = str_dupf("%s:/", b->cid);
    char *const argv[] = {(char *)(uintptr_t)b->kind->program, "cp", "-", to, NULL};
    struct tarball t = {.fd = file};
    int r = file < 0 ? file : !to ? -ENOMEM : add_program(&t, b->enter, &CONTAINER_ENTER[1]);

    r = r < 0 ? r : add_program(&t, b->init, &CONTAINER_INIT[1]);
    r = r < 0 ? r : tarball_end(&t);
    r = r < 0 ? r : lseek(file, 0, SEEK_SET) < 0 ? -errno : file_read_fd(file, 0, &tar);
    if (r < 0)
        return err_sys(err, r, "pack our programs for the container");
    r = container_call(&b->cli, argv, &tar, NULL, &said);
    return r < 0 ? err_sys(err, r, "run %s", b->cli.program) : r > 0 ? container_trouble(b->kind, buf_str(&said), -EIO, err) : 0;
}

static int refuse_image(const struct container_box *b, struct err *err) {
    return err_set(err, -ENOENT,
                   "engine %s is on another machine (%s), which does not have this machine's programs; copy them there once with "
                   "'bawn image from-host --to %s', or name an image that it has (--image)",
                   b->kind->name, b->where, b->kind->name);
}

/* An engine that did not answer may make it after all: the next run looks for its label. */
static int create(struct container_box *b, bool named, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(FAR_SAID_MAX);
    int r = container_call(&b->cli, b->argv.v, NULL, &out, &b->said);
    size_t len = strcspn(buf_str(&out), "\n");

    b->folder.stays |= r < 0;
    if (r < 0)
        return err_sys(err, r, "run %s", b->cli.program);
    if (r > 0 && !named && container_image_missing(b))
        return refuse_image(b, err);
    if (r > 0)
        return container_trouble(b->kind, buf_str(&b->said), -EIO, err);
    if (len == 0 || len >= sizeof b->cid)
        return err_set(err, -EPROTO, "engine %s made a container without a name", b->kind->name);
    memcpy(b->cid, out.data, len);
    b->cid[len] = 0;
    return 0;
}

int container_far_attach(struct container_box *b, int stream, struct err *err) {
    strv_done(&b->argv);
    closep(&b->messages);
    closep(&b->pidfd);
    if (strv_add(&b->argv, b->kind->program) < 0 || strv_add(&b->argv, "start") < 0 || strv_add(&b->argv, "--attach") < 0 ||
        strv_add(&b->argv, "--interactive") < 0 || strv_add(&b->argv, b->cid) < 0)
        return err_oom(err);
    return container_launch(b, stream, err);
}

/* The default of 20 GiB is no promise of the user's: that it does not hold is said. */
static int check_disk(const struct container_box *b, const struct engine_request *req, struct err *err) {
    const char *origin = req->settings->origin[SETTING_DISK];

    if (req->plan->limits.disk == 0)
        return 0;
    if (origin && !str_eq(origin, "built-in"))
        return err_set(err, -ENOTSUP,
                       "engine %s is on another machine (%s), where the disk limit (%s) is not enforced; use '--disk unlimited', "
                       "or an engine of this machine",
                       b->kind->name, b->where, origin);
    log_note(
        "engine %s is on another machine (%s): no disk limit is enforced there, caches and volumes are new, and changes come "
        "back at the end",
        b->kind->name, b->where);
    return 0;
}

int container_far_start(struct container_box *b, const struct engine_request *req, int ours, int *theirs, struct err *err) {
    CLEANUP(buf_done) struct buf list = BUF_INIT(ENTER_LIST_MAX);
    int r = check_disk(b, req, err);

    r = r < 0 ? r : make_list(b, &list, err);
    r = r < 0 ? r : create(b, req->settings->image != NULL, err);
    r = r < 0 ? r : copy_programs(b, err);
    r = r < 0 ? r : container_far_attach(b, *theirs, err);
    closep(theirs);
    r = r < 0 ? r : fill(b, ours, &list, err);
    b->filled = r == 0;
    return r;
}
