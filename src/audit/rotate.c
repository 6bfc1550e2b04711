/* SPDX-License-Identifier: Apache-2.0 */
/* A full file gets its number, the oldest are dropped, and both is said in the index first. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/chain.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/fd.h"

enum { INDEX_RECORD_MAX = 1024 };

static int note(struct chain *c, const char *event, uint64_t number, const struct chain_head *h) {
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

    return r < 0 ? r : r ? 0 : note(c, "new", 0, NULL);
}

int chain_last_number(const struct chain *c, uint64_t *ret) {
    int fd = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    char prefix[CHAIN_FILE_MAX];
    uint64_t most = 0, n;
    struct dirent *e;

    if (!d) {
        int r = -errno;

        closep(&fd);
        return r;
    }
    chain_file(c->log, 0, prefix);
    while ((e = readdir(d)))
        if (str_starts(e->d_name, prefix) && e->d_name[strlen(prefix)] == '.' &&
            parse_u64(e->d_name + strlen(prefix) + 1, 1, INT64_MAX, &n, NULL) == 0)
            most = MAX_OF(most, n);
    closedir(d);
    *ret = most;
    return 0;
}

/* The last line of a file that is full, for the index. */
static int read_end(const struct chain *c, const char *file, struct chain_head *ret) {
    CLEANUP(chain_reader_done) struct chain_reader reader = {0};
    CLEANUP(closep) int fd = chain_open_file(c, file, 0);
    struct chain_line line;
    const char *text;
    struct stat st;
    size_t len;
    int r = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : 0;
    uint64_t size = r < 0 ? 0 : (uint64_t)st.st_size;

    r = r < 0 ? r : chain_reader_init(&reader, fd, size > AUDIT_LINE_MAX ? size - AUDIT_LINE_MAX : 0, size);
    while (r >= 0 && (r = chain_reader_next(&reader, &text, &len)) > 0)
        if (chain_line_read(text, len, &line) == 0) {
            ret->seq = line.seq;
            memcpy(ret->hash, line.hash, sizeof ret->hash);
        }
    return r;
}

static int drop(struct chain *c, uint64_t number) {
    struct chain_head end = {0};
    char file[CHAIN_FILE_MAX];
    struct stat st;
    int r;

    chain_file(c->log, number, file);
    if (fstatat(c->dir, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    r = read_end(c, file, &end);
    r = r < 0 ? r : note(c, "dropped", number, &end);
    if (r == 0 && unlinkat(c->dir, file, 0) < 0)
        r = -errno;
    return r;
}

int chain_rotate(struct chain *c, struct chain_head *h) {
    char file[CHAIN_FILE_MAX], full[CHAIN_FILE_MAX];
    uint64_t number = h->number;
    int r = note(c, "rotated", number, h);

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
    for (uint64_t i = 0; r == 0 && i < 2 && number > AUDIT_FILES_KEPT + i; i++)
        (void)drop(c, number - AUDIT_FILES_KEPT - i);
    return r;
}
