/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git follows symbolic links to its folders, and so does whoever reads an object: a link that the inside leaves for
 * .git/objects/ab must not keep what is written through it later from being found. So names are looked up as git does, but with
 * O_PATH: nothing is read or waited for, and only what the kernel then says about where it lies counts. From there it is opened
 * again, without any link.
 */
#include "workspace/git/gitblobs_store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/sha1.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/git/gitconfig.h"
#include "workspace/git/gitrepo.h"

static void closedirp(DIR **d) {
    if (*d)
        closedir(*d);
}

bool gitblobs_is_absent(int r) {
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EACCES || r == -EPERM || r == -ENXIO;
}

/* The first line of a small file, without its end. */
static bool read_line(int dir, const char *name, struct buf *ret) {
    if (gitrepo_read(dir, name, ret) < 0 || !ret->data)
        return false;
    ret->len = strcspn(ret->data, "\r\n");
    ret->data[ret->len] = 0;
    return ret->len > 0;
}

static int look_up(int dir, const char *name) {
    int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* A linked worktree, a submodule and `git init --separate-git-dir` have a file instead of the folder: "gitdir: PATH". */
static int open_dir(int workspace) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(GITREPO_FILE_MAX);
    int fd = look_up(workspace, ".git");

    if (fd != -ENOTDIR)
        return fd;
    if (!read_line(workspace, ".git", &line) || !str_starts(line.data, "gitdir: "))
        return -ENOENT;
    return look_up(workspace, line.data + strlen("gitdir: "));
}

static int open_common(int dir) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(GITREPO_FILE_MAX);

    return look_up(dir, read_line(dir, "commondir", &line) ? line.data : ".");
}

static int note_format(const char *key, const char *value, unsigned line, void *arg, struct err *err) {
    bool *sha256 = arg;

    if (str_eq(key, "extensions.objectformat"))
        *sha256 = value && str_eq(value, "sha256");
    return 0;
}

/* A configuration that git cannot read either has no say beyond the line at which it ends. */
static bool is_sha256(int common) {
    CLEANUP(buf_done) struct buf config = BUF_INIT(GITCONFIG_SIZE_MAX);
    bool sha256 = false;

    if (gitrepo_read(common, "config", &config) == 0)
        gitconfig_parse(buf_str(&config), config.len, note_format, &sha256, NULL);
    return sha256;
}

/* Packed objects only, as after `git gc`: nothing can be found. If the folder cannot be listed, a name may still be there. */
static bool has_loose(int objects) {
    int fd = openat(objects, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!d) {
        closep(&fd);
        return true;
    }
    while ((e = readdir(d)))
        if (strlen(e->d_name) == 2 && isxdigit((unsigned char)e->d_name[0]) && isxdigit((unsigned char)e->d_name[1]))
            return true;
    return false;
}

/* Where fd lies, relative to the workspace; returns 0 if it is elsewhere. */
static int find_place(const struct gitblobs_store *s, int fd, char **ret, struct err *err) {
    CLEANUP(freep) char *path = NULL;
    size_t len = strlen(s->top);
    int r = paths_of_fd(fd, &path, err);

    if (r < 0)
        return r;
    if (!str_starts(path, s->top) || path[len] != '/' || path[len + 1] == 0)
        return 0;
    *ret = strdup(path + len + 1);
    return *ret ? 1 : err_oom(err);
}

static int open_objects(struct gitblobs_store *s, int common, struct err *err) {
    CLEANUP(closep) int fd = look_up(common, "objects");
    CLEANUP(freep) char *place = NULL;
    int r;

    if (fd < 0)
        return gitblobs_is_absent(fd) ? 0 : err_sys(err, fd, "open the repository's objects");
    r = paths_of_fd(s->workspace, &s->top, err);
    if (r < 0)
        return r;
    if (str_eq(s->top, "/"))
        s->top[0] = 0;
    r = find_place(s, fd, &place, err);
    if (r <= 0)
        return r;
    s->objects = safepath_open(s->workspace, place, O_PATH | O_DIRECTORY);
    if (s->objects < 0)
        return gitblobs_is_absent(s->objects) ? 0 : err_sys(err, s->objects, "open the repository's objects");
    return has_loose(s->objects);
}

int gitblobs_store_open(struct gitblobs_store *s, struct err *err) {
    CLEANUP(closep) int common = -1;
    int r;

    s->dir = open_dir(s->workspace);
    common = s->dir < 0 ? s->dir : open_common(s->dir);
    if (common < 0)
        return gitblobs_is_absent(common) ? 0 : err_sys(err, common, "open the workspace's .git");
    r = open_objects(s, common, err);
    if (r > 0)
        s->sha256 = is_sha256(common);
    return r;
}

void gitblobs_store_done(struct gitblobs_store *s) {
    closep(&s->dir);
    closep(&s->objects);
    freep(&s->top);
}

size_t gitblobs_id_len(const struct gitblobs_store *s) {
    return s->sha256 ? SHA256_LEN : SHA1_LEN;
}

enum { NAME_SIZE = 2 * SHA256_LEN + 2 };

/* "ab/cdef..." */
static void name_object(const unsigned char *id, size_t len, char ret[static NAME_SIZE]) {
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        *ret++ = digits[id[i] >> 4];
        *ret++ = digits[id[i] & 15];
        if (i == 0)
            *ret++ = '/';
    }
    *ret = 0;
}

int gitblobs_store_find(const struct gitblobs_store *s, const unsigned char *id, char **ret, struct err *err) {
    CLEANUP(freep) char *place = NULL;
    CLEANUP(closep) int found = -1;
    CLEANUP(closep) int again = -1;
    char name[NAME_SIZE];
    struct stat st;
    int r;

    name_object(id, gitblobs_id_len(s), name);
    found = openat(s->objects, name, O_PATH | O_CLOEXEC);
    if (found < 0)
        return gitblobs_is_absent(-errno) ? 0 : err_sys(err, -errno, "look for git's object '%s'", name);
    r = find_place(s, found, &place, err);
    if (r <= 0)
        return r;
    again = safepath_open(s->workspace, place, O_PATH);
    if (again < 0)
        return gitblobs_is_absent(again) ? 0 : err_sys(err, again, "open git's object '%s'", name);
    if (fstat(again, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    *ret = TAKE_PTR(place);
    return 1;
}
