/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest as a file. It lies in the run's folder, which no sandbox sees; it is read as if one did. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/manifest.h"

static const char magic[] = "bawn-manifest 1\n";

enum { STAMP_BYTES = 4 * 8 + 4 };

static void add_stamp(struct buf *b, const struct manifest_stamp *s) {
    const uint64_t words[] = {s->ino, s->ctime_ns, s->mtime_ns, s->size};

    buf_add(b, words, sizeof words);
    buf_add(b, &s->mode, sizeof s->mode);
}

void manifest_format(struct manifest *m, struct buf *ret) {
    uint64_t n = manifest_count(m);

    manifest_sort(m);
    buf_add(ret, magic, sizeof magic - 1);
    buf_add(ret, &n, sizeof n);
    for (size_t i = 0; i < n; i++) {
        const struct manifest_entry *e = manifest_at(m, i);
        uint32_t len = (uint32_t)strlen(e->path);

        buf_add(ret, &len, sizeof len);
        buf_add(ret, e->path, len);
        add_stamp(ret, &e->host);
        add_stamp(ret, &e->copy);
    }
}

struct manifest_reader {
    const char *at, *end;
};

/* NULL: there are not so many bytes. */
static const char *take(struct manifest_reader *r, size_t len) {
    const char *s = r->at;

    if ((size_t)(r->end - r->at) < len)
        return NULL;
    r->at += len;
    return s;
}

static struct manifest_stamp get_stamp(const char *s) {
    struct manifest_stamp st;
    uint64_t words[4];

    memcpy(words, s, sizeof words);
    memcpy(&st.mode, s + sizeof words, sizeof st.mode);
    st.ino = words[0];
    st.ctime_ns = words[1];
    st.mtime_ns = words[2];
    st.size = words[3];
    return st;
}

/* Such as can be below a folder: no empty part, no "." or "..", no NUL. */
static bool is_path(const char *s, size_t len) {
    if (len == 0 || len > MANIFEST_PATH_MAX || memchr(s, 0, len))
        return false;
    for (const char *end = s + len;;) {
        const char *slash = memchr(s, '/', (size_t)(end - s));
        size_t n = (size_t)((slash ? slash : end) - s);

        if (n == 0 || (s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.'))))
            return false;
        if (!slash)
            return true;
        s = slash + 1;
    }
}

static int bad(struct err *err) {
    return err_set(err, -EBADMSG, "the list of the copy's files is damaged");
}

static int parse_entry(struct manifest_reader *rd, struct manifest *m, struct err *err) {
    CLEANUP(freep) char *path = NULL;
    struct manifest_stamp host, copy;
    const char *s = take(rd, sizeof(uint32_t));
    uint32_t len;

    if (!s)
        return bad(err);
    memcpy(&len, s, sizeof len);
    s = take(rd, len);
    if (!s || !is_path(s, len))
        return bad(err);
    path = strndup(s, len);
    if (!path)
        return err_oom(err);
    s = take(rd, 2 * STAMP_BYTES);
    if (!s || manifest_find(m, path))
        return bad(err);
    host = get_stamp(s);
    copy = get_stamp(s + STAMP_BYTES);
    return manifest_set(m, path, &host, &copy, err);
}

int manifest_parse(const char *data, size_t len, struct manifest **ret, struct err *err) {
    struct manifest_reader rd = {data, data + len};
    CLEANUP(manifest_freep) struct manifest *m = manifest_new();
    const char *s = take(&rd, sizeof magic - 1);
    uint64_t n;

    if (!m)
        return err_oom(err);
    if (!s || memcmp(s, magic, sizeof magic - 1) != 0 || !(s = take(&rd, sizeof n)))
        return bad(err);
    memcpy(&n, s, sizeof n);
    if (n > MANIFEST_MAX)
        return bad(err);
    for (uint64_t i = 0; i < n; i++) {
        int r = parse_entry(&rd, m, err);

        if (r < 0)
            return r;
    }
    if (rd.at != rd.end)
        return bad(err);
    manifest_sort(m);
    *ret = TAKE_PTR(m);
    return 0;
}

/* Renamed into place when it is whole. The run is locked: nobody else writes NAME.new. */
int manifest_save(struct manifest *m, int dir, const char *name, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANIFEST_FILE_MAX);
    CLEANUP(freep) char *temp = str_dupf("%s.new", name);
    CLEANUP(closep) int fd = -1;
    int r;

    manifest_format(m, &b);
    if (!buf_ok(&b) || !temp)
        return err_oom(err);
    fd = openat(dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : fd_write_all(fd, b.data, b.len);
    if (r == 0 && renameat(dir, temp, dir, name) < 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        unlinkat(dir, temp, 0);
    return r < 0 ? err_sys(err, r, "write the list of the copy's files") : 0;
}

static int read_whole(int fd, char *data, size_t size) {
    for (size_t len = 0; len < size;) {
        ssize_t n = fd_read_some(fd, data + len, size - len);

        if (n <= 0)
            return n < 0 ? (int)n : -EBADMSG;
        len += (size_t)n;
    }
    return 0;
}

int manifest_load(int dir, const char *name, struct manifest **ret, struct err *err) {
    CLEANUP(closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    CLEANUP(freep) char *data = NULL;
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, -errno, "open the list of the copy's files");
    if (!S_ISREG(st.st_mode) || st.st_size > MANIFEST_FILE_MAX)
        return bad(err);
    data = malloc((size_t)st.st_size + 1);
    if (!data)
        return err_oom(err);
    r = read_whole(fd, data, (size_t)st.st_size);
    if (r < 0)
        return err_sys(err, r, "read the list of the copy's files");
    return manifest_parse(data, (size_t)st.st_size, ret, err);
}
