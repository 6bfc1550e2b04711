#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/paths.h"
#include "os/fd.h"
#include "os/remove.h"
#include "registry/registry_priv.h"

#define HIDDEN_NEW ".new-"   /* being made: whoever makes it has flock() on the folder */
#define HIDDEN_GONE ".gone-" /* being removed: the same */
#define IDS_FILE ".ids"      /* the ids that were given away in the latest second */

enum { IDS_MAX = 256 * 1024, SAME_ID_MAX = 999 };

int registry_folder(char *const *environ_, const char *home, char **ret, struct err *err) {
    return paths_state_if_home(environ_, home, "sandboxes", ret, err);
}

static int check_owner(int fd, const char *boxes, struct err *err) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(err, -errno, "stat '%s'", boxes);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "'%s' belongs to user %u, not to you: its sandboxes are theirs", boxes, (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return err_set(err, -EPERM, "'%s' can be written by others (mode %03o): make it 0700", boxes,
                       (unsigned)st.st_mode & 0777);
    return 0;
}

int registry_open_boxes(const char *boxes, bool make, struct err *err) {
    CLEANUP(closep) int fd = -1;
    int r = make ? paths_make_dirs(boxes, err) : 0;

    if (r < 0)
        return r;
    fd = open(boxes, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, -errno, "open the folder '%s' (a link is not followed)", boxes);
    r = check_owner(fd, boxes, err);
    return r < 0 ? r : TAKE_FD(fd);
}

static int random_name(const char *prefix, char ret[static 32]) {
    uint64_t n;

    if (getrandom(&n, sizeof n, 0) != (ssize_t)sizeof n)
        return -errno;
    snprintf(ret, 32, "%s%016" PRIx64, prefix, n);
    return 0;
}

int registry_hide(int boxes, int fd, const char *name, char ret_gone[static 32]) {
    int r = random_name(HIDDEN_GONE, ret_gone);

    if (r < 0)
        return r;
    flock(fd, LOCK_EX | LOCK_NB); /* keeps sweepers away; if one should be here, two remove it */
    return renameat(boxes, name, boxes, ret_gone) < 0 ? -errno : 0;
}

/* -- what crashes left -------------------------------------------------------------------------------------------------- */

static int each_with_prefix(int boxes, const char *prefix, int (*each)(int boxes, const char *name)) {
    int fd = openat(boxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (str_starts(e->d_name, prefix))
            n += each(boxes, e->d_name);
    if (d)
        closedir(d);
    else
        closep(&fd);
    return n;
}

/* -1: somebody is at work with it. */
static int take_leftover(int boxes, const char *name) {
    CLEANUP(closep) int fd = openat(boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? TAKE_FD(fd) : -1;
}

static int retire(int boxes, const char *name) {
    CLEANUP(closep) int fd = take_leftover(boxes, name);
    char gone[32];

    if (fd >= 0)
        registry_hide(boxes, fd, name, gone);
    return 0;
}

static int sweep(int boxes, const char *name) {
    CLEANUP(closep) int fd = take_leftover(boxes, name);

    return fd >= 0 && remove_tree(boxes, name) == 0;
}

static int lock_boxes(int boxes) {
    while (flock(boxes, LOCK_EX) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

int registry_sweep(const char *boxes) {
    CLEANUP(closep) int fd = registry_open_boxes(boxes, false, NULL);

    if (fd < 0 || lock_boxes(fd) < 0)
        return 0;
    each_with_prefix(fd, HIDDEN_NEW, retire);
    flock(fd, LOCK_UN);
    return each_with_prefix(fd, HIDDEN_GONE, sweep);
}

/* -- a new one ---------------------------------------------------------------------------------------------------------- */

static bool is_line(const char *text, const char *line) {
    size_t n = strlen(line);

    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (strcspn(p, "\n") == n && strncmp(p, line, n) == 0)
            return true;
    return false;
}

/* The moment in an id: what follows its last '-'. Of another second's ids nothing need be known any more. */
static bool same_second(const char *ids, const char *id) {
    const char *stamp = strrchr(id, '-');
    size_t first = strcspn(ids, "\n"), n = stamp ? strlen(stamp) : 0;

    return n > 0 && first >= n && strncmp(ids + first - n, stamp, n) == 0;
}

/* Ids are in audit logs, which outlive their sandboxes: one that is free again would mix two. */
static int make_unique(int boxes, char **id, struct err *err) {
    CLEANUP(buf_done) struct buf ids = BUF_INIT(IDS_MAX);
    CLEANUP(freep) char *fresh = strdup(*id);
    int r = registry_get(boxes, IDS_FILE, &ids);

    if (r < 0 || !same_second(buf_str(&ids), *id))
        buf_clear(&ids);
    for (int n = 2; fresh && is_line(buf_str(&ids), fresh); n++) {
        if (n > SAME_ID_MAX)
            return err_set(err, -EAGAIN, "too many sandboxes of one name were made in this second");
        free(fresh);
        fresh = str_dupf("%s-%d", *id, n);
    }
    if (!fresh)
        return err_oom(err);
    buf_addf(&ids, "%s\n", fresh);
    r = registry_put(boxes, IDS_FILE, &ids, false, err);
    if (r < 0)
        return r;
    free(*id);
    *id = TAKE_PTR(fresh);
    return 0;
}

static int make_locked(int boxes, char ret_name[static 32], struct err *err) {
    CLEANUP(closep) int fd = -1;
    int r = random_name(HIDDEN_NEW, ret_name);

    if (r < 0 || mkdirat(boxes, ret_name, 0700) < 0)
        return err_sys(err, r < 0 ? r : -errno, "make the folder of a sandbox");
    fd = openat(boxes, ret_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return err_sys(err, -errno, "open the folder of a sandbox");
    return TAKE_FD(fd);
}

/* The lock of `boxes` is held for what must not be seen half-way, not while files are synced. */
int registry_make_hidden(int boxes, char ret_name[static 32], char **id, struct err *err) {
    int r = lock_boxes(boxes), fd;

    if (r < 0)
        return err_sys(err, r, "lock the folder of the sandboxes");
    each_with_prefix(boxes, HIDDEN_NEW, retire);
    r = make_unique(boxes, id, err);
    fd = r < 0 ? r : make_locked(boxes, ret_name, err);
    flock(boxes, LOCK_UN);
    each_with_prefix(boxes, HIDDEN_GONE, sweep);
    return fd;
}

/* -- files -------------------------------------------------------------------------------------------------------------- */

/* One writer at a time, who has the lock: a name that a crash left is simply used again. */
int registry_put(int dir, const char *name, const struct buf *text, bool synced, struct err *err) {
    CLEANUP(closep) int fd = -1;
    char temporary[40];
    int r;

    snprintf(temporary, sizeof temporary, ".%s.new", name);
    fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : fd_write_all(fd, buf_str(text), text->len);
    if (r == 0 && synced && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && renameat(dir, temporary, dir, name) < 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        unlinkat(dir, temporary, 0);
    return r < 0 ? err_sys(err, r, "write '%s' of the sandbox", name) : 0;
}

int registry_get(int dir, const char *name, struct buf *text) {
    CLEANUP(closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char chunk[4096];
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EBADMSG;
    while ((n = fd_read_some(fd, chunk, sizeof chunk)) > 0 && buf_ok(text))
        buf_add(text, chunk, (size_t)n);
    return n < 0 ? (int)n : buf_ok(text) ? 0 : -EFBIG;
}
