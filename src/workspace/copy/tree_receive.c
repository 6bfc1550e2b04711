/* SPDX-License-Identifier: Apache-2.0 */
/* A tree from the other end, put in its place. Nothing that comes is believed: names have one part, and lead from the folder that is open. */
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/place.h"
#include "workspace/copy/transfer_priv.h"
#include "workspace/copy/treestream.h"
#include "workspace/copy/walk.h"

struct tree_in {
    struct tree_io *io;
    struct transfer *t;
    bool one;
    int to[WALK_DEPTH_MAX + 1]; /* folders on the way to where it is; [0] is borrowed */
    bool new_[WALK_DEPTH_MAX + 1];
    unsigned depth, skipped;      /* skipped: folders below one that could not be made */
    struct buf path;              /* of the entry, for notes */
    char name[TREE_NAME_MAX + 1]; /* its own, which outlives the record: the content of a file follows */
    bool in_file;
    uint64_t left; /* of the DATA that is read */
};

static void tree_in_done(struct tree_in *in) {
    for (size_t i = 1; i < ARRAY_LEN(in->to); i++)
        closep(&in->to[i]);
    buf_done(&in->path);
}

/* -- names ---------------------------------------------------------------------------------------------------------------- */

static int push_name(struct tree_in *in, const char *name, struct err *err) {
    if (in->path.len)
        buf_addc(&in->path, '/');
    buf_adds(&in->path, name);
    return buf_ok(&in->path) ? 0 : err_set(err, -ENAMETOOLONG, "the tree has a path of more than %d bytes", WALK_PATH_MAX);
}

static void pop_name(struct tree_in *in) {
    const char *slash = strrchr(buf_str(&in->path), '/');

    in->path.len = slash ? (size_t)(slash - in->path.data) : 0;
    if (in->path.data)
        in->path.data[in->path.len] = 0;
}

/* What concerns one name is noted, and the rest goes on. */
static int note_entry(struct tree_in *in, int r, struct err *err) {
    const char *why = transfer_fault(r);

    if (r >= 0 || r == -EPROTO || r == -EPIPE || r == -ECONNRESET)
        return r;
    if (!why || in->t->whole || (in->one && in->depth == 0))
        return place_err(err, r, "write", in->path.len ? buf_str(&in->path) : in->name);
    return transfer_note(in->t, buf_str(&in->path), why, err);
}

/* -- files ---------------------------------------------------------------------------------------------------------------- */

static int pass_data(struct tree_in *in, int to) {
    while (in->left) {
        const uint8_t *part;
        long n = tree_get_data(in->io, (size_t)in->left, &part);
        int r;

        if (n < 0)
            return (int)n;
        in->left -= (uint64_t)n;
        r = to < 0 ? 0 : fd_write_all(to, part, (size_t)n);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Up to DONE. to -1: the bytes are dropped. */
static int pass_file(struct tree_in *in, int to, uint64_t *ret_bytes) {
    uint64_t size = 0;
    int r = pass_data(in, to);

    while (r == 0) {
        struct tree_record rec;

        r = tree_get(in->io, &rec);
        if (r < 0)
            return r;
        if (rec.kind == TREE_DONE) {
            in->in_file = false;
            *ret_bytes = size;
            return rec.value ? -EREMOTEIO : to >= 0 && ftruncate(to, (off_t)size) < 0 ? -errno : 0;
        }
        if (rec.kind != TREE_DATA && rec.kind != TREE_HOLE)
            return -EPROTO;
        if (rec.value > INT64_MAX - size)
            return -EFBIG;
        size += rec.value;
        in->left = rec.kind == TREE_DATA ? rec.value : 0;
        r = rec.kind == TREE_DATA ? pass_data(in, to) : to >= 0 && lseek(to, (off_t)size, SEEK_SET) < 0 ? -errno : 0;
    }
    return r;
}

static int fill_from_stream(void *arg, int to, uint64_t *ret_bytes) {
    return pass_file(arg, to, ret_bytes);
}

static int take_file(struct tree_in *in, const struct tree_record *rec, struct err *err) {
    const struct transfer_source from = {.fill = fill_from_stream, .arg = in, .changed = in->t->times ? (time_t)rec->value : 0};
    uint64_t bytes;
    int r, rest = 0;

    in->in_file = true;
    in->left = 0;
    r = in->skipped ? 0 : transfer_put_file(in->t, &from, in->to[in->depth], in->name, rec->mode);
    if (in->in_file && r != -EPROTO && (r >= 0 || transfer_fault(r)))
        rest = pass_file(in, -1, &bytes);
    if (rest < 0 && rest != -EREMOTEIO)
        return rest == -EFBIG ? -EPROTO : rest;
    if (r == -EREMOTEIO && (in->t->whole || (in->one && in->depth == 0)))
        return err_set(err, -EIO, "the file could not be read");
    return r == -EREMOTEIO ? transfer_note(in->t, buf_str(&in->path), "could not be read", err) : note_entry(in, r, err);
}

/* -- the rest ------------------------------------------------------------------------------------------------------------- */

static int take_link(struct tree_in *in, const struct tree_record *rec, struct err *err) {
    const char *target = in->io->text + strlen(in->io->text) + 1;

    if (in->skipped)
        return 0;
    if (strlen(target) != rec->len - (size_t)(target - in->io->text) || !target[0])
        return -EPROTO;
    if (in->t->out && !transfer_link_stays(target, in->depth))
        return transfer_note(in->t, buf_str(&in->path), "is a link that leads out of what is copied", err);
    return note_entry(in, transfer_put_link(in->t, target, in->to[in->depth], in->name), err);
}

static int enter_folder(struct tree_in *in, struct err *err) {
    bool made = false;
    int fd = in->skipped ? -ECANCELED : transfer_put_folder(in->t, in->to[in->depth], in->name, &made);
    int r = in->skipped ? 0 : note_entry(in, fd < 0 ? fd : 0, err);

    if (r < 0)
        return r;
    if (fd < 0) {
        in->skipped++;
        return 0;
    }
    in->depth++;
    in->to[in->depth] = fd;
    in->new_[in->depth] = made;
    return 0;
}

static int set_time(struct tree_in *in, int folder, uint64_t changed) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)changed}};

    return in->t->times && futimens(folder, times) < 0 ? -errno : 0;
}

static int leave_folder(struct tree_in *in, const struct tree_record *rec, struct err *err) {
    int *fd = &in->to[in->depth], r = 0;

    if (in->skipped) {
        in->skipped--;
        return 0;
    }
    if (in->depth == 0)
        return -EPROTO;
    if (in->new_[in->depth]) {
        r = transfer_set_mode(in->t, *fd, rec->mode);
        r = r < 0 ? r : set_time(in, *fd, rec->value);
    }
    closep(fd);
    in->depth--;
    return note_entry(in, r, err);
}

static int note_left(struct tree_in *in, uint64_t why, struct err *err) {
    static const char *const reasons[TREE_REASONS] = {[TREE_SPECIAL] = "is a device, FIFO or socket",
                                                      [TREE_DENIED] = "permission denied",
                                                      [TREE_KERNEL] = "belongs to the kernel",
                                                      [TREE_REPLACED] = "was replaced while it was copied"};

    if (in->t->whole && why != TREE_SPECIAL && why != TREE_KERNEL)
        return err_set(err, -EIO, "'%.300s' %s", buf_str(&in->path), reasons[why]);
    return in->skipped ? 0 : transfer_note(in->t, in->path.len ? buf_str(&in->path) : ".", reasons[why], err);
}

static int take_entry(struct tree_in *in, const struct tree_record *rec, struct err *err) {
    size_t name_len = strnlen(in->io->text, rec->len);
    bool named = name_len > 0 || rec->kind != TREE_LEFT;
    int r;

    if (named &&
        (!tree_name_ok(in->io->text, name_len) || (rec->kind == TREE_LINK ? name_len == rec->len : name_len != rec->len)))
        return -EPROTO;
    if (++in->t->entries > TRANSFER_ENTRIES_MAX)
        return err_set(err, -E2BIG, "more than %d files and folders: copy them in parts", TRANSFER_ENTRIES_MAX);
    if (rec->kind == TREE_FOLDER && in->depth + in->skipped >= WALK_DEPTH_MAX)
        return err_set(err, -ELOOP, "the folders are more than %d deep", WALK_DEPTH_MAX);
    memcpy(in->name, in->io->text, name_len);
    in->name[name_len] = 0;
    if (in->one && in->depth == 0 && rec->kind == TREE_FOLDER) /* notes are about what is in it */
        return enter_folder(in, err);
    r = named ? push_name(in, in->name, err) : 0;
    if (r < 0)
        return r;
    r = rec->kind == TREE_FOLDER ? enter_folder(in, err)
        : rec->kind == TREE_FILE ? take_file(in, rec, err)
        : rec->kind == TREE_LINK ? take_link(in, rec, err)
                                 : note_left(in, rec->value, err);
    if (named && rec->kind != TREE_FOLDER)
        pop_name(in);
    return r;
}

static int take_record(struct tree_in *in, const struct tree_record *rec, struct err *err) {
    int r;

    switch (rec->kind) {
    case TREE_FOLDER:
    case TREE_FILE:
    case TREE_LINK:
    case TREE_LEFT:
        return take_entry(in, rec, err);
    case TREE_LEAVE:
        r = leave_folder(in, rec, err);
        pop_name(in);
        return r;
    case TREE_SEND:
    case TREE_TAKE:
    case TREE_DATA:
    case TREE_HOLE:
    case TREE_DONE:
    case TREE_NOTE:
    case TREE_COUNTS:
    case TREE_END:
        break;
    }
    return -EPROTO;
}

static int end_of_tree(const struct tree_in *in, const struct tree_record *rec, struct err *err) {
    CLEANUP(buf_done) struct buf why = BUF_INIT(8 * TREE_TEXT_MAX);

    buf_add_printable(&why, in->io->text);
    if (rec->value)
        return err_set(err, -EREMOTEIO, "in the sandbox: %.800s", buf_str(&why));
    return in->depth || in->skipped ? -EPROTO : 0;
}

int tree_receive(struct tree_io *io, struct transfer *t, int to, bool one, struct err *err) {
    CLEANUP(tree_in_done) struct tree_in in = {.io = io, .t = t, .one = one, .path = BUF_INIT(WALK_PATH_MAX)};
    struct tree_record rec;
    int r;

    for (size_t i = 0; i < ARRAY_LEN(in.to); i++)
        in.to[i] = i ? -1 : to;
    do {
        r = tree_get(io, &rec);
        if (r == 0 && rec.kind == TREE_END)
            return end_of_tree(&in, &rec, err);
        r = r < 0 ? r : take_record(&in, &rec, err);
    } while (r >= 0);
    return r;
}
