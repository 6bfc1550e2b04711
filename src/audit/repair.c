/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a writer that was killed, a machine that went down, or somebody's hand has left. The cases:
 *
 *   more than the head says   lines of a writer that was killed before it wrote the head: taken over if they go on with the
 *                             chain. The rest is cut off: half a line ("torn"), which nobody was told was written; or something
 *                             else ("foreign")
 *   less than the head says   "lost": the chain goes on from the head, so that the gap stays visible
 *   no file                   a rotation that was not finished, or "lost"
 *   no head                   "head": the chain goes on from the last line that is there; what was behind it nobody knows
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/chain.h"
#include "base/str.h"
#include "os/fd.h"

enum { REPAIR_MEMBERS_MAX = 1024 };

struct rest {
    uint64_t from, bytes; /* what does not belong there */
    bool torn;
};

/* Follows the chain from *h, which is moved to the last line that fits. */
static int follow(int fd, uint64_t size, struct chain_head *h, struct rest *ret) {
    CLEANUP(chain_reader_done) struct chain_reader reader = {0};
    struct chain_line line;
    const char *text;
    size_t len;
    int r = chain_reader_init(&reader, fd, h->size, size);

    while (r >= 0 && (r = chain_reader_next(&reader, &text, &len)) > 0) {
        if (chain_line_read(text, len, &line) < 0 || !line.intact || line.seq != h->seq + 1 || strcmp(line.prev, h->hash) != 0)
            break;
        h->seq = line.seq;
        memcpy(h->hash, line.hash, sizeof h->hash);
        h->size = reader.at;
    }
    *ret = (struct rest){.from = h->size, .bytes = size - h->size, .torn = r == 0};
    return r < 0 ? r : 0;
}

/* Where the last whole line ends, and, if h is not NULL, what it is. What stands before it is for `bawn log verify` to judge:
 * nothing that may be evidence is cut off here. */
static int find_end(int fd, uint64_t size, struct chain_head *h, struct rest *ret) {
    CLEANUP(chain_reader_done) struct chain_reader reader = {0};
    struct chain_line line;
    const char *text;
    size_t len;
    int r = chain_reader_init(&reader, fd, 0, size);

    while (r >= 0 && (r = chain_reader_next(&reader, &text, &len)) > 0)
        if (h && chain_line_read(text, len, &line) == 0) {
            h->seq = line.seq;
            memcpy(h->hash, line.hash, sizeof h->hash);
        }
    if (r < 0)
        return r;
    *ret = (struct rest){.from = reader.at, .bytes = size - reader.at, .torn = true};
    return 0;
}

/* A digest instead of the bytes: they may be anything. */
static int cut(int fd, const struct rest *rest, struct buf *members) {
    enum { CUT_READ_MAX = 64 * 1024 };
    CLEANUP(freep) char *bytes = malloc(CUT_READ_MAX);
    char hex[SHA256_HEX_SIZE];
    ssize_t n = bytes ? pread(fd, bytes, MIN_OF(rest->bytes, (uint64_t)CUT_READ_MAX), (off_t)rest->from) : -1;

    if (n < 0)
        return bytes ? -errno : -ENOMEM;
    sha256_hex(bytes, (size_t)n, hex);
    audit_add_number(members, "bytes", (int64_t)rest->bytes);
    audit_add(members, "sha256", hex);
    return ftruncate(fd, (off_t)rest->from) < 0 ? -errno : 0;
}

static void tell(const struct chain *c, const char *what, struct buf *members, struct buf *record) {
    CLEANUP(buf_done) struct buf all = BUF_INIT(REPAIR_MEMBERS_MAX);

    audit_add(&all, "what", what);
    if (members->len) {
        buf_addc(&all, ',');
        buf_add(&all, members->data, members->len);
    }
    chain_record(record, audit_type_names[AUDIT_REPAIR], c->ids, buf_str(&all));
}

static int repair_longer(struct chain *c, uint64_t size, struct chain_head *h, struct buf *record) {
    CLEANUP(buf_done) struct buf members = BUF_INIT(REPAIR_MEMBERS_MAX);
    struct rest rest;
    int r = follow(c->data, size, h, &rest);

    if (r < 0 || rest.bytes == 0)
        return r;
    r = cut(c->data, &rest, &members);
    if (r == 0)
        tell(c, rest.torn ? "torn" : "foreign", &members, record);
    return r;
}

/* Only the bytes behind the last whole line are cut off; the next number is the one behind the head's. */
static int repair_shorter(struct chain *c, uint64_t size, struct chain_head *h, struct buf *record) {
    CLEANUP(buf_done) struct buf members = BUF_INIT(REPAIR_MEMBERS_MAX);
    struct rest rest;
    int r = find_end(c->data, size, NULL, &rest);

    if (r < 0)
        return r;
    audit_add_number(&members, "lost", (int64_t)(h->size - rest.from));
    r = rest.bytes ? cut(c->data, &rest, &members) : 0;
    h->size = rest.from;
    if (r == 0)
        tell(c, "lost", &members, record);
    return r;
}

/* The file is not there: it has got its number already, or it is gone. */
static int repair_missing(struct chain *c, struct chain_head *h, struct buf *record) {
    CLEANUP(buf_done) struct buf members = BUF_INIT(REPAIR_MEMBERS_MAX);
    char full[CHAIN_FILE_MAX];
    struct stat st;

    chain_file(c->log, h->number, full);
    if (fstatat(c->dir, full, &st, AT_SYMLINK_NOFOLLOW) == 0 && (uint64_t)st.st_size == h->size) {
        h->number++;
    } else {
        audit_add_number(&members, "lost", (int64_t)h->size);
        tell(c, "lost", &members, record);
    }
    h->size = 0;
    return 0;
}

static int repair_head(struct chain *c, struct chain_head *h, struct buf *record) {
    CLEANUP(buf_done) struct buf members = BUF_INIT(REPAIR_MEMBERS_MAX);
    CLEANUP(closep) int before = -1;
    char file[CHAIN_FILE_MAX];
    struct rest rest = {0};
    uint64_t last = 0;
    struct stat st = {0};
    int r = chain_last_number(c, &last);

    chain_start(c->log, h);
    if (r == 0 && last) { /* in case the current file has no line yet */
        chain_file(c->log, last, file);
        before = chain_open_file(c, file, 0);
        if (before >= 0 && fstat(before, &st) == 0)
            r = find_end(before, (uint64_t)st.st_size, h, &rest);
    }
    h->number = last + 1;
    h->size = 0;
    closep(&c->data);
    chain_file(c->log, 0, file);
    c->data = r < 0 ? -1 : chain_open_file(c, file, O_APPEND | O_CREAT);
    c->number = h->number;
    if (c->data < 0 || fstat(c->data, &st) < 0)
        return r < 0 ? r : c->data < 0 ? c->data : -errno;
    r = find_end(c->data, (uint64_t)st.st_size, h, &rest);
    h->size = rest.from;
    if (r == 0 && rest.bytes)
        r = cut(c->data, &rest, &members);
    if (r == 0)
        tell(c, "head", &members, record);
    return r;
}

int chain_repair(struct chain *c, struct chain_head *h, struct buf *record) {
    struct stat st;

    if (h->number == 0)
        return repair_head(c, h, record);
    if (c->data < 0)
        return repair_missing(c, h, record);
    if (fstat(c->data, &st) < 0)
        return -errno;
    return (uint64_t)st.st_size > h->size ? repair_longer(c, (uint64_t)st.st_size, h, record)
                                          : repair_shorter(c, (uint64_t)st.st_size, h, record);
}
