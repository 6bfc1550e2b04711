/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers which project files the user trusts. */
#include "config/load/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/file.h"

enum { TRUST_MAX = 4 * 1024 * 1024, HASH_LEN = SHA256_HEX_SIZE - 1 };

int trust_file(char *const *environ_, const char *home, char **ret, struct err *err) {
    return paths_state(environ_, home, "trust", ret, err);
}

/* A path may hold a newline, which would otherwise start a record of its own. */
static void add_escaped(const char *path, struct buf *b) {
    for (; *path; path++)
        if (*path == '\n')
            buf_adds(b, "\\n");
        else if (*path == '\\')
            buf_adds(b, "\\\\");
        else
            buf_addc(b, *path);
}

static int read_all(const char *file, struct buf *b, struct err *err) {
    CLEANUP(closep) int fd = open(file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    int r;

    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(err, -errno, "open '%s'", file);
    if (fstat(fd, &st) < 0)
        return err_sys(err, -errno, "stat '%s'", file);
    if (!S_ISREG(st.st_mode) || st.st_mode & (S_IWGRP | S_IWOTH))
        return err_set(err, -EPERM, "'%s' must be a regular file that only its owner can write", file);
    r = file_read_fd(fd, 0, b);
    return r < 0 ? file_err(err, r, file, TRUST_MAX) : 0;
}

struct trust_record {
    const char *hash, *path;
    size_t path_len;
};

/* Takes the next line off *rest. Lines that are no record are skipped: they trust nothing. */
static bool next_record(const char **rest, struct trust_record *ret) {
    while (**rest) {
        const char *line = *rest;
        size_t len = strcspn(line, "\n");

        *rest = line + len + (line[len] == '\n');
        if (len <= HASH_LEN + 1 || line[HASH_LEN] != ' ')
            continue;
        *ret = (struct trust_record){line, line + HASH_LEN + 1, len - HASH_LEN - 1};
        return true;
    }
    return false;
}

static bool is_for(const struct trust_record *r, const struct buf *workspace) {
    return r->path_len == workspace->len && memcmp(r->path, buf_str(workspace), workspace->len) == 0;
}

int trust_check(const char *file, const char *workspace, const char *hash, bool *ret_trusted, struct err *err) {
    CLEANUP(buf_done) struct buf all = BUF_INIT(TRUST_MAX), wanted = BUF_INIT(TRUST_MAX);
    bool trusted = false;
    struct trust_record rec;
    const char *rest;
    int r;

    r = read_all(file, &all, err);
    if (r < 0)
        return r;
    add_escaped(workspace, &wanted);
    rest = buf_str(&all);
    while (next_record(&rest, &rec))
        trusted |= is_for(&rec, &wanted) && strncmp(rec.hash, hash, HASH_LEN) == 0;
    *ret_trusted = trusted;
    return 0;
}

/* Everything but the workspace's own records. */
static bool copy_others(const struct buf *all, const struct buf *workspace, struct buf *out) {
    const char *rest = buf_str(all);
    struct trust_record rec;
    bool had = false;

    while (next_record(&rest, &rec)) {
        if (is_for(&rec, workspace)) {
            had = true;
            continue;
        }
        buf_add(out, rec.hash, HASH_LEN + 1 + rec.path_len);
        buf_addc(out, '\n');
    }
    return had;
}

/* hash NULL: remove. Returns 1 if there was a record before. The lock keeps a revocation from being lost to a writer
 * that read the file before it. */
static int update(const char *file, const char *workspace, const char *hash, struct err *err) {
    CLEANUP(buf_done) struct buf all = BUF_INIT(TRUST_MAX), wanted = BUF_INIT(TRUST_MAX), out = BUF_INIT(TRUST_MAX);
    CLEANUP(freep) char *folder = strndup(file, (size_t)(strrchr(file, '/') - file));
    CLEANUP(closep) int lock = -1;
    bool had;
    int r;

    if (!folder)
        return err_oom(err);
    r = paths_make_dirs(folder, err);
    if (r < 0)
        return r;
    lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) < 0)
        return err_sys(err, -errno, "lock '%s'", folder);
    r = read_all(file, &all, err);
    if (r < 0)
        return r;
    add_escaped(workspace, &wanted);
    had = copy_others(&all, &wanted, &out);
    if (hash)
        buf_addf(&out, "%s %s\n", hash, buf_str(&wanted));
    if (!buf_ok(&out) || !buf_ok(&wanted))
        return err_set(err, -EFBIG, "'%s' would be larger than %d bytes", file, TRUST_MAX);
    r = paths_publish(folder, strrchr(file, '/') + 1, buf_str(&out), out.len, PUBLISH_REPLACE, err);
    return r < 0 ? r : had;
}

int trust_record(const char *file, const char *workspace, const char *hash, struct err *err) {
    int r = update(file, workspace, hash, err);

    return r < 0 ? r : 0;
}

int trust_revoke(const char *file, const char *workspace, struct err *err) {
    return update(file, workspace, NULL, err);
}
