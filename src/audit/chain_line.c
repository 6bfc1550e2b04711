/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/chain.h"
#include "base/hex.h"
#include "os/clock.h"

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

/* Plain decimal without leading zeros, behind it a comma. */
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
    struct sha256 h;

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
    sha256_init(&h);
    sha256_add(&h, line, (size_t)(hash - line));
    sha256_end_hex(&h, real);
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

/* More bytes behind those that are there. 0: there are none. */
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
