/* SPDX-License-Identifier: Apache-2.0 */
/* Appends to a log under its lock. */
#include "audit/chain.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/hex.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/clock.h"
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
static int lock_head(struct chain *c) {
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

/* 1: the open file is that of the head, and has its size. */
static int head_fits(struct chain *c, const struct chain_head *h) {
    struct stat st;

    if (c->data < 0 || c->number != h->number)
        return 0;
    if (fstat(c->data, &st) < 0)
        return -errno;
    return st.st_nlink && (uint64_t)st.st_size == h->size;
}

static int begin_log(struct chain *c, struct chain_head *h) {
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
static int make_ready(struct chain *c, struct chain_head *h, struct buf *record) {
    int r = chain_head_read(c->head, h);
    bool fresh = r == -ENODATA;

    if (fresh)
        r = begin_log(c, h);
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
    r = h->number ? head_fits(c, h) : 0;
    if (r == 0 && h->number) {
        r = open_data(c, h);
        r = r == -ENOENT ? 0 : r < 0 ? r : head_fits(c, h);
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
        sha256_hex(out->data + from, out->len - from, h->hash);
        buf_adds(out, ",\"hash\":\"");
        buf_add(out, h->hash, SHA256_HEX_SIZE - 1);
        buf_adds(out, "\"}\n");
    }
}

static int append_locked(struct chain *c, const char *records, size_t len) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUT_MAX), repaired = BUF_INIT(AUDIT_LINE_MAX);
    struct chain_head h = {0}, before;
    int r = make_ready(c, &h, &repaired);

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
    r = lock_head(c);
    if (r == 0) {
        r = append_locked(c, records, len);
        flock(c->head, LOCK_UN);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    return r;
}

/* -- lines and heads ------------------------------------------------------------------------------------------------------ */

static const char prev_key[] = ",\"prev\":\"", hash_key[] = ",\"hash\":\"", seq_key[] = "{\"seq\":";
enum { HASH = SHA256_HEX_SIZE - 1, PREV_KEY = sizeof prev_key - 1, HASH_KEY = sizeof hash_key - 1, SEQ_KEY = sizeof seq_key - 1 };
enum { HASH_PART = HASH_KEY + HASH + 2, PREV_PART = PREV_KEY + HASH + 1, SEQ_DIGITS_MAX = 19 };

void chain_record(struct buf *b, const char *type, const char *ids, const char *members) {
    char pid[32], time[CLOCK_TEXT_SIZE];

    snprintf(pid, sizeof pid, ",\"pid\":%d", (int)getpid());
    buf_adds(b, "\"time\":\"");
    buf_adds(b, clock_text(clock_mark(), CLOCK_ISO_US, time));
    buf_adds(b, "\",\"type\":\"");
    buf_adds(b, type);
    buf_adds(b, "\",");
    buf_adds(b, ids);
    buf_adds(b, pid);
    if (members && members[0]) {
        buf_addc(b, ',');
        buf_adds(b, members);
    }
    buf_addc(b, '\n');
}

void chain_start(const char *log, struct chain_head *ret) {
    char text[CHAIN_NAME_MAX + 32];
    int n = snprintf(text, sizeof text, "bawn audit %.*s", CHAIN_NAME_MAX, log);

    *ret = (struct chain_head){.number = 1};
    sha256_hex(text, (size_t)n, ret->hash);
}

static void take_hash(const char *from, char ret[static SHA256_HEX_SIZE]) {
    memcpy(ret, from, HASH);
    ret[HASH] = 0;
}

/* Plain decimal without leading zeros, then a comma. */
static int read_seq(const char *s, size_t len, uint64_t *ret) {
    uint64_t n = 0;
    size_t i = 0;

    for (; i < len && i < SEQ_DIGITS_MAX && s[i] >= '0' && s[i] <= '9'; i++)
        n = n * 10 + (uint64_t)(s[i] - '0');
    if (i == 0 || s[0] == '0' || i == len || s[i] != ',')
        return -EBADMSG;
    *ret = n;
    return 0;
}

int chain_line_read(const char *line, size_t len, struct chain_line *ret) {
    const char *hash, *prev;
    char real[SHA256_HEX_SIZE];

    if (len < SEQ_KEY + PREV_PART + HASH_PART || memcmp(line, seq_key, SEQ_KEY) != 0)
        return -EBADMSG;
    hash = line + len - HASH_PART;
    prev = hash - PREV_PART;
    if (memcmp(hash, hash_key, HASH_KEY) != 0 || memcmp(prev, prev_key, PREV_KEY) != 0 || hash[-1] != '"' ||
        memcmp(line + len - 2, "\"}", 2) != 0 || !hex_is_lower(hash + HASH_KEY, HASH) || !hex_is_lower(prev + PREV_KEY, HASH) ||
        read_seq(line + SEQ_KEY, (size_t)(prev - line) - SEQ_KEY, &ret->seq) < 0)
        return -EBADMSG;
    take_hash(prev + PREV_KEY, ret->prev);
    take_hash(hash + HASH_KEY, ret->hash);
    sha256_hex(line, (size_t)(hash - line), real);
    ret->intact = memcmp(real, ret->hash, HASH) == 0;
    return 0;
}

/* -- the head ------------------------------------------------------------------------------------------------------------ */

#define HEAD_FORMAT "%020" PRIu64 " %020" PRIu64 " %020" PRIu64 " %s\n"
enum { NUMBER_WIDTH = 20 };

static int read_number(const char *s, uint64_t *ret) {
    uint64_t n = 0;

    for (size_t i = 0; i < NUMBER_WIDTH; i++) {
        if (s[i] < '0' || s[i] > '9' || n > UINT64_MAX / 10 - 1)
            return -EBADMSG;
        n = n * 10 + (uint64_t)(s[i] - '0');
    }
    *ret = n;
    return s[NUMBER_WIDTH] == ' ' ? 0 : -EBADMSG;
}

int chain_head_read(int fd, struct chain_head *ret) {
    enum { AT_HASH = 3 * (NUMBER_WIDTH + 1) };
    char text[CHAIN_HEAD_SIZE + 1];
    struct chain_head h;
    ssize_t n = pread(fd, text, sizeof text, 0);

    if (n <= 0)
        return n < 0 ? -errno : -ENODATA;
    if (n != CHAIN_HEAD_SIZE || read_number(text, &h.seq) < 0 || read_number(text + NUMBER_WIDTH + 1, &h.size) < 0 ||
        read_number(text + 2 * (NUMBER_WIDTH + 1), &h.number) < 0 || h.number == 0 || !hex_is_lower(text + AT_HASH, HASH) ||
        text[AT_HASH + HASH] != '\n')
        return -EBADMSG;
    take_hash(text + AT_HASH, h.hash);
    *ret = h;
    return 0;
}

int chain_head_write(int fd, const struct chain_head *h) {
    char text[CHAIN_HEAD_SIZE + 1];
    ssize_t n;

    static_assert(3 * (NUMBER_WIDTH + 1) + HASH + 1 == CHAIN_HEAD_SIZE, "the head has one size");
    snprintf(text, sizeof text, HEAD_FORMAT, h->seq, h->size, h->number, h->hash);
    n = pwrite(fd, text, CHAIN_HEAD_SIZE, 0);
    if (n < 0)
        return -errno;
    return n == CHAIN_HEAD_SIZE ? 0 : -EIO;
}

/* -- reading ------------------------------------------------------------------------------------------------------------- */

enum { READER_SIZE = 2 * AUDIT_LINE_MAX };

int chain_reader_init(struct chain_reader *r, int fd, uint64_t from, uint64_t end) {
    *r = (struct chain_reader){.fd = fd, .at = from, .end = end, .offset = from, .data = malloc(READER_SIZE)};
    return r->data ? 0 : -ENOMEM;
}

void chain_reader_done(struct chain_reader *r) {
    free(r->data);
    r->data = NULL;
}

/* Reads more bytes. 0: there are none. */
static ssize_t read_more(struct chain_reader *r) {
    uint64_t next = r->offset + r->len;
    ssize_t n;

    if (r->used) {
        memmove(r->data, r->data + r->used, r->len - r->used);
        r->offset += r->used;
        r->len -= r->used;
        r->used = 0;
    }
    if (next >= r->end || r->len == READER_SIZE)
        return 0;
    n = pread(r->fd, r->data + r->len, MIN_OF(READER_SIZE - r->len, r->end - next), (off_t)next);
    if (n < 0)
        return errno == EINTR ? read_more(r) : -errno;
    r->len += (size_t)n;
    return n;
}

int chain_reader_next(struct chain_reader *r, const char **ret_line, size_t *ret_len) {
    bool long_ = false;

    for (;;) {
        char *from = r->data + r->used, *end = memchr(from, '\n', r->len - r->used);
        ssize_t n;

        if (end) {
            *ret_line = from;
            *ret_len = long_ || end - from > AUDIT_LINE_MAX ? 0 : (size_t)(end - from);
            r->used += (size_t)(end - from) + 1;
            r->at = r->offset + r->used;
            return 1;
        }
        if (r->len - r->used == READER_SIZE) {
            long_ = true;
            r->used = r->len;
        }
        n = read_more(r);
        if (n <= 0)
            return (int)n;
    }
}
