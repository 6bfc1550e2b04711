/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of all sandboxes, and each one's: opened, locked, created, renamed, removed. */
#include "registry/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/hidden.h"
#include "os/remove.h"
#include "registry/registry_priv.h"

#define IDS_FILE ".ids" /* the ids that were given away in the latest second */

enum { LOCK_TRIES = 4, LOCK_WAIT_MS = 2, IDS_MAX = 256 * 1024, SAME_ID_MAX = 999 };

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
static bool is_held(int dir, const char *file) {
    CLEANUP(closep) int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fd >= 0 && fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

bool registry_is_alive(int boxes, const char *name) {
    char file[NAME_MAX + sizeof "/" BOX_LOCK_FILE];

    return (size_t)snprintf(file, sizeof file, "%s/" BOX_LOCK_FILE, name) < sizeof file && is_held(boxes, file);
}

enum box_phase box_look(const struct box *b, bool *ret_crashed) {
    const struct box_state *s = &b->state;
    bool crashed = false;
    enum box_phase now = s->phase;

    if (b->alive && s->pid == 0) { /* its keeper has not written anything yet */
        now = BOX_STARTING;
    } else if (s->phase <= BOX_STOPPING) {
        crashed = !b->alive || !b->this_boot;
        now = crashed ? BOX_STOPPED : s->phase;
    }
    if (ret_crashed)
        *ret_crashed = crashed;
    return now;
}

/* -- files -------------------------------------------------------------------------------------------------------------- */

/* As a whole. synced: it outlives a power cut. */
static int write_box_file(int dir, const char *name, const struct buf *text, bool synced, struct err *err) {
    int r = file_replace_at(dir, name, 0600, FILE_SOLE | (synced ? FILE_SYNC : 0), buf_str(text), text->len);

    return r < 0 ? err_sys(err, r, "write '%s' of the sandbox", name) : 0;
}

/* -- the folder of all sandboxes ---------------------------------------------------------------------------------------- */

int registry_folder(char *const *environ_, const char *home, char **ret, struct err *err) {
    return paths_state_if_home(environ_, home, "sandboxes", ret, err);
}

int registry_open_boxes(const char *boxes, bool make, struct err *err) {
    return paths_open_own(boxes, make, "its sandboxes are theirs", err);
}

int registry_sweep(const char *boxes) {
    CLEANUP(closep) int fd = registry_open_boxes(boxes, false, NULL);

    return fd < 0 ? 0 : hidden_sweep(fd);
}

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
    int r = file_read_at(boxes, IDS_FILE, 0, &ids);

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
    r = write_box_file(boxes, IDS_FILE, &ids, false, err);
    if (r < 0)
        return r;
    free(*id);
    *id = TAKE_PTR(fresh);
    return 0;
}

/* A new hidden folder, and its name; *id, if it is not unique, becomes so (malloc'ed). Sweeps what was left by others. The lock of `boxes`
 * is held for what must not be seen half-way, not while files are synced. */
static int make_hidden_box(int boxes, char ret_name[static HIDDEN_NAME_SIZE], char **id, struct err *err) {
    int r = hidden_lock(boxes), fd;

    if (r < 0)
        return err_sys(err, r, "lock the folder of the sandboxes");
    r = make_unique(boxes, id, err);
    fd = r < 0 ? r : hidden_make(boxes, ret_name);
    hidden_unlock(boxes);
    hidden_sweep_gone(boxes);
    return r == 0 && fd < 0 ? err_sys(err, fd, "make the folder of a sandbox") : fd;
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

static int lock_box(int boxes, struct box *b, struct err *err) {
    int r = take_lock(b->fd, 0, &b->lock);

    if (r == -EBUSY)
        return err_set(err, r, "sandbox '%s' is already running, or another 'bawn' is at work with it", b->name);
    if (r < 0 && r != -ENOENT)
        return err_sys(err, r, "lock the sandbox '%s'", b->name);
    return r == 0 && hidden_is_in_place(boxes, b->name, b->fd)
               ? 0
               : err_set(err, -ENOENT, "sandbox '%s' was removed or renamed just now", b->name);
}

static int read_files(struct box *b, struct err *err) {
    CLEANUP(buf_done) struct buf info = BUF_INIT(BOX_INFO_MAX), state = BUF_INIT(BOX_STATE_MAX);
    int r = file_read_at(b->fd, BOX_INFO_FILE, 0, &info);

    if (r == -ENOENT || r == -EINVAL) /* of the file: the sandbox is there */
        r = err_set(err, -EBADMSG, BOX_INFO_FILE " is %s", r == -ENOENT ? "missing" : "no regular file");
    else
        r = r < 0 ? err_sys(err, r, "read its " BOX_INFO_FILE) : box_info_parse(buf_str(&info), info.len, &b->info, err);
    if (r == -EBADMSG)
        return err_ctx(err, r, "sandbox '%s' cannot be used; 'bawn rm --force %s' removes it with its home, '%s/home'", b->name,
                       b->name, b->path);
    if (r < 0)
        return err_ctx(err, r, "sandbox '%s' ('%s')", b->name, b->path);
    if (file_read_at(b->fd, BOX_STATE_FILE, 0, &state) < 0 || box_state_parse(buf_str(&state), state.len, &b->state) < 0)
        b->state = (struct box_state){.phase = BOX_STOPPED}; /* never started, or cut off by a crash of the machine */
    return 0;
}

int registry_load(int boxes, const char *path, const char *name, const char *boot, bool lock, struct box *ret, struct err *err) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    int r;

    b.fd = hidden_open(boxes, "sandbox", name, err);
    if (b.fd < 0)
        return b.fd;
    b.name = strdup(name);
    b.path = str_dupf("%s/%s", path, name);
    if (!b.name || !b.path)
        return err_oom(err);
    r = lock ? lock_box(boxes, &b, err) : 0;
    b.alive = !lock && is_held(b.fd, BOX_LOCK_FILE);
    r = r < 0 ? r : read_files(&b, err);
    if (r < 0)
        return r;
    /* Lock and state are not read in one moment. A keeper that began meanwhile holds the lock now. */
    if (!lock && !b.alive && b.state.phase <= BOX_STOPPING)
        b.alive = is_held(b.fd, BOX_LOCK_FILE);
    b.this_boot = str_eq(boot, b.state.boot);
    *ret = TAKE(b, (struct box)BOX_INIT);
    return 0;
}

/* -- making, changing, removing ----------------------------------------------------------------------------------------- */

int box_save_info(struct box *b, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(BOX_INFO_MAX);
    int r = box_info_write(&b->info, &text, err);

    return r < 0 ? r : write_box_file(b->fd, BOX_INFO_FILE, &text, true, err);
}

int box_save_state(struct box *b, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(BOX_STATE_MAX);
    int r = box_state_write(&b->state, &text, err);

    return r < 0 ? r : write_box_file(b->fd, BOX_STATE_FILE, &text, false, err);
}

static int publish_box(int boxes, const char *from, const char *name, struct err *err) {
    int r = hidden_publish(boxes, from, name);

    if (r == -EEXIST)
        return err_set(err, r, "there is a sandbox '%s' already; see 'bawn ps -a'", name);
    return r < 0 ? err_sys(err, r, "make the folder of sandbox '%s'", name) : 0;
}

static int fill_box(struct box *b, struct err *err) {
    int r = take_lock(b->fd, O_CREAT, &b->lock);

    if (r == 0 && (mkdirat(b->fd, "home", 0700) < 0 || mkdirat(b->fd, "log", 0700) < 0))
        r = -errno;
    return r < 0 ? err_sys(err, r, "make the folder of sandbox '%s'", b->name) : box_save_info(b, err);
}

int registry_create_filled(const char *boxes, const char *name, const struct box_info *info, registry_fill_fn *more, void *arg,
                           struct box *ret, struct err *err) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    CLEANUP(closep) int dir = -1;
    char hidden[HIDDEN_NAME_SIZE], id[BOX_ID_MAX + 1];
    int r = box_check_name(name, err);

    r = r < 0 ? r : box_info_copy(info, &b.info, err);
    if (r < 0)
        return r;
    b.state.phase = BOX_STOPPED;
    b.name = strdup(name);
    b.path = str_dupf("%s/%s", boxes, name);
    if (!b.info.id) {
        box_make_id(name, id);
        b.info.id = strdup(id);
    }
    dir = b.name && b.path && b.info.id ? registry_open_boxes(boxes, true, err) : err_oom(err);
    if (dir < 0)
        return dir;
    b.fd = make_hidden_box(dir, hidden, &b.info.id, err);
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
    if (!hidden_is_in_place(dir, b->name, b->fd))
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

int registry_remove(const char *boxes, struct box *b, struct err *err) {
    CLEANUP(box_done) struct box taken = TAKE(*b, (struct box)BOX_INIT);
    CLEANUP(closep) int dir = registry_open_boxes(boxes, false, err);

    return dir < 0 ? dir : hidden_remove(dir, taken.fd, "sandbox", taken.name, err);
}

int registry_remove_damaged(const char *boxes, const char *name, struct err *err) {
    CLEANUP(box_done) struct box b = BOX_INIT;
    CLEANUP(closep) int dir = -1;
    int r = box_check_name(name, err);

    dir = r < 0 ? r : registry_open_boxes(boxes, false, err);
    b.fd = dir < 0 ? dir : hidden_open(dir, "sandbox", name, err);
    if (b.fd < 0)
        return b.fd;
    r = take_lock(b.fd, O_CREAT, &b.lock);
    return r < 0 ? err_sys(err, r, "lock the sandbox '%s'", name) : hidden_remove(dir, b.fd, "sandbox", name, err);
}
