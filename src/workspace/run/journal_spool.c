/* SPDX-License-Identifier: Apache-2.0 */
/* Takes over what the guard put into the spool. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/fd.h"
#include "workspace/run/journal_priv.h"
#include "workspace/run/spool.h"

/* O_EXCL: a journal that has one already is not opened for writing. */
int journal_spool_make(struct journal *j) {
    CLEANUP(closep) int out = openat(j->dir, SPOOL_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (out < 0)
        return -errno;
    free(j->spool.data);
    j->spool.data = malloc(SPOOL_SIZE);
    j->spool.fd = openat(j->dir, SPOOL_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (!j->spool.data || j->spool.fd < 0) {
        int r = j->spool.data ? -errno : -ENOMEM;

        journal_spool_end(j);
        return r;
    }
    return TAKE_FD(out);
}

static struct journal_entry entry_of(const struct spool_entry *e) {
    const struct spool_head *h = &e->head;

    return (struct journal_entry){.kind = S_ISREG(h->mode)   ? JOURNAL_FILE
                                          : S_ISDIR(h->mode) ? JOURNAL_DIR
                                                             : JOURNAL_ABSENT,
                                  .path = e->path,
                                  .mode = h->mode & 07777,
                                  .size = S_ISREG(h->mode) ? h->size : 0,
                                  .mtime_ns = S_ISREG(h->mode) ? h->mtime_ns : 0,
                                  .dev = h->dev,
                                  .ino = h->ino,
                                  .named = h->named != 0};
}

static int take_entry(struct journal *j, const struct spool_entry *s, journal_spool_fn *judge, void *arg, struct err *err) {
    struct journal_entry e = entry_of(s);
    int r = journal_is_path(s->path, s->head.path_len) ? judge(arg, s) : -EINVAL;

    if (r < 0)
        return err_set(err, r, "the guard said what it may not");
    r = journal_add_bytes(j, &e, r > 0 ? s->content : NULL, err);
    return r < 0 ? r : 0;
}

/* From where it was left on, up to `len`; entries that are not whole, or old, end it. */
static int take_up_to(struct journal *j, size_t len, journal_spool_fn *judge, void *arg, struct err *err) {
    size_t used;
    ssize_t n = pread(j->spool.fd, j->spool.data, len - j->spool.at, (off_t)j->spool.at);
    struct spool_entry e;
    int r = 0;

    if (n < 0)
        return err_sys(err, -errno, "read the guard's spool");
    for (size_t at = 0; r == 0; at += used) {
        used = spool_decode(j->spool.data + at, (size_t)n - at, j->spool.seq ? j->spool.seq + 1 : 0, &e);
        if (used == 0)
            return 0;
        r = take_entry(j, &e, judge, arg, err);
        j->spool.seq = r == 0 ? e.head.seq : j->spool.seq;
        j->spool.at += r == 0 ? used : 0; /* what cannot be recorded now is tried again */
    }
    return r;
}

int journal_spool_take(struct journal *j, size_t len, bool rewind, journal_spool_fn *judge, void *arg, struct err *err) {
    int r;

    if (j->spool.fd < 0)
        return 0;
    if (len > SPOOL_SIZE || len < j->spool.at)
        return err_set(err, -EBADMSG, "the guard's spool has no %zu bytes", len);
    r = len > j->spool.at ? take_up_to(j, len, judge, arg, err) : 0;
    if (r == 0 && j->spool.at != len)
        return err_set(err, -EBADMSG, "the guard's spool is damaged");
    if (r == 0 && rewind)
        j->spool.at = 0;
    return r;
}

int journal_spool_rest(struct journal *j, journal_spool_fn *judge, void *arg, struct err *err) {
    return j->spool.fd < 0 ? 0 : take_up_to(j, SPOOL_SIZE, judge, arg, err);
}

void journal_spool_end(struct journal *j) {
    if (j->spool.fd < 0 && !j->spool.data)
        return;
    unlinkat(j->dir, SPOOL_NAME, 0);
    closep(&j->spool.fd);
    free(TAKE_PTR(j->spool.data));
}

/* -- what a crash left, or a run that goes on has just now ---------------------------------------------------------------- */

int journal_spool_find(struct journal *j) {
    CLEANUP(closep) int fd = openat(j->dir, SPOOL_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -EBADMSG;
    j->spool.data = malloc(SPOOL_SIZE);
    n = j->spool.data ? fd_read_full(fd, j->spool.data, SPOOL_SIZE) : -ENOMEM;
    j->spool.len = n < 0 ? 0 : (size_t)n;
    return n < 0 ? (int)n : 0;
}

static int index_entry(struct journal *j, const struct spool_entry *s) {
    struct journal_slot *slot = calloc(1, sizeof *slot);

    if (!slot || journal_reserve(j) < 0) {
        free(slot);
        return -ENOMEM;
    }
    *slot = (struct journal_slot){
        .e = entry_of(s), .hash = journal_hash(j, s->path), .form = s->head.named ? JOURNAL_NAMED : JOURNAL_SPOOLED};
    slot->e.unjudged = true;
    if (slot->e.kind == JOURNAL_FILE && !slot->e.named)
        slot->e.blob = (uint64_t)(s->content - j->spool.data) + 1;
    journal_insert(j, slot);
    return 0;
}

/* The supervisor that would have judged it is dead, and the rules that hide files are not known here: it is marked, and who would obey it judges. */
static int load_entry(struct journal *j, const struct spool_entry *s) {
    if (!journal_is_path(s->path, s->head.path_len))
        return -EBADMSG;
    if (journal_lookup(j, s->path, journal_hash(j, s->path)))
        return 0; /* taken over before */
    return index_entry(j, s);
}

int journal_spool_load(struct journal *j) {
    struct spool_entry e;
    uint64_t seq = 0;
    size_t at = 0, used;
    int r = 0;

    if (!j->spool.data)
        return 0;
    if (j->write) /* a run in direct mode does not go on after its end */
        return -EEXIST;
    while (r == 0 && (used = spool_decode(j->spool.data + at, j->spool.len - at, seq, &e)) > 0) {
        r = load_entry(j, &e);
        seq = e.head.seq + 1;
        at += used;
    }
    return r == -EBADMSG ? 0 : r; /* not written by the guard: what follows is worth nothing */
}
