/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/git/gitindex.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "os/file.h"
#include "workspace/git/gitrepo.h"

/* gitformat-index(5) */
enum {
    HEADER_LEN = 12,
    STAT_LEN = 40, /* of an entry, before the object name */
    MTIME_AT = 8,
    MODE_AT = 24,
    SIZE_AT = 36,
    FLAGS_LEN = 2,
    FLAG_EXTENDED = 0x4000,
    FLAG_LENGTH = 0x0fff, /* of the path; all ones: that or more */
    EXTENSION_HEADER = 8,
    NAME_SHA1 = 20,
    NAME_SHA256 = 32,
    TYPE_MASK = 0170000,
    TYPE_FILE = 0100000,
    TYPE_LINK = 0120000,
};

struct gitindex_reader {
    const unsigned char *p, *end; /* end: where the checksum starts */
    uint32_t version, count;
    size_t hash;
    const unsigned char *id; /* of the entry that was read last */
    char path[GITINDEX_PATH_MAX + 1];
    size_t path_len;
};

static uint32_t be32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static size_t left(const struct gitindex_reader *s) {
    return (size_t)(s->end - s->p);
}

/* Version 4: how many bytes of the path before are not part of this one, as git's "offset encoding". */
static bool read_cut(struct gitindex_reader *s, size_t *ret) {
    size_t n;

    if (left(s) == 0)
        return false;
    n = *s->p & 127;
    while (*s->p & 128) {
        s->p++;
        if (left(s) == 0 || n > GITINDEX_PATH_MAX)
            return false;
        n = (n + 1) << 7 | (*s->p & 127);
    }
    s->p++;
    *ret = n;
    return true;
}

/* The path goes to s->path; leaves p behind the entry, which began at `entry`. */
static bool read_path(struct gitindex_reader *s, const unsigned char *entry) {
    const unsigned char *stop;
    size_t cut = s->path_len, len, padded;

    if (s->version == 4 && (!read_cut(s, &cut) || cut > s->path_len))
        return false;
    stop = memchr(s->p, 0, left(s));
    if (!stop)
        return false;
    len = (size_t)(stop - s->p);
    s->path_len -= cut;
    if (s->path_len + len > GITINDEX_PATH_MAX || s->path_len + len == 0)
        return false;
    memcpy(s->path + s->path_len, s->p, len);
    s->path_len += len;
    s->path[s->path_len] = 0;
    padded = ((size_t)(stop - entry) + 8) & ~(size_t)7; /* one to eight NULs, up to a multiple of eight */
    if (s->version < 4 && padded > (size_t)(s->end - entry))
        return false;
    s->p = s->version < 4 ? entry + padded : stop + 1;
    return true;
}

static bool read_entry(struct gitindex_reader *s, uint32_t *ret_mode) {
    const unsigned char *entry = s->p, *flags = entry + STAT_LEN + s->hash;
    size_t fixed = STAT_LEN + s->hash + FLAGS_LEN;
    unsigned flag;

    if (left(s) < fixed + FLAGS_LEN)
        return false;
    *ret_mode = be32(entry + MODE_AT);
    s->id = entry + STAT_LEN;
    flag = (unsigned)flags[0] << 8 | flags[1];
    if (flag & FLAG_EXTENDED)
        fixed += FLAGS_LEN;
    s->p += fixed;
    return read_path(s, entry) && (flag & FLAG_LENGTH) == MIN_OF(s->path_len, (size_t)FLAG_LENGTH);
}

/* Behind the entries only extensions follow, up to the checksum. A small letter marks one that must be understood. */
static bool skip_extensions(struct gitindex_reader *s) {
    while (left(s) >= EXTENSION_HEADER) {
        uint32_t size = be32(s->p + 4);
        bool required = s->p[0] < 'A' || s->p[0] > 'Z';

        if (size > left(s) - EXTENSION_HEADER || (required && memcmp(s->p, "sdir", 4) != 0))
            return false;
        s->p += EXTENSION_HEADER + size;
    }
    return left(s) == 0;
}

static bool begin_reading(struct gitindex_reader *s, const unsigned char *data, size_t len, size_t hash) {
    if (len < HEADER_LEN + hash || memcmp(data, "DIRC", 4) != 0)
        return false;
    *s = (struct gitindex_reader){
        .p = data + HEADER_LEN, .end = data + len - hash, .version = be32(data + 4), .count = be32(data + 8), .hash = hash};
    return s->version >= 2 && s->version <= 4;
}

/* True if the whole file makes sense with object names of this length. */
static bool is_sound(const unsigned char *data, size_t len, size_t hash) {
    struct gitindex_reader s;
    uint32_t mode;

    if (!begin_reading(&s, data, len, hash))
        return false;
    for (uint32_t i = 0; i < s.count; i++)
        if (!read_entry(&s, &mode))
            return false;
    return skip_extensions(&s);
}

static int parse_index(const unsigned char *data, size_t len, bool all, gitindex_fn *each, void *arg, struct err *err) {
    size_t hash = is_sound(data, len, NAME_SHA1) ? NAME_SHA1 : NAME_SHA256;
    struct gitindex_reader s;
    uint32_t mode;

    if (hash != NAME_SHA1 && !is_sound(data, len, hash))
        return err_set(err, -EBADMSG, "git's index is damaged, split, or of a version that is not known here");
    begin_reading(&s, data, len, hash);
    for (uint32_t i = 0; i < s.count; i++) {
        int r;

        if (!read_entry(&s, &mode))
            BUG("an index that was sound");
        if (!all && (mode & TYPE_MASK) != TYPE_FILE && (mode & TYPE_MASK) != TYPE_LINK)
            continue;
        r = each(&(struct gitindex_entry){.path = s.path,
                                          .id = s.id,
                                          .id_len = s.hash,
                                          .mode = mode,
                                          .size = be32(s.id - STAT_LEN + SIZE_AT),
                                          .mtime_s = be32(s.id - STAT_LEN + MTIME_AT),
                                          .mtime_ns = be32(s.id - STAT_LEN + MTIME_AT + 4)},
                 arg, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int gitindex_parse(const unsigned char *data, size_t len, gitindex_fn *each, void *arg, struct err *err) {
    return parse_index(data, len, false, each, arg, err);
}

int gitindex_parse_all(const unsigned char *data, size_t len, gitindex_fn *each, void *arg, struct err *err) {
    return parse_index(data, len, true, each, arg, err);
}

/* A worktree's .git is a file: "gitdir: /path/of/its/folder\n". Returns the folder, or -ENOENT. */
static int open_git_folder(int fd) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(GITREPO_FILE_MAX);
    int r, folder = openat(fd, ".git", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (folder >= 0 || errno != ENOTDIR)
        return folder >= 0 ? folder : -errno;
    r = gitrepo_read_line(fd, ".git", &line);
    if (r < 0 && r != -EBADMSG)
        return r;
    if (!str_starts(buf_str(&line), "gitdir: "))
        return -ENOENT;
    folder = openat(fd, line.data + strlen("gitdir: "), O_PATH | O_DIRECTORY | O_CLOEXEC);
    return folder >= 0 ? folder : -errno;
}

int gitindex_read_in(int git_dir, gitindex_fn *each, void *arg, struct err *err) {
    CLEANUP(buf_done) struct buf data = BUF_INIT(GITINDEX_SIZE_MAX);
    int r = file_read_at(git_dir, "index", 0, &data);

    if (r == -ENOENT)
        return 0;
    if (r == -EINVAL || r == -EFBIG)
        return err_set(err, -EBADMSG, "git's index is not a regular file of at most %d bytes", GITINDEX_SIZE_MAX);
    if (r < 0)
        return err_sys(err, r, "read git's index");
    r = gitindex_parse((const unsigned char *)buf_str(&data), data.len, each, arg, err);
    return r < 0 ? r : 1;
}

int gitindex_read(int fd, gitindex_fn *each, void *arg, struct err *err) {
    CLEANUP(closep) int folder = open_git_folder(fd);

    if (folder == -ENOENT)
        return 0;
    return folder < 0 ? err_sys(err, folder, "open git's index") : gitindex_read_in(folder, each, arg, err);
}
