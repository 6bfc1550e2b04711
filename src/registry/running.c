/* SPDX-License-Identifier: Apache-2.0 */
/* Files of runs that run. */
#include "registry/running.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/load/paths.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/process.h"

enum { VERSION = 1, FILE_MAX = 256 * 1024, WORDS_MAX = 64, WORD_MAX = 512, CGROUPS_MAX = 8 };

#define LIVE_FOLDER "live"

static const struct json_field run_fields[] = {
    JSON_VERSION("version", VERSION),
    JSON_STRING_OF("name", struct box, name, JSON_ENCODED),
    JSON_PATH("workspace", struct box, info.workspace),
    JSON_STRINGS("command", struct box, info.options, JSON_ENCODED, WORDS_MAX),
    JSON_INT("pid", struct box, state.pid, 1, INT32_MAX),
    JSON_U64("start_time", struct box, state.start_time),
    JSON_INT("init", struct box, state.init, 0, INT32_MAX),
    JSON_U64("since_ns", struct box, state.since_ns),
    JSON_CHARS("engine", struct box, state.engine, JSON_ENCODED),
    JSON_CHARS("rung", struct box, state.rung, JSON_ENCODED),
    JSON_CHARS("mode", struct box, state.mode, JSON_ENCODED),
    JSON_CHARS("profile", struct box, state.profile, JSON_ENCODED),
    JSON_U64("memory", struct box, state.memory),
    JSON_U64("pids", struct box, state.pids),
    JSON_U64("cpus_milli", struct box, state.cpus_milli),
    JSON_STRINGS("cgroups", struct box, state.cgroups, JSON_ENCODED | JSON_ABSOLUTE, CGROUPS_MAX),
};

static const struct json_table run_table = {run_fields, ARRAY_LEN(run_fields)};

/* -- ours --------------------------------------------------------------------------------------------------------------- */

static int write_run(int fd, const struct box *b) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(FILE_MAX);
    CLEANUP(strv_done) struct strv command = {0};
    struct box cut = *b;
    int r = 0;

    for (size_t i = 0; r == 0 && i < MIN_OF(b->info.options.len, (size_t)WORDS_MAX); i++)
        r = strv_addf(&command, "%.*s", WORD_MAX, b->info.options.v[i]);
    cut.info.options = command;
    r = r < 0 ? r : json_table_write(&run_table, &cut, JSON_COMPACT, &text, NULL);
    return r < 0 ? r : fd_write_all(fd, buf_str(&text), text.len);
}

static bool is_left(const char *file) {
    unsigned long long start;
    int pid;

    return sscanf(file, "%d-%llu", &pid, &start) == 2 && pid > 0 && process_is_leftover(pid, start);
}

/* Of runs that were killed. */
static bool sweep_left(int live) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    bool found = false;

    if (live < 0 || dir_open_at(live, ".", &d) < 0)
        return false;
    while ((e = dir_next(&d)))
        if (is_left(e->d_name))
            found |= unlinkat(live, e->d_name, 0) == 0;
    return found;
}

/* Locked before anything is in it: what is not locked and belongs to a process that lives is being made. */
int running_enter(int runtime, const struct box *b, struct running *ret) {
    struct running x = RUNNING_INIT;
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int r = mkdirat(runtime, LIVE_FOLDER, 0700) < 0 && errno != EEXIST ? -errno : 0;

    snprintf(x.file, sizeof x.file, "%d-%llu", (int)b->state.pid, (unsigned long long)b->state.start_time);
    if (r == 0)
        x.dir = openat(runtime, LIVE_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    x.found_dead = sweep_left(x.dir);
    if (x.dir >= 0)
        x.fd = openat(x.dir, x.file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (r == 0 && (x.fd < 0 || fcntl(x.fd, F_OFD_SETLK, &l) < 0))
        r = -errno;
    r = r < 0 ? r : write_run(x.fd, b);
    if (r < 0)
        running_leave(&x);
    else
        *ret = x;
    return r;
}

void running_leave(struct running *r) {
    if (r->fd >= 0)
        unlinkat(r->dir, r->file, 0);
    closep(&r->fd);
    closep(&r->dir);
}

/* -- all ---------------------------------------------------------------------------------------------------------------- */

static bool is_locked(int fd) {
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

static int read_run(int dir, const char *file, struct box *ret) {
    CLEANUP(closep) int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    CLEANUP(buf_done) struct buf text = BUF_INIT(FILE_MAX);
    CLEANUP(box_done) struct box b = BOX_INIT;
    int r = fd < 0 ? -errno : 0;

    if (r == 0 && !is_locked(fd)) {
        if (is_left(file))
            unlinkat(dir, file, 0);
        return -ENOENT;
    }
    r = r < 0 ? r : file_read_at(dir, file, 0, &text);
    r = r < 0 ? r : json_table_parse(&run_table, buf_str(&text), text.len, FILE_MAX, &b, NULL);
    if (r < 0)
        return r;
    b.kind = BOX_KIND_RUN;
    b.alive = b.this_boot = true;
    b.state.phase = BOX_RUNNING;
    b.info.created_ns = b.state.used_ns = b.state.since_ns;
    *ret = TAKE(b, (struct box)BOX_INIT);
    return 0;
}

/* A folder of ours that no other user can write, or names in it say nothing. */
static int open_live(char *const *environ_) {
    CLEANUP(freep) char *runtime = NULL, *path = NULL;
    CLEANUP(closep) int fd = -1;
    struct stat st;

    if (paths_runtime(environ_, &runtime, NULL) < 0 || !runtime || !(path = str_dupf("%s/" LIVE_FOLDER, runtime)))
        return -ENOENT;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))
        return -ENOENT;
    return TAKE_FD(fd);
}

int running_list(char *const *environ_, struct box_list *ret, struct err *err) {
    CLEANUP(closep) int dir = open_live(environ_);
    CLEANUP(strv_done) struct strv names = {0};
    int r = dir < 0 ? 0 : dir_names(dir, ".", &names);

    for (size_t i = 0; r >= 0 && i < names.len; i++) {
        struct box b = BOX_INIT;

        if (names.v[i][0] == '.' || read_run(dir, names.v[i], &b) < 0)
            continue;
        r = VEC_ADD(ret->v, ret->n, b);
        if (r < 0)
            box_done(&b);
    }
    return r == -ENOMEM ? err_oom(err) : 0;
}

int running_refuse(char *const *environ_, const char *name, struct err *err) {
    CLEANUP(box_list_done) struct box_list l = {0};
    int r = running_list(environ_, &l, err);

    for (size_t i = 0; r == 0 && i < l.n; i++)
        if (str_eq(l.v[i].name, name))
            r = err_set(
                err, -EOPNOTSUPP,
                "'%s' is a 'bawn run', no persistent sandbox: it ends with its command, or by 'kill %d'; 'bawn start' makes "
                "one for several commands",
                name, (int)l.v[i].state.pid);
    return r;
}
