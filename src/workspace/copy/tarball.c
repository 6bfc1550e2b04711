/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tar headers and contents. */
#include "workspace/copy/tarball.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/pathtext.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/transfer.h"

enum { BLOCK = 512, NAME_ROOM = 100, PAX_MAX = 64 * 1024 * 4 };

static const uint64_t octal_size_max = 077777777777; /* 8 GiB - 1 */

/* POSIX.1-1988 ustar; every field text, numbers in octal. */
struct header {
    char name[NAME_ROOM], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[NAME_ROOM], magic[6], version[2],
        user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
static_assert(sizeof(struct header) == BLOCK, "a header is one block");

struct tarball_entry {
    const char *name, *link;
    char type; /* '0' file, '2' link, '5' folder, 'x' pax */
    mode_t mode;
    uint64_t size, mtime;
};

static void put_text(char *field, size_t room, const char *s) {
    memcpy(field, s, MIN_OF(strlen(s), room));
}

static void put_octal(char *field, size_t room, uint64_t n) {
    char text[32];

    snprintf(text, sizeof text, "%0*" PRIo64, (int)room - 1, n);
    memcpy(field, text, MIN_OF(room, strlen(text) + 1));
}

static int write_header(struct tarball *t, const struct tarball_entry *e) {
    struct header h = {.type = e->type};
    unsigned sum = 0;

    put_text(h.name, sizeof h.name, e->name);
    put_text(h.link, sizeof h.link, e->link);
    put_octal(h.mode, sizeof h.mode, e->mode & 0777);
    put_octal(h.uid, sizeof h.uid, 0);
    put_octal(h.gid, sizeof h.gid, 0);
    put_octal(h.size, sizeof h.size, e->size > octal_size_max ? 0 : e->size);
    put_octal(h.mtime, sizeof h.mtime, e->mtime > octal_size_max ? 0 : e->mtime);
    memcpy(h.magic, "ustar", sizeof h.magic);
    memcpy(h.version, "00", sizeof h.version);
    memset(h.sum, ' ', sizeof h.sum);
    for (size_t i = 0; i < sizeof h; i++)
        sum += ((const unsigned char *)&h)[i];
    snprintf(h.sum, sizeof h.sum, "%06o", sum);
    return fd_write_all(t->fd, &h, sizeof h);
}

static int fill_block(struct tarball *t, uint64_t len) {
    static const char zeros[BLOCK];

    return len % BLOCK ? fd_write_all(t->fd, zeros, BLOCK - len % BLOCK) : 0;
}

/* "LENGTH KEY=VALUE\n", where the length counts itself. */
static void add_record(struct buf *b, const char *key, const char *value) {
    size_t rest = strlen(key) + strlen(value) + 3, len = rest;
    int digits;

    do {
        digits = snprintf(NULL, 0, "%zu", len);
        len = rest + (size_t)digits;
    } while (snprintf(NULL, 0, "%zu", len) != digits);
    buf_addf(b, "%zu %s=", len, key);
    buf_adds(b, value);
    buf_addc(b, '\n');
}

static int write_pax(struct tarball *t, const struct tarball_entry *e) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(PAX_MAX);
    struct tarball_entry head = {.name = "pax", .link = "", .type = 'x', .mode = 0644};
    char size[32];
    int r;

    if (!str_is_utf8(e->name) || !str_is_utf8(e->link))
        add_record(&b, "hdrcharset", "BINARY");
    if (strlen(e->name) > NAME_ROOM)
        add_record(&b, "path", e->name);
    if (strlen(e->link) > NAME_ROOM)
        add_record(&b, "linkpath", e->link);
    snprintf(size, sizeof size, "%" PRIu64, e->size);
    if (e->size > octal_size_max)
        add_record(&b, "size", size);
    if (!buf_ok(&b))
        return -ENAMETOOLONG;
    head.size = b.len;
    r = write_header(t, &head);
    r = r < 0 ? r : fd_write_all(t->fd, buf_str(&b), b.len);
    return r < 0 ? r : fill_block(t, b.len);
}

static int begin_entry(struct tarball *t, const struct tarball_entry *e) {
    bool fits = strlen(e->name) <= NAME_ROOM && strlen(e->link) <= NAME_ROOM && e->size <= octal_size_max;
    int r = path_is_below(e->name, strlen(e->name)) ? 0 : -EINVAL;

    if (r == 0 && !fits)
        r = write_pax(t, e);
    return r < 0 ? r : write_header(t, e);
}

static uint64_t time_of(const struct stat *st) {
    return st->st_mtime < 0 ? 0 : (uint64_t)st->st_mtime;
}

int tarball_bytes(struct tarball *t, const char *name, const void *data, size_t len) {
    int r = begin_entry(
        t, &(struct tarball_entry){.name = name, .link = "", .type = '0', .mode = 0644, .size = len, .mtime = t->mtime});

    r = r < 0 ? r : fd_write_all(t->fd, data, len);
    return r < 0 ? r : fill_block(t, len);
}

int tarball_file(struct tarball *t, const char *name, int fd, const struct stat *st) {
    static const char zeros[16 * BLOCK];
    uint64_t size = (uint64_t)st->st_size, done = 0;
    const struct tarball_entry e = {
        .name = name, .link = "", .type = '0', .mode = st->st_mode, .size = size, .mtime = time_of(st)};
    int r = begin_entry(t, &e);

    r = r < 0 ? r : transfer_pour(fd, t->fd, size, &done);
    for (; r == 0 && done < size; done += MIN_OF(size - done, sizeof zeros))
        r = fd_write_all(t->fd, zeros, (size_t)MIN_OF(size - done, sizeof zeros));
    return r < 0 ? r : fill_block(t, size);
}

int tarball_link(struct tarball *t, const char *name, const char *target, const struct stat *st) {
    return begin_entry(t, &(struct tarball_entry){.name = name, .link = target, .type = '2', .mode = 0777, .mtime = time_of(st)});
}

int tarball_folder(struct tarball *t, const char *name, const struct stat *st) {
    return begin_entry(t,
                       &(struct tarball_entry){.name = name, .link = "", .type = '5', .mode = st->st_mode, .mtime = time_of(st)});
}

int tarball_end(struct tarball *t) {
    static const char zeros[2 * BLOCK];

    return fd_write_all(t->fd, zeros, sizeof zeros);
}
