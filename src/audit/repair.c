/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a killed writer, a power cut or a manual edit has left. The cases:
 *
 *   more than the head says   lines of a writer that was killed before it wrote the head: taken over if they continue the
 *                             chain. The rest is cut off: half a line ("torn"), which was never reported as written; or something
 *                             else ("foreign")
 *   less than the head says   "lost": the chain continues from the head, so that the gap stays visible
 *   no file                   a rotation that was not finished, or "lost"
 *   no head                   "head": the chain continues from the last line that is there; what followed it is not known
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/chain.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/dir.h"
#include "os/fd.h"

enum { REPAIR_MEMBERS_MAX = 1024 };

struct rest {
    uint64_t from, bytes; /* what does not belong there */
    bool torn;
};

/* Follows the chain from *h, which is moved to the last line that fits. */
static int follow_chain(int fd, uint64_t size, struct chain_head *h, struct rest *ret) {
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

/* Where the last whole line ends, from an offset on, and, if h is not NULL, what it is. What comes before it is for
 * `bawn log verify` to judge: nothing that may be evidence is cut off here. */
static int find_end(int fd, uint64_t from, uint64_t size, struct chain_head *h, struct rest *ret) {
    CLEANUP(chain_reader_done) struct chain_reader reader = {0};
    struct chain_line line;
    const char *text;
    size_t len;
    int r = chain_reader_init(&reader, fd, from, size);

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
static int cut_off(int fd, const struct rest *rest, struct buf *members) {
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

static void add_repair_record(const struct chain *c, const char *what, struct buf *members, struct buf *record) {
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
    int r = follow_chain(c->data, size, h, &rest);

    if (r < 0 || rest.bytes == 0)
        return r;
    r = cut_off(c->data, &rest, &members);
    if (r == 0)
        add_repair_record(c, rest.torn ? "torn" : "foreign", &members, record);
    return r;
}

/* Only the bytes after the last whole line are cut off; the next number follows the head's. */
static int repair_shorter(struct chain *c, uint64_t size, struct chain_head *h, struct buf *record) {
    CLEANUP(buf_done) struct buf members = BUF_INIT(REPAIR_MEMBERS_MAX);
    struct rest rest;
    int r = find_end(c->data, 0, size, NULL, &rest);

    if (r < 0)
        return r;
    audit_add_number(&members, "lost", (int64_t)(h->size - rest.from));
    r = rest.bytes ? cut_off(c->data, &rest, &members) : 0;
    h->size = rest.from;
    if (r == 0)
        add_repair_record(c, "lost", &members, record);
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
        add_repair_record(c, "lost", &members, record);
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
            r = find_end(before, 0, (uint64_t)st.st_size, h, &rest);
    }
    h->number = last + 1;
    h->size = 0;
    closep(&c->data);
    chain_file(c->log, 0, file);
    c->data = r < 0 ? -1 : chain_open_file(c, file, O_APPEND | O_CREAT);
    c->number = h->number;
    if (c->data < 0 || fstat(c->data, &st) < 0)
        return r < 0 ? r : c->data < 0 ? c->data : -errno;
    r = find_end(c->data, 0, (uint64_t)st.st_size, h, &rest);
    h->size = rest.from;
    if (r == 0 && rest.bytes)
        r = cut_off(c->data, &rest, &members);
    if (r == 0)
        add_repair_record(c, "head", &members, record);
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

/* -- rotation ------------------------------------------------------------------------------------------------------------- */

/* A full file gets its number, the oldest are dropped, and both is said in the index first. */

enum { INDEX_RECORD_MAX = 1024 };

static int note_in_index(struct chain *c, const char *event, uint64_t number, const struct chain_head *h) {
    CLEANUP(chain_done) struct chain index = {.dir = c->dir, .log = CHAIN_INDEX, .ids = c->ids, .head = -1, .data = -1};
    CLEANUP(buf_done) struct buf record = BUF_INIT(AUDIT_LINE_MAX), members = BUF_INIT(INDEX_RECORD_MAX);

    audit_add(&members, "event", event);
    audit_add(&members, "log", c->log);
    if (number) {
        audit_add_number(&members, "number", (int64_t)number);
        audit_add_number(&members, "last_seq", (int64_t)h->seq);
        audit_add(&members, "last_hash", h->hash);
    }
    chain_record(&record, "file", c->ids, buf_str(&members));
    return buf_ok(&members) && buf_ok(&record) ? chain_append(&index, record.data, record.len) : -ENOMEM;
}

static int is_noted(const struct chain *c) {
    CLEANUP(chain_reader_done) struct chain_reader reader = {0};
    CLEANUP(closep) int fd = chain_open_file(c, CHAIN_INDEX ".jsonl", 0);
    char member[CHAIN_NAME_MAX + 32];
    int n = snprintf(member, sizeof member, "\"event\":\"new\",\"log\":\"%s\"", c->log);
    const char *text;
    struct stat st;
    size_t len;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return fd == -ENOENT ? 0 : fd < 0 ? fd : -errno;
    r = chain_reader_init(&reader, fd, 0, (uint64_t)st.st_size);
    while (r >= 0 && (r = chain_reader_next(&reader, &text, &len)) > 0)
        if (memmem(text, len, member, (size_t)n))
            return 1;
    return r;
}

int chain_note_new(struct chain *c, bool fresh) {
    int r = fresh ? 0 : is_noted(c);

    return r < 0 ? r : r ? 0 : note_in_index(c, "new", 0, NULL);
}

int chain_last_number(const struct chain *c, uint64_t *ret) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    char prefix[CHAIN_FILE_MAX];
    const struct dirent *e;
    uint64_t most = 0, n;
    int r = dir_open_at(c->dir, ".", &d);

    chain_file(c->log, 0, prefix);
    while ((e = dir_next(&d)))
        if (str_starts(e->d_name, prefix) && e->d_name[strlen(prefix)] == '.' &&
            parse_u64(e->d_name + strlen(prefix) + 1, 1, INT64_MAX, &n, NULL) == 0)
            most = MAX_OF(most, n);
    if (r < 0 || d.error < 0)
        return r < 0 ? r : d.error;
    *ret = most;
    return 0;
}

/* The index says how it ended. */
static int drop_file(struct chain *c, uint64_t number) {
    CLEANUP(closep) int fd = -1;
    struct chain_head end = {0};
    char file[CHAIN_FILE_MAX];
    struct rest rest;
    struct stat st;
    int r;

    chain_file(c->log, number, file);
    fd = chain_open_file(c, file, 0);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fd == -ENOENT ? 0 : fd < 0 ? fd : -errno;
    r = find_end(fd, (uint64_t)MAX_OF(st.st_size - AUDIT_LINE_MAX, 0), (uint64_t)st.st_size, &end, &rest);
    r = r < 0 ? r : note_in_index(c, "dropped", number, &end);
    return r < 0 ? r : unlinkat(c->dir, file, 0) < 0 ? -errno : 0;
}

int chain_rotate(struct chain *c, struct chain_head *h) {
    char file[CHAIN_FILE_MAX], full[CHAIN_FILE_MAX];
    uint64_t number = h->number;
    int r = note_in_index(c, "rotated", number, h);

    chain_file(c->log, 0, file);
    chain_file(c->log, number, full);
    if (r == 0 && faccessat(c->dir, full, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        r = -EEXIST;
    if (r == 0 && renameat(c->dir, file, c->dir, full) < 0)
        r = -errno;
    if (r < 0)
        return r;
    closep(&c->data);
    h->number++;
    h->size = 0;
    r = chain_head_write(c->head, h);
    /* A crash may have left one more; a file that cannot be removed takes space, and holds up nothing. */
    for (uint64_t i = 0; r == 0 && i < 2 && number > AUDIT_FILES_MAX + i; i++)
        (void)drop_file(c, number - AUDIT_FILES_MAX - i);
    return r;
}
