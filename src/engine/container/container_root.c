/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image for a root of the host's own: names of folders to mount to, the harmless parts of /etc, files that are the same in every run, and our
 * own programs, because each mount costs the engine most of a millisecond. Its name is made of what stat(2) says about them, so that a change makes
 * another image.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "engine/container/container.h"
#include "jail/plan/own.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"

enum { TAR_BLOCK = 512, TAR_NAME_MAX = 99, ENTRIES_MAX = 4000, BYTES_MAX = 4 * 1024 * 1024 };

/* -- going through a part of the host -------------------------------------------------------------------------------------- */

struct root_entry {
    int dir; /* where `name` is */
    const char *name, *path, *link;
    const struct stat *st;
};

struct root_walk {
    int (*visit)(void *arg, const struct root_entry *e);
    void *arg;
    bool links; /* they are visited; else only counted */
    size_t entries;
    uint64_t bytes;
};

/* What not every user may read, and what does not fit into the simplest kind of tar file, is for a mount. */
static bool fits(const struct root_walk *w, const struct root_entry *e) {
    mode_t all = S_ISDIR(e->st->st_mode) ? 05 : 04;
    bool readable = e->link || (e->st->st_mode & all) == all;
    bool known = e->link || S_ISDIR(e->st->st_mode) || S_ISREG(e->st->st_mode);

    return readable && known && strlen(e->path) <= TAR_NAME_MAX && w->entries <= ENTRIES_MAX && w->bytes <= BYTES_MAX;
}

static int walk_entry(struct root_walk *w, int dir, const char *name, const char *path, bool follow);

/* A link cannot be changed, only replaced, and then the times of its folder are others: for the name most of /etc is not looked at. */
static int walk_link(struct root_walk *w, const char *path) {
    return ++w->entries <= ENTRIES_MAX && strlen(path) <= TAR_NAME_MAX ? 0 : -EFBIG;
}

static int walk_folder(struct root_walk *w, int dir, const char *name, const char *path) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = dir_take(openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), &d);

    while (r == 0 && (e = dir_next(&d))) {
        char below[TAR_NAME_MAX + NAME_MAX + 2];

        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        r = e->d_type == DT_LNK && !w->links ? walk_link(w, below) : walk_entry(w, d.fd, e->d_name, below, false);
    }
    return r < 0 ? r : d.error;
}

/* follow: the part itself may be a link, as a mount follows it. */
static int walk_entry(struct root_walk *w, int dir, const char *name, const char *path, bool follow) {
    char link[PATH_MAX];
    struct stat st;
    struct root_entry e = {.dir = dir, .name = name, .path = path, .st = &st};
    ssize_t len = follow ? -1 : readlinkat(dir, name, link, sizeof link - 1);
    int r;

    if (len >= 0) {
        link[len] = 0;
        e.link = link;
        st = (struct stat){.st_mode = S_IFLNK | 0777};
    } else if (fstatat(dir, name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0) {
        return -errno;
    }
    w->entries++;
    w->bytes += S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    if (!fits(w, &e))
        return -EFBIG;
    r = w->visit(w->arg, &e);
    return r < 0 || !S_ISDIR(st.st_mode) ? r : walk_folder(w, dir, name, path);
}

/* -- its name ------------------------------------------------------------------------------------------------------------------ */

static int add_to_hash(void *arg, const struct root_entry *e) {
    char line[400];
    int n = snprintf(line, sizeof line, "%s %o %lld %lld.%09ld %lld.%09ld %s\n", e->path, (unsigned)e->st->st_mode,
                     (long long)e->st->st_size, (long long)e->st->st_mtim.tv_sec, e->st->st_mtim.tv_nsec,
                     (long long)e->st->st_ctim.tv_sec, e->st->st_ctim.tv_nsec, e->link ? e->link : "");

    sha256_add(arg, line, (size_t)n);
    return 0;
}

bool container_root_take(struct container_plan *c, const char *path) {
    struct sha256 h = c->root_hash;
    struct root_walk w = {.visit = add_to_hash, .arg = &h};

    for (size_t i = 0; i < c->root_parts.len; i++)
        if (path_holds(c->root_parts.v[i], path))
            return true; /* a tar file has a name once */
    if (c->root_parts.len == 0)
        sha256_init(&h);
    if (walk_entry(&w, AT_FDCWD, path, path + 1, true) < 0)
        return false;
    if (strv_add(&c->root_parts, path) < 0)
        c->failed = true;
    c->root_hash = h;
    return true;
}

bool container_root_program(struct container_plan *c, const char *path) {
    struct stat st;

    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 05) != 05 || st.st_size > BYTES_MAX)
        return false;
    if (strv_add(&c->root_programs, path) < 0)
        c->failed = true;
    return !c->failed;
}

static int hash_programs(const struct container_plan *c, struct sha256 *h) {
    for (size_t i = 0; i < c->root_programs.len; i++) {
        const char *path = c->root_programs.v[i];
        struct stat st;
        const struct root_entry e = {.dir = AT_FDCWD, .name = path, .path = strrchr(path, '/'), .st = &st};

        if (stat(path, &st) < 0)
            return -errno;
        add_to_hash(h, &e);
    }
    return 0;
}

static void hash_files(const struct container_plan *c, struct sha256 *h) {
    for (size_t i = 0; i < c->n_files; i++) {
        const struct container_file *f = &c->files[i];

        if (!f->in_image)
            continue;
        sha256_add(h, f->name, strlen(f->name) + 1);
        sha256_add(h, &f->mode, sizeof f->mode);
        sha256_add(h, f->content, strlen(f->content) + 1);
    }
}

int container_root_name(const struct container_plan *c, char ret[static 32]) {
    struct sha256 h = c->root_hash;
    char hex[SHA256_HEX_SIZE];
    int r;

    if (c->root_parts.len == 0)
        sha256_init(&h);
    r = hash_programs(c, &h);
    if (r < 0)
        return r;
    hash_files(c, &h);
    for (size_t i = 0; i < c->root_links.len; i++)
        sha256_add(&h, c->root_links.v[i], strlen(c->root_links.v[i]) + 1);
    sha256_end_hex(&h, hex);
    snprintf(ret, 32, "bawn-root:%.12s", hex);
    return 0;
}

/* -- the tar file ------------------------------------------------------------------------------------------------------------ */

struct tar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[8], rest[247];
};
static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a tar header");

static int add_plain_header(struct buf *out, char type, const char *name, const char *link, unsigned mode, size_t size) {
    struct tar_header h = {.type = type};
    unsigned sum = 0;

    if (strlen(name) > TAR_NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(h.name, name, strlen(name));
    if (link)
        memcpy(h.link, link, MIN_OF(strlen(link), (size_t)TAR_NAME_MAX));
    snprintf(h.mode, sizeof h.mode, "%07o", mode & 0777u);
    memcpy(h.uid, "0000000", 8);
    memcpy(h.gid, "0000000", 8);
    snprintf(h.size, sizeof h.size, "%011zo", size);
    memcpy(h.mtime, "00000000000", 12);
    memcpy(h.magic, "ustar\00000", 8);
    memset(h.checksum, ' ', sizeof h.checksum);
    for (size_t i = 0; i < sizeof h; i++)
        sum += ((const unsigned char *)&h)[i];
    snprintf(h.checksum, sizeof h.checksum, "%06o", sum);
    buf_add(out, &h, sizeof h);
    return 0;
}

static void add_bytes(struct buf *out, const char *bytes, size_t len) {
    static const char zeros[TAR_BLOCK];

    buf_add(out, bytes, len);
    buf_add(out, zeros, (TAR_BLOCK - len % TAR_BLOCK) % TAR_BLOCK);
}

/* A long target goes before its link, as GNU tar writes it. */
static int add_header(struct buf *out, char type, const char *name, const char *link, unsigned mode, size_t size) {
    if (link && strlen(link) > TAR_NAME_MAX) {
        int r = add_plain_header(out, 'K', "././@LongLink", NULL, 0, strlen(link) + 1);

        if (r < 0)
            return r;
        add_bytes(out, link, strlen(link) + 1);
    }
    return add_plain_header(out, type, name, link, mode, size);
}

static int add_content(struct buf *out, const struct root_entry *e) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(BYTES_MAX);
    CLEANUP(closep) int fd = openat(e->dir, e->name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int r = fd < 0 ? -errno : file_read_fd(fd, 0, &text);

    r = r < 0 ? r : add_header(out, '0', e->path, NULL, e->st->st_mode, text.len);
    if (r < 0)
        return r;
    add_bytes(out, buf_str(&text), text.len);
    return 0;
}

static int add_to_tar(void *arg, const struct root_entry *e) {
    if (S_ISREG(e->st->st_mode))
        return add_content(arg, e);
    return add_header(arg, e->link ? '2' : '5', e->path, e->link, e->link ? 0777 : e->st->st_mode, 0);
}

/* The folders above it, which the engine would make as it likes. name: without the first slash. */
static int add_above(struct buf *out, const char *name, struct strv *made) {
    int r = 0;

    for (const char *slash = strchr(name, '/'); r == 0 && slash; slash = strchr(slash + 1, '/')) {
        CLEANUP(freep) char *parent = str_dupf("%.*s", (int)(slash - name), name);

        if (!parent || strv_has(made, parent))
            continue;
        r = strv_add(made, parent);
        r = r < 0 ? r : add_header(out, '5', parent, NULL, 0755, 0);
    }
    return r;
}

static int add_part(struct buf *out, const char *path, struct strv *made) {
    struct root_walk w = {.visit = add_to_tar, .arg = out, .links = true};
    int r = add_above(out, path + 1, made);

    return r < 0 ? r : walk_entry(&w, AT_FDCWD, path, path + 1, true);
}

static int add_program(struct buf *out, const char *path, struct strv *made) {
    CLEANUP(freep) char *to = str_dupf("%s%s", &CONTAINER_BIN[1], strrchr(path, '/'));
    struct stat st = {.st_mode = S_IFREG | 0755};
    const struct root_entry e = {.dir = AT_FDCWD, .name = path, .path = to, .st = &st};
    int r = to ? add_above(out, to, made) : -ENOMEM;

    return r < 0 ? r : add_content(out, &e);
}

static int add_file(struct buf *out, const struct container_file *f, struct strv *made) {
    int r = f->in_image ? add_above(out, f->name, made) : 0;

    r = r < 0 || !f->in_image ? r : add_header(out, '0', f->name, NULL, f->mode ? f->mode : 0644, strlen(f->content));
    if (r == 0 && f->in_image)
        add_bytes(out, f->content, strlen(f->content));
    return r;
}

const char *const container_root_folders[] = {"etc", "usr",     "proc",      "sys",     "dev",  "run", "tmp",
                                              "var", "var/lib", "var/cache", "var/tmp", "home", NULL};

int container_root_tar(const struct container_plan *c, struct buf *ret) {
    static const char end[2 * TAR_BLOCK];
    CLEANUP(strv_done) struct strv made = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && container_root_folders[i]; i++)
        r = strv_add(&made, container_root_folders[i]) < 0 ? -ENOMEM
                                                           : add_header(ret, '5', container_root_folders[i], NULL, 0755, 0);
    for (size_t i = 0; r == 0 && i + 1 < c->root_links.len; i += 2)
        r = add_header(ret, '2', c->root_links.v[i] + 1, c->root_links.v[i + 1], 0755, 0);
    for (size_t i = 0; r == 0 && i < c->root_parts.len; i++)
        r = add_part(ret, c->root_parts.v[i], &made);
    for (size_t i = 0; r == 0 && i < c->root_programs.len; i++)
        r = add_program(ret, c->root_programs.v[i], &made);
    for (size_t i = 0; r == 0 && i < c->n_files; i++)
        r = add_file(ret, &c->files[i], &made);
    buf_add(ret, end, sizeof end);
    return r < 0 ? r : buf_ok(ret) ? 0 : -ENOMEM;
}
