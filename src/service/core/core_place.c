/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a run, which is bawnd's own: the tenant's processes get descriptors. The lock on `record` is taken here and inherited by
 * bawn-task, so there is no moment in which a run that was started has no lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "service/core/core.h"
#include "service/task/taskmsg.h"
#include "service/task/taskreq.h"

enum { TAIL_READ = 64 * 1024 };

const char place_source_refused[] = "the folder of the host cannot be opened, or a link leads there";

/* -- making it ---------------------------------------------------------------------------------------------------------------- */

static int make_workspace(struct core *c, struct live_run *r) {
    CLEANUP(closep) int fd = -1;

    if (mkdirat(r->dir, "workspace", 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(r->dir, "workspace", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 || (c->root && fchown(fd, r->tenant->uid, r->tenant->uid) < 0) ? -errno : 0;
}

int place_make(struct core *c, struct live_run *r, struct err *err) {
    int n = r->dir >= 0 ? 0 : core_tenant_place(c, r->tenant, err);

    if (n < 0 || r->dir >= 0)
        return n;
    if (mkdirat(r->tenant->runs, r->row.id, c->root ? 0711 : 0700) < 0 && errno != EEXIST)
        return err_sys(err, -errno, "make the folder of a run");
    r->dir = openat(r->tenant->runs, r->row.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r->dir < 0)
        return err_sys(err, -errno, "open the folder of a run");
    n = make_workspace(c, r);
    return n < 0 ? err_sys(err, n, "make a workspace") : 0;
}

int place_run_file(struct core *c, struct tenant *t, const char *id, const char *name, int flags) {
    CLEANUP(closep) int dir = -1;
    struct err ignored = {0};
    int fd;

    if (core_tenant_place(c, t, &ignored) < 0)
        return ignored.code;
    dir = openat(t->runs, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

/* -- the start ---------------------------------------------------------------------------------------------------------------- */

/* Through /proc the path is short enough for a socket, wherever the state is. */
static socklen_t socket_name(const struct live_run *r, struct sockaddr_un *a) {
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d/socket", r->dir);
    return sizeof *a;
}

static int make_socket(const struct live_run *r) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un a;
    socklen_t len = socket_name(r, &a);

    if (fd < 0)
        return -errno;
    unlinkat(r->dir, "socket", 0);
    if (bind(fd, (struct sockaddr *)&a, len) < 0 || fchmodat(r->dir, "socket", 0600, 0) < 0 || listen(fd, 8) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static int connect_task(struct live_run *r) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un a;
    socklen_t len = socket_name(r, &a);

    if (fd < 0 || connect(fd, (struct sockaddr *)&a, len) < 0)
        return -errno;
    r->task = TAKE_FD(fd);
    return 0;
}

static int lock_record(const struct live_run *r) {
    CLEANUP(closep) int fd = openat(r->dir, "record", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || pwrite(fd, TASK_BEGUN, TASK_BEGUN_LEN, 0) != TASK_BEGUN_LEN)
        return errno ? -errno : -EIO;
    return TAKE_FD(fd);
}

static int open_fds(struct live_run *r, int fds[static TASK_FDS]) {
    static const struct {
        int slot;
        const char *name;
    } files[] = {{TASK_FD_EVENTS, "events"}, {TASK_FD_STDOUT, "stdout"}, {TASK_FD_STDERR, "stderr"}, {TASK_FD_RESULT, "result"}};

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        int append = files[i].slot == TASK_FD_RESULT ? 0 : O_APPEND;

        fds[files[i].slot] = openat(r->dir, files[i].name, O_WRONLY | O_CREAT | append | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fds[files[i].slot] < 0)
            return -errno;
    }
    fds[TASK_FD_REQUEST] = fd_memory("request", buf_str(&r->row.request), r->row.request.len);
    fds[TASK_FD_SOCKET] = fds[TASK_FD_REQUEST] < 0 ? fds[TASK_FD_REQUEST] : make_socket(r);
    fds[TASK_FD_RECORD] = fds[TASK_FD_SOCKET] < 0 ? fds[TASK_FD_SOCKET] : lock_record(r);
    return fds[TASK_FD_RECORD] < 0 ? fds[TASK_FD_RECORD] : 0;
}

int place_start_dir(struct core *c, struct tenant *t, const char *id, const struct buf *request) {
    CLEANUP(freep) char *path = NULL;
    int r = taskreq_get(request, "shape.source.path", &path);

    return r < 0 ? r : path ? place_source(c, t, path) : place_workspace(c, t, id);
}

static int spawn_task(struct core *c, const struct live_run *r, const int fds[static TASK_FDS]) {
    CLEANUP(freep) char *program = str_dupf("%s/bawn-task", c->conf.helpers);
    CLEANUP(closep) int cwd = place_start_dir(c, r->tenant, r->row.id, &r->row.request);
    char max[24];
    char *argv[] = {"bawn-task", c->conf.bawn, (char *)r->row.id, max, NULL};
    const struct core_spawn s = {.path = program, .argv = argv, .fds = fds, .n_fds = TASK_FDS, .cwd = cwd, .outlives = true};
    pid_t pid;

    snprintf(max, sizeof max, "%llu", (unsigned long long)c->conf.output_max);
    if (cwd < 0)
        return cwd;
    return program ? core_spawn(c, r->tenant, &s, &pid) : -ENOMEM;
}

int place_start(struct core *c, struct live_run *r, struct err *err) {
    int fds[TASK_FDS], n;

    for (size_t i = 0; i < TASK_FDS; i++)
        fds[i] = -1;
    n = place_make(c, r, err);
    if (n < 0)
        return n;
    n = open_fds(r, fds);
    n = n < 0 ? n : spawn_task(c, r, fds);
    n = n < 0 ? n : connect_task(r);
    fd_close_all(fds, TASK_FDS);
    if ((n == -ELOOP || n == -ENOTDIR) && taskreq_has(&r->row.request, "shape.source.path"))
        return err_sys(err, n, "%s", place_source_refused);
    return n < 0 ? err_sys(err, n, "start bawn-task") : 0;
}

/* -- after a restart ---------------------------------------------------------------------------------------------------------- */

int place_adopt(struct core *c, struct live_run *r, bool *ret_begun, struct err *err) {
    CLEANUP(closep) int record = -1;
    char mark[TASK_BEGUN_LEN];
    int n = place_make(c, r, err);

    if (n < 0)
        return n;
    record = openat(r->dir, "record", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    *ret_begun = record >= 0 && pread(record, mark, sizeof mark, 0) == sizeof mark && memcmp(mark, TASK_BEGUN, sizeof mark) == 0;
    if (!*ret_begun || flock(record, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return err_sys(err, -errno, "lock the record of run '%s'", r->row.id);
    if (connect_task(r) == 0)
        return 1;
    /* It is just ending, and has closed its socket: the lock is free in a moment. */
    return flock(record, LOCK_EX) < 0 ? err_sys(err, -errno, "lock the record of run '%s'", r->row.id) : 0;
}

/* -- the end ------------------------------------------------------------------------------------------------------------------ */

/* Texts of the tenant's process: only what can be shown. */
static void take_reason(struct run_row *row, const struct task_record *rec) {
    size_t n = 0;

    for (size_t i = 0; i < sizeof rec->reason && rec->reason[i] && n < RUN_REASON_MAX; i++)
        row->reason[n++] = (unsigned char)rec->reason[i] < 0x20 || rec->reason[i] == 0x7f ? ' ' : rec->reason[i];
    row->reason[n] = 0;
}

bool place_record(struct core *c UNUSED, struct live_run *r) {
    CLEANUP(closep) int fd = r->dir < 0 ? -1 : openat(r->dir, "record", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct task_record rec = {0};

    if (fd < 0 || pread(fd, &rec, sizeof rec, TASK_RECORD_AT) < (ssize_t)offsetof(struct task_record, sent) ||
        rec.ended != TASK_ENDED)
        return false;
    r->row.sent = MIN_OF(rec.sent, (uint64_t)INT64_MAX);
    r->traffic = rec.traffic;
    memcpy(r->times, rec.times, sizeof r->times);
    r->row.status = rec.status & 0xff;
    r->row.ended_ns = rec.ended_ns;
    r->row.cpu_us = MIN_OF(rec.cpu_us, (uint64_t)INT64_MAX);
    r->row.stdout_bytes = MIN_OF(rec.stdout_bytes, (uint64_t)INT64_MAX);
    r->row.stderr_bytes = MIN_OF(rec.stderr_bytes, (uint64_t)INT64_MAX);
    r->row.state = rec.flags & TASK_CANCELLED ? RUN_CANCELLED : rec.flags & TASK_NO_RESULT ? RUN_FAILED : RUN_DONE;
    if (rec.flags & TASK_NO_RESULT)
        take_reason(&r->row, &rec);
    return true;
}

/* A supervisor that was killed may have left half a line: no reader was given it, and it goes. */
static int cut_last_line(int fd) {
    char part[TAIL_READ];
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    for (off_t end = st.st_size; end > 0;) {
        off_t from = end > TAIL_READ ? end - TAIL_READ : 0;
        ssize_t n = fd_pread_full(fd, part, (size_t)(end - from), from);
        const char *eol = n > 0 ? memrchr(part, '\n', (size_t)n) : NULL;

        if (n < 0)
            return (int)n;
        end = eol ? from + (eol - part) + 1 : from;
        if (eol)
            return end < st.st_size && ftruncate(fd, end) < 0 ? -errno : 0;
    }
    return st.st_size && ftruncate(fd, 0) < 0 ? -errno : 0;
}

void place_fail_event(struct core *c UNUSED, struct live_run *r) {
    CLEANUP(closep)
    int fd = r->dir < 0 ? -1 : openat(r->dir, "events", O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    CLEANUP(buf_done) struct buf b = BUF_INIT(16 * 1024);
    char now[CLOCK_TEXT_SIZE];

    if (fd < 0 || cut_last_line(fd) < 0)
        return;
    buf_addf(&b, "{\"type\":\"state\",\"time\":\"%s\",\"data\":{\"state\":\"%s\",\"reason\":",
             clock_text(clock_mark(), CLOCK_ISO_MS, now), run_state_names[r->row.state]);
    buf_add_json(&b, r->row.reason);
    buf_adds(&b, "}}\n");
    if (buf_ok(&b))
        fd_write_all(fd, b.data, b.len);
}

int place_workspace(struct core *c, struct tenant *t, const char *id) {
    CLEANUP(closep) int dir = -1;
    struct live_run *r = core_find_run(c, t, id);
    struct err ignored = {0};
    int fd;

    if ((r ? place_make(c, r, &ignored) : core_tenant_place(c, t, &ignored)) < 0)
        return ignored.code;
    dir = openat(t->runs, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    fd = dir < 0 ? -1 : openat(dir, "workspace", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int place_trash(struct core *c, struct tenant *t, const char *id) {
    struct err ignored = {0};

    if (core_tenant_place(c, t, &ignored) < 0)
        return ignored.code;
    if (renameat(t->runs, id, c->trash, id) < 0 && errno != ENOENT)
        return -errno;
    c->clean_at_ms = 1; /* now */
    return 0;
}

/* -- folders of the host -------------------------------------------------------------------------------------------------------- */

/* The kernel checks as for the tenant: with another fsuid the capabilities that override modes are not in effect. */
int place_open_as(const struct core *c, const struct tenant *t, int dir, const char *path, int flags) {
    int fd;

    if (c->root && t->uid != 0) {
        setfsgid(t->uid);
        setfsuid(t->uid);
        if (setfsuid((uid_t)-1) != (int)t->uid) {
            setfsgid(0);
            return -EPERM;
        }
    }
    fd = safepath_open(dir, path, O_RDONLY | flags);
    if (c->root && t->uid != 0) {
        setfsuid(0);
        setfsgid(0);
    }
    return fd;
}

/* Where the list has it: the path below may be given only once nothing in it can lead elsewhere. */
static const char *listed_above(const struct tenant *t, const char *path) {
    const char *found = NULL;

    for (const char *p = path; (p = strstr(p, "/..")); p += 3)
        if (!p[3] || p[3] == '/')
            return NULL;
    for (size_t i = 0; i < t->row.paths.len; i++)
        if (str_eq(path, t->row.paths.v[i]) || str_below(path, t->row.paths.v[i]))
            found = t->row.paths.v[i];
    return found;
}

bool place_listed(const struct tenant *t, const char *path) {
    return listed_above(t, path) != NULL;
}

/* What is on the list is the administrator's; below it the tenant's sandboxes can make links. */
int place_source(const struct core *c, const struct tenant *t, const char *path) {
    const char *above = listed_above(t, path), *below;
    CLEANUP(closep) int top = above ? open(above, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

    if (!above || top < 0)
        return above ? -errno : -EPERM;
    below = path + strlen(above);
    below += strspn(below, "/");
    return place_open_as(c, t, top, below[0] ? below : ".", O_DIRECTORY);
}
