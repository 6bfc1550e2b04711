/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's folder: opened, locked, created, renamed, removed. */
#include "registry/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "registry/registry_priv.h"

enum { LOCK_TRIES = 4, LOCK_WAIT_MS = 2 };

void box_done(struct box *b) {
    free(b->name);
    free(b->path);
    closep(&b->fd);
    closep(&b->lock);
    box_info_done(&b->info);
    box_state_done(&b->state);
    *b = (struct box)BOX_INIT;
}

void box_boot_id(char ret[static BOX_BOOT_SIZE]) {
    if (fd_read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", ret, BOX_BOOT_SIZE) < 0)
        ret[0] = 0;
    ret[strcspn(ret, "\n")] = 0;
}

/* -- life --------------------------------------------------------------------------------------------------------------- */

/* Looking takes no lock, so that a listing is never in the way of a start. */
static bool is_held_at(int dir, const char *file) {
    CLEANUP(closep) int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fd >= 0 && fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

static bool is_held(int dir) {
    return is_held_at(dir, BOX_LOCK_FILE);
}

bool registry_is_alive(int boxes, const char *name) {
    char file[NAME_MAX + sizeof "/" BOX_LOCK_FILE];

    return (size_t)snprintf(file, sizeof file, "%s/" BOX_LOCK_FILE, name) < sizeof file && is_held_at(boxes, file);
}

static bool is_active(enum box_phase p) {
    return p == BOX_STARTING || p == BOX_RUNNING || p == BOX_STOPPING;
}

enum box_phase box_look(const struct box *b, bool *ret_crashed) {
    const struct box_state *s = &b->state;
    bool crashed = false;
    enum box_phase now = s->phase;

    if (b->alive && s->pid == 0) { /* its keeper has not written anything yet */
        now = BOX_STARTING;
    } else if (is_active(s->phase)) {
        crashed = !b->alive || !b->this_boot;
        now = crashed ? BOX_STOPPED : s->phase;
    }
    if (ret_crashed)
        *ret_crashed = crashed;
    return now;
}

/* -- opening ------------------------------------------------------------------------------------------------------------ */

/* A sweep has the lock of one that is not running for a moment: that must not refuse a start. */
static int lock_soon(int fd) {
    const struct timespec moment = {.tv_nsec = LOCK_WAIT_MS * 1000000L};
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    for (int i = 0; fcntl(fd, F_OFD_SETLK, &l) < 0; i++) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return -errno;
        if (i == LOCK_TRIES)
            return -EBUSY;
        nanosleep(&moment, NULL);
    }
    return 0;
}

/* how: O_CREAT only in a folder that is being made; in one that is being removed, a new file would be in the way. */
static int take_lock(int dir, int how, int *ret) {
    CLEANUP(closep) int fd = openat(dir, BOX_LOCK_FILE, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | how, 0600);
    int r = fd < 0 ? -errno : lock_soon(fd);

    if (r == 0)
        *ret = TAKE_FD(fd);
    return r;
}

static bool is_in_place(int boxes, const struct box *b) {
    struct stat at, ours;

    return fstatat(boxes, b->name, &at, AT_SYMLINK_NOFOLLOW) == 0 && fstat(b->fd, &ours) == 0 && at.st_dev == ours.st_dev &&
           at.st_ino == ours.st_ino;
}

static int lock_box(int boxes, struct box *b, struct err *err) {
    int r = take_lock(b->fd, 0, &b->lock);

    if (r == -EBUSY)
        return err_set(err, r, "sandbox '%s' is already running, or another 'bawn' is at work with it", b->name);
    if (r < 0 && r != -ENOENT)
        return err_sys(err, r, "lock the sandbox '%s'", b->name);
    return r == 0 && is_in_place(boxes, b) ? 0 : err_set(err, -ENOENT, "sandbox '%s' was removed or renamed just now", b->name);
}

static int open_box(int boxes, const char *name, struct err *err) {
    CLEANUP(closep) int fd = openat(boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? -ENOENT : err_sys(err, -errno, "open the folder of sandbox '%s'", name);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "sandbox '%s' belongs to user %u, not to you", name, (unsigned)st.st_uid);
    return TAKE_FD(fd);
}

static int read_files(struct box *b, struct err *err) {
    CLEANUP(buf_done) struct buf info = BUF_INIT(BOX_INFO_MAX), state = BUF_INIT(BOX_STATE_MAX);
    int r = registry_get(b->fd, BOX_INFO_FILE, &info);

    if (r == -ENOENT) /* of the file: the sandbox is there */
        r = err_set(err, -EBADMSG, BOX_INFO_FILE " is missing");
    else
        r = r < 0 ? err_sys(err, r, "read its " BOX_INFO_FILE) : box_info_parse(buf_str(&info), info.len, &b->info, err);
    if (r == -EBADMSG)
        return err_ctx(err, r, "sandbox '%s' cannot be used; 'bawn rm --force %s' removes it with its home, '%s/home'", b->name,
                       b->name, b->path);
    if (r < 0)
        return err_ctx(err, r, "sandbox '%s' ('%s')", b->name, b->path);
    if (registry_get(b->fd, BOX_STATE_FILE, &state) < 0 || box_state_parse(buf_str(&state), state.len, &b->state) < 0)
        b->state = (struct box_state){.phase = BOX_STOPPED}; /* never started, or cut off by a crash of the machine */
    return 0;
}

/* Lock and state are not read in one moment: a keeper may begin or end between the two. One that began meanwhile holds the lock now. */
static int read_state(struct box *b, struct err *err) {
    int r;

    b->alive = is_held(b->fd);
    r = read_files(b, err);
    if (r == 0 && !b->alive && is_active(b->state.phase))
        b->alive = is_held(b->fd);
    return r;
}

int registry_load(int boxes, const char *path, const char *name, const char *boot, bool lock, struct box *ret, struct err *err) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    int r;

    b.fd = open_box(boxes, name, err);
    if (b.fd < 0)
        return b.fd;
    b.name = strdup(name);
    b.path = str_dupf("%s/%s", path, name);
    if (!b.name || !b.path)
        return err_oom(err);
    r = lock ? lock_box(boxes, &b, err) : 0;
    r = r < 0 ? r : lock ? read_files(&b, err) : read_state(&b, err);
    if (r < 0)
        return r;
    b.this_boot = str_eq(boot, b.state.boot);
    *ret = TAKE(b, (struct box)BOX_INIT);
    return 0;
}

/* -- making, changing, removing ----------------------------------------------------------------------------------------- */

static int put_info(int dir, const struct box_info *info, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(BOX_INFO_MAX);
    int r = box_info_write(info, &text, err);

    return r < 0 ? r : registry_put(dir, BOX_INFO_FILE, &text, true, err);
}

int box_save_info(struct box *b, struct err *err) {
    return put_info(b->fd, &b->info, err);
}

int box_save_state(struct box *b, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(BOX_STATE_MAX);
    int r = box_state_write(&b->state, &text, err);

    return r < 0 ? r : registry_put(b->fd, BOX_STATE_FILE, &text, false, err);
}

/* rename() replaces a folder only if it is empty, and no sandbox's folder ever is: that makes names unique. */
static int publish_box(int boxes, const char *from, const char *name, struct err *err) {
    if (renameat(boxes, from, boxes, name) == 0)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
        return err_set(err, -EEXIST, "there is a sandbox '%s' already; see 'bawn ps -a'", name);
    return err_sys(err, -errno, "make the folder of sandbox '%s'", name);
}

static int fill_box(struct box *b, struct err *err) {
    int r = take_lock(b->fd, O_CREAT, &b->lock);

    if (r == 0 && (mkdirat(b->fd, "home", 0700) < 0 || mkdirat(b->fd, "log", 0700) < 0))
        r = -errno;
    return r < 0 ? err_sys(err, r, "make the folder of sandbox '%s'", b->name) : put_info(b->fd, &b->info, err);
}

static int give_id(struct box *b, struct err *err) {
    char id[BOX_ID_MAX + 1];

    if (b->info.id)
        return 0;
    box_make_id(b->name, id);
    b->info.id = strdup(id);
    return b->info.id ? 0 : err_oom(err);
}

int registry_create_filled(const char *boxes, const char *name, const struct box_info *info, registry_fill_fn *more, void *arg,
                           struct box *ret, struct err *err) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    CLEANUP(closep) int dir = -1;
    char hidden[HIDDEN_NAME_SIZE];
    int r = box_check_name(name, err);

    r = r < 0 ? r : box_info_copy(info, &b.info, err);
    if (r < 0)
        return r;
    b.state.phase = BOX_STOPPED;
    b.name = strdup(name);
    b.path = str_dupf("%s/%s", boxes, name);
    r = b.name && b.path ? give_id(&b, err) : err_oom(err);
    dir = r < 0 ? r : registry_open_boxes(boxes, true, err);
    if (dir < 0)
        return dir;
    b.fd = registry_make_hidden(dir, hidden, &b.info.id, err);
    if (b.fd < 0)
        return b.fd;
    r = fill_box(&b, err);
    r = r < 0 || !more ? r : more(&b, arg, err);
    r = r < 0 ? r : publish_box(dir, hidden, name, err);
    if (r < 0) {
        remove_tree(dir, hidden);
        return r;
    }
    *ret = TAKE(b, (struct box)BOX_INIT);
    return 0;
}

int registry_create(const char *boxes, const char *name, const struct box_info *info, struct box *ret, struct err *err) {
    return registry_create_filled(boxes, name, info, NULL, NULL, ret, err);
}

int registry_rename(const char *boxes, struct box *b, const char *name, struct err *err) {
    CLEANUP(freep) char *new_name = strdup(name), *path = str_dupf("%s/%s", boxes, name);
    CLEANUP(closep) int dir = -1;
    int r = box_check_name(name, err);

    if (r < 0)
        return r;
    if (!new_name || !path)
        return err_oom(err);
    dir = registry_open_boxes(boxes, false, err);
    if (dir < 0)
        return dir;
    if (!is_in_place(dir, b))
        return err_set(err, -ENOENT, "sandbox '%s' is gone", b->name);
    r = publish_box(dir, b->name, name, err);
    if (r < 0)
        return r;
    free(b->name);
    free(b->path);
    b->name = TAKE_PTR(new_name);
    b->path = TAKE_PTR(path);
    return 0;
}

static int remove_locked(int dir, const struct box *b, struct err *err) {
    char gone[HIDDEN_NAME_SIZE];
    int r;

    if (!is_in_place(dir, b))
        return err_set(err, -ENOENT, "sandbox '%s' is gone", b->name);
    r = hidden_retire(dir, b->fd, b->name, gone);
    if (r < 0)
        return err_sys(err, r, "remove sandbox '%s'", b->name);
    r = remove_tree(dir, gone);
    return r < 0 && r != -ENOENT ? err_sys(err, r, "remove sandbox '%s': something is left in '%s'", b->name, gone) : 0;
}

int registry_remove(const char *boxes, struct box *b, struct err *err) {
    CLEANUP(box_done) struct box taken = TAKE(*b, (struct box)BOX_INIT);
    CLEANUP(closep) int dir = registry_open_boxes(boxes, false, err);

    return dir < 0 ? dir : remove_locked(dir, &taken, err);
}

int registry_remove_damaged(const char *boxes, const char *name, struct err *err) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    CLEANUP(closep) int dir = -1;
    int r = box_check_name(name, err);

    dir = r < 0 ? r : registry_open_boxes(boxes, false, err);
    b.fd = dir < 0 ? dir : open_box(dir, name, err);
    if (b.fd < 0)
        return b.fd;
    b.name = strdup(name);
    r = b.name ? take_lock(b.fd, O_CREAT, &b.lock) : -ENOMEM;
    return r < 0 ? err_sys(err, r, "lock the sandbox '%s'", name) : remove_locked(dir, &b, err);
}
