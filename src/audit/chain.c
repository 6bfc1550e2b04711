/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/chain.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/fd.h"

enum { OPEN_TRIES = 8, OUT_MAX = 4 * 1024 * 1024 };

void chain_done(struct chain *c) {
    closep(&c->head);
    closep(&c->data);
}

bool chain_name_ok(const char *log, size_t len) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

    if (len == 0 || len > CHAIN_NAME_MAX || strchr("-_.", log[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!log[i] || !strchr(letters, log[i]))
            return false;
    return true;
}

void chain_file(const char *log, uint64_t number, char ret[static CHAIN_FILE_MAX]) {
    if (number)
        snprintf(ret, CHAIN_FILE_MAX, "%.*s.jsonl.%" PRIu64, CHAIN_NAME_MAX, log, number);
    else
        snprintf(ret, CHAIN_FILE_MAX, "%.*s.jsonl", CHAIN_NAME_MAX, log);
}

size_t chain_file_parse(const char *file, uint64_t *ret_number) {
    const char *end = strstr(file, ".jsonl");
    uint64_t n = 0;

    if (!end || !chain_name_ok(file, (size_t)(end - file)) ||
        (end[6] && (end[6] != '.' || parse_u64(end + 7, 1, INT64_MAX, &n, NULL) < 0)))
        return 0;
    *ret_number = n;
    return (size_t)(end - file);
}

int chain_open_file(const struct chain *c, const char *file, int flags) {
    CLEANUP(closep) int fd = openat(c->dir, file, flags | O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    struct stat st, folder;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if ((flags & O_CREAT) && st.st_size == 0 && st.st_uid == 0 && fstat(c->dir, &folder) == 0 && folder.st_uid != 0 &&
        fchown(fd, folder.st_uid, folder.st_gid) < 0)
        return -errno;
    return TAKE_FD(fd);
}

/* -- the lock ------------------------------------------------------------------------------------------------------------ */

static int open_head(struct chain *c) {
    char file[CHAIN_FILE_MAX];

    snprintf(file, sizeof file, "%.*s.head", CHAIN_NAME_MAX, c->log);
    chain_done(c);
    c->head = chain_open_file(c, file, O_CREAT);
    c->pid = getpid();
    return c->head < 0 ? c->head : 0;
}

/* A head that was removed while we waited for it locks nothing any more. */
static int lock(struct chain *c) {
    struct stat st;

    for (int i = 0; i < OPEN_TRIES; i++) {
        int r = c->head < 0 || c->pid != getpid() ? open_head(c) : 0;

        if (r < 0)
            return r;
        while (flock(c->head, LOCK_EX) < 0)
            if (errno != EINTR)
                return -errno;
        if (fstat(c->head, &st) < 0)
            return -errno;
        if (st.st_nlink)
            return 0;
        chain_done(c);
    }
    return -ESTALE;
}

static int open_data(struct chain *c, const struct chain_head *h) {
    char file[CHAIN_FILE_MAX];

    closep(&c->data);
    chain_file(c->log, 0, file);
    c->data = chain_open_file(c, file, O_APPEND | (h->size ? 0 : O_CREAT));
    c->number = h->number;
    return c->data < 0 ? c->data : 0;
}

/* 1: the open file is the one that the head tells of, and has its size. */
static int fits(struct chain *c, const struct chain_head *h) {
    struct stat st;

    if (c->data < 0 || c->number != h->number)
        return 0;
    if (fstat(c->data, &st) < 0)
        return -errno;
    return st.st_nlink && (uint64_t)st.st_size == h->size;
}

static int begin(struct chain *c, struct chain_head *h) {
    uint64_t last;
    struct stat st;
    char file[CHAIN_FILE_MAX];
    int r = chain_last_number(c, &last);

    chain_file(c->log, 0, file);
    if (r == 0 && (last || (fstatat(c->dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size))) {
        h->number = 0;
        return 0;
    }
    chain_start(c->log, h);
    return r < 0 ? r : chain_head_write(c->head, h);
}

/* The file is open, and head and file say the same. */
static int ready(struct chain *c, struct chain_head *h, struct buf *record) {
    int r = chain_head_read(c->head, h);
    bool fresh = r == -ENODATA;

    if (fresh)
        r = begin(c, h);
    else if (r == -EBADMSG) {
        h->number = 0;
        r = 0;
    }
    if (r < 0)
        return r;
    if (h->number && h->seq == 0 && h->size == 0 && !str_eq(c->log, CHAIN_INDEX)) {
        r = chain_note_new(c, fresh);
        if (r < 0)
            return r;
    }
    r = h->number ? fits(c, h) : 0;
    if (r == 0 && h->number) {
        r = open_data(c, h);
        r = r == -ENOENT ? 0 : r < 0 ? r : fits(c, h);
    }
    if (r == 0)
        r = chain_repair(c, h, record);
    if (r >= 0 && h->size > (c->full ? c->full : AUDIT_SIZE_MAX - AUDIT_LINE_MAX) && !str_eq(c->log, CHAIN_INDEX))
        r = chain_rotate(c, h);
    if (r >= 0 && c->data < 0)
        r = open_data(c, h);
    return r < 0 ? r : 0;
}

/* -- appending ----------------------------------------------------------------------------------------------------------- */

static void add_hash(struct buf *b, size_t from, char ret[static SHA256_HEX_SIZE]) {
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, b->data + from, b->len - from);
    sha256_end_hex(&h, ret);
    buf_adds(b, ",\"hash\":\"");
    buf_add(b, ret, SHA256_HEX_SIZE - 1);
}

static void add_lines(struct buf *out, const char *records, size_t len, struct chain_head *h) {
    for (const char *at = records, *end; len; len -= (size_t)(end - at) + 1, at = end + 1) {
        size_t from = out->len;
        char seq[40];

        end = memchr(at, '\n', len);
        if (!end)
            BUG("a record without its end");
        snprintf(seq, sizeof seq, "{\"seq\":%" PRIu64 ",", ++h->seq);
        buf_adds(out, seq);
        buf_add(out, at, (size_t)(end - at));
        buf_adds(out, ",\"prev\":\"");
        buf_add(out, h->hash, SHA256_HEX_SIZE - 1);
        buf_addc(out, '"');
        if (!buf_ok(out))
            return;
        add_hash(out, from, h->hash);
        buf_adds(out, "\"}\n");
    }
}

static int append(struct chain *c, const char *records, size_t len) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUT_MAX), repaired = BUF_INIT(AUDIT_LINE_MAX);
    struct chain_head h = {0}, before;
    int r = ready(c, &h, &repaired);

    if (r < 0)
        return r;
    before = h;
    add_lines(&out, buf_str(&repaired), repaired.len, &h);
    add_lines(&out, records, len, &h);
    if (!buf_ok(&out) || !buf_ok(&repaired))
        return -ENOMEM;
    r = fd_write_all(c->data, out.data, out.len);
    h.size += out.len;
    r = r < 0 ? r : chain_head_write(c->head, &h);
    if (r < 0 && ftruncate(c->data, (off_t)before.size) < 0) /* what is half there is cut off: here, or by the next writer */
        closep(&c->data);
    return r;
}

/* Signals are blocked: a writer stopped by ^Z in between would hold up every other one. */
int chain_append(struct chain *c, const char *records, size_t len) {
    sigset_t all, old;
    int r;

    if (len == 0)
        return 0;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    r = lock(c);
    if (r == 0) {
        r = append(c, records, len);
        flock(c->head, LOCK_UN);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    return r;
}
