/* SPDX-License-Identifier: Apache-2.0 */
/* A tree, or a file, to the other end; and both ends of a request. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/mountinfo.h"
#include "workspace/copy/place.h"
#include "workspace/copy/treestream.h"
#include "workspace/copy/walk.h"

struct tree_out {
    struct tree_io *io;
    const struct transfer *t; /* progress; may be NULL */
    uint64_t files, bytes;
    dev_t dev;
    uint64_t mount; /* if not 0: of what else is mounted only the name is sent */
};

/* -- content -------------------------------------------------------------------------------------------------------------- */

static uint64_t since_1970(const struct stat *st) {
    return st->st_mtime > 0 ? (uint64_t)st->st_mtime : 0;
}

static void put_named(struct tree_io *io, enum tree_kind kind, const char *name, mode_t mode, uint64_t value) {
    tree_put(
        io,
        &(struct tree_record){.kind = kind, .len = (uint16_t)strnlen(name, TREE_NAME_MAX), .mode = mode & 0777, .value = value},
        name);
}

/* From at to end, both with data. Less: it was cut meanwhile. */
static int send_data(struct tree_out *o, int file, off_t *at, off_t end) {
    while (*at < end) {
        long n = tree_put_data(o->io, file, *at, (uint64_t)(end - *at));

        if (n <= 0)
            return n < 0 ? (int)n : 1;
        *at += n;
        o->bytes += (uint64_t)n;
    }
    return 0;
}

/* As long as it was when it was opened; holes as holes. */
static int send_regular(struct tree_out *o, int file, off_t size) {
    int r = 0;

    for (off_t at = 0; r == 0 && at < size;) {
        off_t data = lseek(file, at, SEEK_DATA), hole;

        if (data < 0)
            data = errno == ENXIO ? size : at;
        data = MIN_OF(data, size);
        if (data > at)
            tree_put(o->io, &(struct tree_record){.kind = TREE_HOLE, .value = (uint64_t)(data - at)}, NULL);
        at = data;
        hole = at < size ? lseek(file, at, SEEK_HOLE) : size;
        r = send_data(o, file, &at, hole < 0 ? size : MIN_OF(hole, size));
    }
    return r < 0 ? r : 0;
}

static int send_stream(struct tree_out *o, int file) {
    long n;

    while ((n = tree_put_data(o->io, file, -1, TREE_DATA_MAX)) > 0)
        o->bytes += (uint64_t)n;
    return (int)n;
}

/* A file that cannot be read to its end is left out there. */
static void send_file(struct tree_out *o, int file, const char *name, const struct stat *st) {
    int r;

    put_named(o->io, TREE_FILE, name, st->st_mode, since_1970(st));
    r = S_ISREG(st->st_mode) ? send_regular(o, file, st->st_size) : send_stream(o, file);
    tree_put(o->io, &(struct tree_record){.kind = TREE_DONE, .value = (uint64_t)-r}, NULL);
    o->files++;
    if (o->t && o->t->progress && o->t->progress->report)
        o->t->progress->report(o->files, o->bytes, 0, o->t->progress->arg);
}

/* -- the walk ------------------------------------------------------------------------------------------------------------- */

static int leave_out(struct tree_out *o, const char *name, enum tree_left why) {
    put_named(o->io, TREE_LEFT, name, 0, why);
    return o->io->error < 0 ? o->io->error : WALK_SKIP;
}

static bool is_foreign(const struct tree_out *o, const struct walk_entry *e) {
    CLEANUP(closep) int fd = e->st.st_dev == o->dev ? -1 : openat(e->dir, e->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return e->st.st_dev != o->dev && (fd < 0 || transfer_is_foreign(fd));
}

static bool is_other_mount(const struct tree_out *o, const struct walk_entry *e) {
    uint64_t there;

    return o->mount && (mountinfo_of(e->dir, e->name, &there) < 0 || there != o->mount);
}

static int send_link(struct tree_out *o, const struct walk_entry *e) {
    char text[TREE_TEXT_MAX];
    size_t at = strlen(e->name) + 1;
    ssize_t n;

    memcpy(text, e->name, at);
    n = readlinkat(e->dir, e->name, text + at, sizeof text - at);
    if (n <= 0)
        return leave_out(o, e->name, TREE_REPLACED);
    tree_put(o->io, &(struct tree_record){.kind = TREE_LINK, .len = (uint16_t)(at + (size_t)n)}, text);
    return o->io->error;
}

static int send_entry(const struct walk_entry *e, void *arg, struct err *err UNUSED) {
    struct tree_out *o = arg;
    CLEANUP(closep) int fd = -1;
    struct stat st;

    if (strlen(e->name) > TREE_NAME_MAX)
        return leave_out(o, "", TREE_SPECIAL);
    switch (e->st.st_mode & S_IFMT) {
    case S_IFDIR:
        if (is_foreign(o, e))
            return leave_out(o, e->name, TREE_KERNEL);
        put_named(o->io, TREE_FOLDER, e->name, 0, 0);
        if (is_other_mount(o, e)) {
            tree_put(o->io, &(struct tree_record){.kind = TREE_LEAVE, .mode = e->st.st_mode & 0777}, NULL);
            return o->io->error < 0 ? o->io->error : WALK_SKIP;
        }
        return o->io->error;
    case S_IFREG:
        fd = transfer_open(e->dir, e->name, &st);
        if (fd < 0)
            return leave_out(o, e->name, fd == -EACCES || fd == -EPERM ? TREE_DENIED : TREE_REPLACED);
        send_file(o, fd, e->name, &st);
        return o->io->error;
    case S_IFLNK:
        return send_link(o, e);
    default:
        return leave_out(o, e->name, TREE_SPECIAL);
    }
}

static int send_left(const struct walk_entry *e, void *arg, struct err *err UNUSED) {
    struct tree_out *o = arg;

    tree_put(o->io, &(struct tree_record){.kind = TREE_LEAVE, .mode = e->st.st_mode & 0777, .value = since_1970(&e->st)}, NULL);
    return o->io->error;
}

static int send_closed(const struct walk_entry *e, void *arg, struct err *err) {
    leave_out(arg, "", TREE_DENIED);
    return send_left(e, arg, err);
}

static int send_folder(struct tree_out *o, int folder, struct err *err) {
    const struct walk_ops ops = {.found = send_entry, .left = send_left, .closed = send_closed, .arg = o};
    struct stat st;

    if (fstat(folder, &st) < 0)
        return err_sys(err, -errno, "look at the folder");
    o->dev = st.st_dev;
    if (transfer_is_foreign(folder))
        return err_set(err, -EINVAL, "that folder belongs to the kernel; nothing in it is a file of the sandbox");
    return walk_tree(folder, NULL, &ops, err);
}

static int send_end(struct tree_io *io, int r, const struct err *err) {
    size_t len = r < 0 ? strnlen(err->msg, sizeof err->msg) : 0;

    tree_put(io, &(struct tree_record){.kind = TREE_END, .len = (uint16_t)len, .value = (uint64_t)MIN_OF(r < 0 ? -r : 0, 4095)},
             err->msg);
    return tree_flush(io);
}

int tree_send(struct tree_io *io, int folder, bool one_mount, struct err *err) {
    struct tree_out o = {.io = io};
    int r = one_mount ? mountinfo_of(folder, "", &o.mount) : 0;

    r = r < 0 ? err_sys(err, r, "look at the folder") : send_folder(&o, folder, err);

    return io->error < 0 ? io->error : send_end(io, r, err);
}

/* -- requests ------------------------------------------------------------------------------------------------------------- */

static int lost(struct err *err) {
    return err_set(err, -EPIPE, "the sandbox ended the copy, or sent something that is no folder");
}

int tree_ask(int sock, struct transfer *t, int to, struct err *err) {
    CLEANUP(freep) struct tree_io *io = calloc(1, sizeof *io);
    int r;

    if (!io)
        return err_oom(err);
    io->fd = sock;
    tree_put(io, &(struct tree_record){.kind = TREE_SEND}, NULL);
    r = tree_flush(io);
    if (r == 0)
        r = tree_receive(io, t, to, false, err);
    return r == -EPROTO || r == -EPIPE || r == -ECONNRESET ? lost(err) : r;
}

static void take_note(struct transfer *t, const char *text) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(8 * TREE_TEXT_MAX);

    buf_add_printable(&line, text);
    if (t->notes.len < TRANSFER_NOTES_MAX && buf_ok(&line))
        (void)!strv_add(&t->notes, buf_str(&line));
}

static void take_counts(struct transfer *t, const char *text) {
    uint64_t n[TREE_COUNT];

    tree_counts_decode((const uint8_t *)text, n);
    t->files = n[0];
    t->folders = n[1];
    t->links = n[2];
    t->bytes = n[3];
    t->left_out = n[4];
}

int tree_read_answer(struct tree_io *io, struct transfer *t, struct err *err) {
    CLEANUP(buf_done) struct buf why = BUF_INIT(8 * TREE_TEXT_MAX);
    struct tree_record rec = {.value = 0};
    int r = 0;

    while (r == 0 && rec.kind != TREE_END) {
        r = tree_get(io, &rec);
        if (r == 0 && rec.kind == TREE_NOTE)
            take_note(t, io->text);
        else if (r == 0 && rec.kind == TREE_COUNTS)
            take_counts(t, io->text);
        else if (r == 0 && rec.kind != TREE_END)
            r = -EPROTO;
    }
    if (r < 0)
        return lost(err);
    buf_add_printable(&why, io->text);
    return rec.value ? err_set(err, -(int)rec.value, "%.800s", buf_str(&why)) : 0;
}

int tree_give(int sock, struct transfer *t, const struct tree_gift *g, struct err *err) {
    CLEANUP(freep) struct tree_io *io = calloc(1, sizeof *io);
    struct tree_out o = {.io = io, .t = t};
    struct stat st;
    int r = 0;

    if (!io)
        return err_oom(err);
    if (g->name && !tree_name_ok(g->name, strlen(g->name)))
        return err_set(err, -EINVAL, "'%.300s' cannot be the name of a file", g->name);
    if (fstat(g->from, &st) < 0)
        return err_sys(err, -errno, "look at the file");
    io->fd = sock;
    tree_put(io, &(struct tree_record){.kind = TREE_TAKE, .value = (t->umask_ & 0777) | (g->name ? TREE_ONE : 0u)}, NULL);
    if (S_ISDIR(g->mode)) {
        if (g->name)
            put_named(io, TREE_FOLDER, g->name, 0, 0);
        r = send_folder(&o, g->from, err);
        if (g->name)
            tree_put(io, &(struct tree_record){.kind = TREE_LEAVE, .mode = 0777}, NULL);
    } else {
        st.st_mode = (st.st_mode & S_IFMT) | (g->mode & 0777);
        send_file(&o, g->from, g->name, &st);
    }
    if (r < 0 && io->error == 0)
        return r; /* our own side; the other one sees that it is cut */
    send_end(io, 0, &(struct err){0});
    shutdown(sock, SHUT_WR);
    r = tree_read_answer(io, t, err); /* also if it did not take all of it: then it says why */
    return r < 0 ? err_ctx(err, r, "in the sandbox") : 0;
}

/* -- the other end -------------------------------------------------------------------------------------------------------- */

int tree_answer(struct tree_io *io, const struct transfer *t, int result, const struct err *err) {
    const uint64_t n[TREE_COUNT] = {t->files, t->folders, t->links, t->bytes, t->left_out};
    uint8_t text[8 * TREE_COUNT];

    for (size_t i = 0; i < t->notes.len; i++)
        tree_put(io, &(struct tree_record){.kind = TREE_NOTE, .len = (uint16_t)strnlen(t->notes.v[i], TREE_TEXT_MAX)},
                 t->notes.v[i]);
    tree_counts_encode(n, text);
    tree_put(io, &(struct tree_record){.kind = TREE_COUNTS, .len = sizeof text}, text);
    return send_end(io, result, err);
}

static int take_tree(struct tree_io *io, int folder, uint64_t how) {
    struct transfer t = {.umask_ = (mode_t)(how & 0777)};
    struct err err = {0};
    const uint8_t *rest;
    int r = tree_receive(io, &t, folder, how & TREE_ONE, &err);

    if (r < 0 && !err.msg[0])
        err_sys(&err, r, "receive the files");
    while (r < 0 && tree_get_data(io, sizeof io->in, &rest) > 0)
        ; /* all of it was sent before the answer is read */
    r = tree_answer(io, &t, r, &err);
    transfer_done(&t);
    return r;
}

int tree_serve(int sock, int folder) {
    CLEANUP(freep) struct tree_io *io = calloc(1, sizeof *io);
    struct tree_record rec;
    struct err err = {0};
    int r;

    if (!io)
        return -ENOMEM;
    io->fd = sock;
    r = tree_get(io, &rec);
    if (r == 0 && rec.kind == TREE_SEND)
        return tree_send(io, folder, false, &err);
    return r == 0 && rec.kind == TREE_TAKE ? take_tree(io, folder, rec.value) : -EPROTO;
}
