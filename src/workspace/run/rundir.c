/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, locks, finds and removes the folders of runs; run.json. */
#include "workspace/run/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/load/paths.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/hidden.h"
#include "os/remove.h"
#include "workspace/run/settle.h"

#define RUNDIR_JSON "run.json"
#define RUNDIR_LOCK "lock"

/* -- run.json (spec/run-folder.md) ------------------------------------------------------------------------------------------ */

static const struct json_field info_fields[] = {
    JSON_VERSION("version", 1),
    JSON_ENUM("mode", struct run_info, mode, workspace_mode_names),
    JSON_PATH("workspace", struct run_info, workspace),
    JSON_U64("begun_ns", struct run_info, begun_ns),
    JSON_U64("ended_ns", struct run_info, ended_ns),
    JSON_INT("status", struct run_info, status, INT_MIN, INT_MAX),
    JSON_STRINGS("command", struct run_info, command, JSON_ENCODED, RUN_INFO_MAX),
    JSON_STRING_OF("branch", struct run_info, branch, JSON_ENCODED | JSON_NULLABLE),
    JSON_STRING_OF("base_commit", struct run_info, base_commit, JSON_ENCODED | JSON_NULLABLE),
    JSON_BOOL("named", struct run_info, named),
};
static const struct json_table info_table = {info_fields, ARRAY_LEN(info_fields)};

void run_info_done(struct run_info *i) {
    free(i->workspace);
    free(i->branch);
    free(i->base_commit);
    strv_done(&i->command);
    *i = (struct run_info){0};
}

static int copy_info(const struct run_info *from, struct run_info *ret, struct err *err) {
    CLEANUP(run_info_done) struct run_info copy = *from;

    copy.command = (struct strv){0};
    copy.workspace = copy.branch = copy.base_commit = NULL;
    if (str_set(&copy.workspace, from->workspace) < 0 || str_set(&copy.branch, from->branch) < 0 ||
        str_set(&copy.base_commit, from->base_commit) < 0 || strv_add_all(&copy.command, &from->command) < 0)
        return err_oom(err);
    *ret = TAKE(copy, (struct run_info){0});
    return 0;
}

int run_info_write(const struct run_info *i, struct buf *out, struct err *err) {
    return json_table_write(&info_table, i, JSON_INDENT(2), out, err);
}

int run_info_parse(const char *text, size_t len, struct run_info *ret, struct err *err) {
    CLEANUP(run_info_done) struct run_info info = {0};
    int r = json_table_parse(&info_table, text, len, RUN_INFO_MAX, &info, err);

    if (r < 0)
        return err_ctx(err, r, "run.json is damaged");
    *ret = TAKE(info, (struct run_info){0});
    return 0;
}

enum { NAME_TRIES = 64, STEM_MAX = 40, LETTERS = 4, LOCK_TRIES = 5, LOCK_WAIT_MS = 4 };

static const char alphanumeric[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

int rundir_folder(char *const *environ_, const char *home, char **ret, struct err *err) {
    return paths_state_if_home(environ_, home, "runs", ret, err);
}

/* Refused if it is a link or another user could write in it: what is in a run's folder ends up in the workspace. */
static int open_runs(const char *runs, bool make, struct err *err) {
    return paths_open_own(runs, make, "what is in there would reach your files", err);
}

void rundir_done(struct rundir *r) {
    free(r->name);
    free(r->path);
    closep(&r->fd);
    closep(&r->lock);
    run_info_done(&r->info);
    *r = (struct rundir)RUNDIR_INIT;
}

int rundir_check_name(const char *name, struct err *err) {
    static const char inner[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t len = strlen(name);

    if (len == 0 || len > RUNDIR_NAME_MAX || strspn(name, inner) != len || !strchr(alphanumeric, name[0]))
        return err_usage(err,
                         "'%.80s' is no name for a run: letters, digits, '-', '_' and '.', the first a letter or digit, "
                         "at most %d characters",
                         name, RUNDIR_NAME_MAX);
    return 0;
}

/* A listing looks at the lock for a moment: that must not look like a run. */
static int lock_soon(int fd) {
    const struct timespec moment = {.tv_nsec = LOCK_WAIT_MS * 1000000L};

    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return -errno;
        if (i == LOCK_TRIES)
            return -EBUSY;
        nanosleep(&moment, NULL);
    }
    return 0;
}

/* how: O_CREAT only in a folder that is being made; in one that is being removed, a new file would be in the way. */
static int take_lock(int dir, const char *name, int how, int *ret, struct err *err) {
    CLEANUP(closep) int fd = openat(dir, RUNDIR_LOCK, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | how, 0600);
    int r = fd < 0 ? -errno : lock_soon(fd);

    if (r == -EBUSY)
        return err_set(err, r,
                       "run '%s' is in use: it is still running (a persistent sandbox: 'bawn stop' ends it), or being applied",
                       name);
    if (r < 0)
        return err_sys(err, r, "lock the run '%s'", name);
    *ret = TAKE_FD(fd);
    return 0;
}

enum write_how { WRITE_NEW, WRITE_SOON, WRITE_SYNC };

static int write_info(struct rundir *rd, enum write_how how, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(RUN_INFO_MAX);
    int r = run_info_write(&rd->info, &text, err);

    if (r < 0)
        return r;
    if (how == WRITE_NEW) /* it is not visible yet */
        r = file_create_at(rd->fd, RUNDIR_JSON, 0600, buf_str(&text), text.len);
    else
        r = file_replace_at(rd->fd, RUNDIR_JSON, 0600, FILE_SOLE | (how == WRITE_SYNC ? FILE_SYNC : 0), buf_str(&text), text.len);
    return r < 0 ? err_sys(err, r, "write the description of the run") : 0;
}

/* In direct mode the work itself is in the workspace, and the first change of a file waits for this: no fsync there. */
int rundir_save(struct rundir *rd, struct err *err) {
    return write_info(rd, rd->info.mode == WORKSPACE_DIRECT ? WRITE_SOON : WRITE_SYNC, err);
}

int rundir_save_soon(struct rundir *rd, struct err *err) {
    return write_info(rd, WRITE_SOON, err);
}

/* The last name of the workspace, in letters that are also good for a branch of git: no dots. */
static void make_stem(const char *workspace, char ret[static STEM_MAX + 1]) {
    const char *slash = workspace ? strrchr(workspace, '/') : NULL, *from = slash ? slash + 1 : "";
    size_t n = 0;

    from += strcspn(from, alphanumeric);
    for (; *from && n < STEM_MAX; from++)
        ret[n++] = strchr(alphanumeric, *from) || *from == '_' ? *from : '-';
    ret[n] = 0;
    if (n == 0)
        snprintf(ret, STEM_MAX + 1, "run");
}

static int settle_anywhere(int runs, const char *hidden, const char *workspace, char ret_name[static RUNDIR_NAME_MAX + 1]) {
    char stem[STEM_MAX + 1], letters[LETTERS + 1] = "";
    int r = -EEXIST;

    make_stem(workspace, stem);
    for (int i = 0; r == -EEXIST && i < NAME_TRIES; i++) {
        if (getrandom(letters, LETTERS, 0) != LETTERS)
            return -errno;
        for (size_t k = 0; k < LETTERS; k++)
            letters[k] = alphanumeric[(unsigned char)letters[k] % 26];
        snprintf(ret_name, RUNDIR_NAME_MAX + 1, "%s-%s", stem, letters);
        r = hidden_publish(runs, hidden, ret_name);
    }
    return r;
}

struct filling {
    rundir_fill *fill; /* NULL: nothing */
    void *arg;
};

/* Makes the folder complete, then visible. The caller holds the lock of `runs`. */
static int create_in(int runs, const char *name, const struct filling *f, struct rundir *rd,
                     char ret_name[static RUNDIR_NAME_MAX + 1], struct err *err) {
    char hidden[HIDDEN_NAME_SIZE];
    int r;

    rd->fd = hidden_make(runs, hidden);
    if (rd->fd < 0)
        return err_sys(err, rd->fd, "make the folder of a run");
    r = take_lock(rd->fd, hidden, O_CREAT, &rd->lock, err);
    r = r < 0 ? r : write_info(rd, WRITE_NEW, err);
    r = r < 0 || !f->fill ? r : f->fill(rd->fd, f->arg, err);
    if (r == 0) {
        snprintf(ret_name, RUNDIR_NAME_MAX + 1, "%s", name ? name : "");
        r = name ? hidden_publish(runs, hidden, name) : settle_anywhere(runs, hidden, rd->info.workspace, ret_name);
        if (r == -EEXIST)
            err_set(err, r, "there is a run named '%s' already", ret_name);
        else if (r < 0)
            err_sys(err, r, "make the folder of run '%s'", ret_name);
    }
    if (r < 0)
        remove_tree(runs, hidden);
    return r;
}

int rundir_create(const char *runs, const char *name, const struct run_info *info, struct rundir *ret, struct err *err) {
    return rundir_create_filled(runs, name, info, NULL, NULL, ret, err);
}

int rundir_create_filled(const char *runs, const char *name, const struct run_info *info, rundir_fill *fill, void *arg,
                         struct rundir *ret, struct err *err) {
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    CLEANUP(closep) int dir = -1;
    char final[RUNDIR_NAME_MAX + 1];
    int r = name ? rundir_check_name(name, err) : 0;

    if (r < 0)
        return r;
    r = copy_info(info, &rd.info, err);
    dir = r < 0 ? r : open_runs(runs, true, err);
    if (dir < 0)
        return dir;
    r = hidden_lock(dir);
    if (r < 0)
        return err_sys(err, r, "lock '%s'", runs);
    r = create_in(dir, name, &(struct filling){fill, arg}, &rd, final, err);
    hidden_unlock(dir);
    hidden_sweep_gone(dir);
    if (r < 0)
        return r;
    rd.name = strdup(final);
    rd.path = str_dupf("%s/%s", runs, final);
    if (!rd.name || !rd.path)
        return err_oom(err);
    *ret = TAKE(rd, (struct rundir)RUNDIR_INIT);
    return 0;
}

int rundir_remove(struct rundir *r, struct err *err) {
    CLEANUP(closep) int runs = openat(r->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int e = runs < 0 ? err_sys(err, -errno, "open the folder of the runs") : 0;

    if (e == 0 && r->lock < 0)
        e = take_lock(r->fd, r->name, 0, &r->lock, err);
    e = e < 0 ? e : hidden_remove(runs, r->fd, "run", r->name, err);
    rundir_done(r);
    return e;
}

void rundir_sweep(const char *runs) {
    CLEANUP(closep) int dir = runs ? open_runs(runs, false, NULL) : -1;

    if (dir >= 0)
        hidden_sweep(dir);
}

/* -- finding and listing ------------------------------------------------------------------------------------------------- */

static int read_info(int dir, struct run_info *ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(RUN_INFO_MAX);
    int r = file_read_at(dir, RUNDIR_JSON, 0, &text);

    return r < 0 ? file_err(err, r, RUNDIR_JSON, RUN_INFO_MAX) : run_info_parse(buf_str(&text), text.len, ret, err);
}

/* Shared, and released at once; takers of the lock try more than once. */
static bool is_busy(int dir) {
    CLEANUP(closep) int fd = openat(dir, RUNDIR_LOCK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

static void entry_done(struct rundir_entry *e) {
    free(e->name);
    run_info_done(&e->info);
    *e = (struct rundir_entry){0};
}

void rundir_list_done(struct rundir_list *l) {
    for (size_t i = 0; i < l->n; i++)
        entry_done(&l->v[i]);
    free(l->v);
    *l = (struct rundir_list){0};
}

/* Hidden names are of creations and removals; others are no run's. Returns 1 if there is an entry. */
static int look_at_run(int runs, const char *name, const char *workspace, struct rundir_entry *ret) {
    CLEANUP(entry_done) struct rundir_entry e = {0};
    CLEANUP(closep) int dir = -1;

    if (rundir_check_name(name, NULL) < 0)
        return 0;
    dir = hidden_open(runs, "run", name, NULL);
    if (dir < 0 || read_info(dir, &e.info, NULL) < 0)
        return 0;
    if (workspace && !str_eq(e.info.workspace, workspace))
        return 0;
    e.busy = is_busy(dir);
    e.name = strdup(name);
    if (!e.name)
        return -ENOMEM;
    *ret = TAKE(e, (struct rundir_entry){0});
    return 1;
}

static int newest_first(const void *a, const void *b) {
    const struct rundir_entry *x = a, *y = b;
    uint64_t p = x->info.ended_ns ? x->info.ended_ns : x->info.begun_ns,
             q = y->info.ended_ns ? y->info.ended_ns : y->info.begun_ns;

    return p != q ? (p < q) - (p > q) : strcmp(x->name, y->name);
}

int rundir_list(const char *runs, const char *workspace, struct rundir_list *ret, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *de;
    int fd = open_runs(runs, false, err), r;

    if (fd < 0 && fd != -ENOENT)
        return fd;
    r = fd < 0 ? 0 : dir_take(fd, &d);
    while (r >= 0 && (de = dir_next(&d))) {
        CLEANUP(entry_done) struct rundir_entry e = {0};

        r = look_at_run(d.fd, de->d_name, workspace, &e);
        if (r == 1)
            r = VEC_ADD(l.v, l.n, TAKE(e, (struct rundir_entry){0}));
    }
    r = r < 0 ? r : d.error;
    if (r < 0)
        return err_sys(err, r, "list the runs in '%s'", runs);
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, newest_first);
    *ret = TAKE(l, (struct rundir_list){0});
    return 0;
}

static int no_such_run(const char *runs, const char *name, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    CLEANUP(freep) const char **names = NULL;
    const char *nearest;

    if (rundir_list(runs, NULL, &l, NULL) < 0)
        l = (struct rundir_list){0};
    names = calloc(l.n + 1, sizeof *names);
    if (!names)
        return err_oom(err);
    for (size_t i = 0; i < l.n; i++)
        names[i] = l.v[i].name;
    nearest = str_nearest(name, names, l.n);
    if (nearest)
        return err_set(err, -ENOENT, "there is no run '%s'; do you mean '%s'?", name, nearest);
    return err_set(err, -ENOENT, "there is no run '%s'", name);
}

/* What a killed run left. One that runs is looked at as it is. */
static int settle_if_over(struct rundir *rd, bool locked, struct err *err) {
    CLEANUP(closep) int lock = -1;
    struct err busy = {0};

    if (!locked && take_lock(rd->fd, rd->name, 0, &lock, &busy) < 0)
        return 0;
    return settle_run(rd->fd, err);
}

int rundir_open(const char *runs, const char *name, bool lock, struct rundir *ret, struct err *err) {
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    CLEANUP(closep) int dir = -1;
    int r = rundir_check_name(name, err);

    if (r < 0)
        return r;
    dir = open_runs(runs, false, err);
    if (dir < 0)
        return dir == -ENOENT ? no_such_run(runs, name, err) : dir;
    rd.fd = hidden_open(dir, "run", name, err);
    if (rd.fd < 0)
        return rd.fd == -ENOENT ? no_such_run(runs, name, err) : rd.fd;
    rd.name = strdup(name);
    rd.path = str_dupf("%s/%s", runs, name);
    if (!rd.name || !rd.path)
        return err_oom(err);
    r = lock ? take_lock(rd.fd, name, 0, &rd.lock, err) : 0;
    if (r == 0 && lock && !hidden_is_in_place(dir, name, rd.fd))
        r = -ENOENT; /* removed just now */
    if (r == -EBUSY)
        return r;
    if (r == 0 && settle_is_due(rd.fd) && (r = settle_if_over(&rd, lock, err)) < 0)
        return r;
    r = r < 0 ? r : read_info(rd.fd, &rd.info, err);
    if (r < 0)
        return r == -ENOENT ? no_such_run(runs, name, err) : err_ctx(err, r, "run '%s'", name);
    *ret = TAKE(rd, (struct rundir)RUNDIR_INIT);
    return 0;
}

int rundir_prune(const char *runs, const char *workspace, size_t keep, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    int r = rundir_list(runs, workspace, &l, err);

    for (size_t i = 0; r >= 0 && i < l.n; i++) {
        const struct rundir_entry *e = &l.v[i];

        if (e->info.named || e->info.mode != WORKSPACE_DIRECT)
            continue;
        if (keep > 0)
            keep--;
        else if (!e->busy) {
            struct rundir rd = RUNDIR_INIT;

            r = rundir_open(runs, e->name, true, &rd, err);
            r = r == -EBUSY || r == -ENOENT ? 0 : r < 0 ? r : rundir_remove(&rd, err); /* another process may be quicker */
        }
    }
    return r;
}
