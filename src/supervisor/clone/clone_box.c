/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints and forks. */
#include "supervisor/clone/clone_box.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "jail/plan/plan_system.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/user/idspace.h"
#include "supervisor/clone/clone_priv.h"
#include "supervisor/control/control_client.h"
#include "workspace/run/rundir.h"

enum { TAG_TRIES = 100, FROZEN_MS = 55000 /* the keeper thaws after 60 seconds, and at once if we are killed */ };

/* Browsers' certificates, which hold the authority of one life of one sandbox; the next start puts new ones there. */
#define NSS ".pki/nssdb"

static int mode_of(const struct box *box, enum workspace_mode *ret, struct err *err) {
    int mode;

    if (!box->state.mode[0])
        return err_set(err, -ENOENT, "the sandbox '%s' was never started, so there is nothing to copy", box->name);
    if (str_eq(box->state.mode, workspace_mode_names[WORKSPACE_WORKTREE]))
        return err_set(
            err, -EOPNOTSUPP,
            "the sandbox '%s' works on a branch of its own (worktree mode), which cannot be copied; commit there, and start others from that branch",
            box->name);
    mode = str_index(box->state.mode, workspace_mode_names, WORKSPACE_MODES);
    if (mode < 0)
        return err_set(err, -EBADMSG, "the sandbox '%s' has a workspace mode that this version does not know", box->name);
    *ret = (enum workspace_mode)mode;
    return 0;
}

/* -- freezing ----------------------------------------------------------------------------------------------------------- */

struct frozen {
    const char *control; /* NULL: nothing is frozen */
    uint64_t since_ms;
};

static int ask_keeper(const char *control, const char *request, struct err *err) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(CONTROL_ANSWER_MAX);
    int r = control_call(control, request, &answer, err);
    const char *text;
    json_t *o;

    if (r < 0)
        return r;
    o = json_loadb(buf_str(&answer), answer.len, 0, NULL);
    text = json_string_value(json_object_get(o, "error"));
    if (!o || text)
        r = err_set(err, -EIO, "the sandbox cannot be frozen: %.300s", text ? text : "its supervisor gave no answer");
    json_decref(o);
    return r;
}

static int frozen_begin(struct frozen *f, const char *control, struct err *err) {
    char request[64];
    int r;

    if (!control)
        return 0;
    snprintf(request, sizeof request, "{\"cmd\":\"freeze\",\"pid\":%d}", (int)getpid());
    r = ask_keeper(control, request, err);
    if (r < 0)
        return r;
    f->control = control;
    f->since_ms = clock_ms();
    return 0;
}

/* -ETIME: it may run again by now */
static int frozen_check(const struct frozen *f, struct err *err) {
    if (!f->control || clock_ms() - f->since_ms < FROZEN_MS)
        return 0;
    return err_set(
        err, -ETIME,
        "copying takes longer than a sandbox may be frozen (a minute); stop it first, then it may take as long as it takes");
}

static void frozen_end(struct frozen *f) {
    struct err ignored = {0};

    if (f->control)
        ask_keeper(f->control, "{\"cmd\":\"thaw\"}", &ignored);
    f->control = NULL;
}

/* -- copying ------------------------------------------------------------------------------------------------------------ */

struct meter {
    const struct progress *progress;
    struct frozen *frozen;
};

static int report_progress(uint64_t files, uint64_t bytes, void *arg, struct err *err) {
    struct meter *m = arg;

    if (m->progress && m->progress->report)
        m->progress->report(files, bytes, 0, m->progress->arg);
    return m->frozen ? frozen_check(m->frozen, err) : 0;
}

static int copy_run(const struct box *box, const struct clone_opts *o, int dir, struct clone_tree *how, struct checkpoint *c,
                    struct err *err) {
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    CLEANUP(closep) int to = -1;
    struct err none = {0};
    int r = c->mode == WORKSPACE_DIRECT || c->mode == WORKSPACE_RO ? -ENOENT
                                                                   : rundir_open(o->runs, box->name, !o->control, &rd, &none);

    if (r == -ENOENT)
        return 0;
    if (r < 0) {
        *err = none;
        return r;
    }
    if (rd.info.mode != c->mode || rd.info.begun_ns == 0)
        return 0;
    if (mkdirat(dir, "run", 0700) < 0 || (to = openat(dir, "run", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        return err_sys(err, -errno, "make the folder of a checkpoint");
    c->begun_ns = rd.info.begun_ns;
    c->ended_ns = rd.info.ended_ns;
    return clone_run_parts(rd.fd, to, c->mode, how, err);
}

/* Files of a sandbox that is removed or stopped while it is copied are missing without an error. */
static int still_there(const struct box *box, const struct clone_opts *o, struct err *err) {
    CLEANUP(box_done) struct box again = BOX_INIT;
    struct err ignored = {0};
    int r = registry_open(o->boxes, box->name, false, &again, &ignored);

    if (r < 0 || !str_eq(again.info.id, box->info.id))
        return err_set(err, -ESTALE, "the sandbox '%s' was removed or renamed while it was copied", box->name);
    if (o->control && (!again.alive || again.state.pid != box->state.pid || box_look(&again, NULL) != BOX_RUNNING))
        return err_set(err, -ESTALE, "the sandbox '%s' ended while it was copied; try again", box->name);
    return 0;
}

/* Everything of the sandbox as it is now, into an empty folder. */
static int copy_now(const struct box *box, const struct clone_opts *o, int dir, struct checkpoint *c, struct err *err) {
    CLEANUP(frozen_end) struct frozen frozen = {0};
    struct meter meter = {.progress = o->progress, .frozen = &frozen};
    struct clone_tree how = {.from = -1, .to = -1, .leave = NSS, .report = report_progress, .report_arg = &meter};
    int r = mode_of(box, &c->mode, err);

    r = r < 0 ? r : frozen_begin(&frozen, o->control, err);
    r = r < 0 ? r : clone_folder_of_box(box->fd, dir, "home", &how, err);
    how.leave = NULL;
    how.whiteouts = true;
    r = r < 0 ? r : clone_folder_of_box(box->fd, dir, PLAN_SYSTEM, &how, err);
    how.whiteouts = false;
    r = r < 0 ? r : copy_run(box, o, dir, &how, c, err);
    r = r < 0 ? r : frozen_check(&frozen, err);
    r = r < 0 ? r : still_there(box, o, err);
    if (r < 0)
        return r;
    c->created_ns = clock_mark();
    c->running = o->control != NULL;
    c->files = how.files;
    c->bytes = how.bytes;
    c->left_out = how.left_out;
    return checkpoint_save(dir, c, err);
}

/* One after the other: the first to be done would thaw the sandbox for the others, too. */
static int copy_all(const struct box *box, const struct clone_opts *o, int place, int dir, struct checkpoint *c,
                    struct err *err) {
    int r = hidden_lock(place);

    r = r < 0 ? err_sys(err, r, "lock the checkpoints of the sandbox '%s'", box->name) : copy_now(box, o, dir, c, err);
    hidden_unlock(place);
    return r;
}

/* -- checkpoints -------------------------------------------------------------------------------------------------------- */

static int publish_new(int place, const char *hidden, const char *tag, struct checkpoint *c, struct err *err) {
    char stamp[CLOCK_TEXT_SIZE];
    int r = -EEXIST;

    for (int i = 0; r == -EEXIST && i < (tag ? 1 : TAG_TRIES); i++) {
        snprintf(c->tag, sizeof c->tag, "%s", tag ? tag : clock_text(clock_mark(), CLOCK_STAMP, stamp));
        if (i > 0)
            snprintf(c->tag, sizeof c->tag, "%s-%d", stamp, i + 1);
        r = syscall(SYS_renameat2, place, hidden, place, c->tag, RENAME_NOREPLACE) < 0 ? -errno : 0;
    }
    return r == -EEXIST ? err_set(err, r, "there is a checkpoint '%s' already", c->tag)
           : r < 0      ? err_sys(err, r, "name the checkpoint '%s'", c->tag)
                        : 0;
}

int checkpoint_make(struct box *box, const struct clone_opts *o, const char *tag, struct checkpoint *ret, struct err *err) {
    CLEANUP(closep) int place = -1, dir = -1;
    struct checkpoint c = {0};
    char hidden[HIDDEN_NAME_SIZE];
    int r = tag ? clone_check_tag(tag, err) : 0;

    place = r < 0 ? r : clone_open_place(box, true, err);
    if (place < 0)
        return place;
    if (tag && faccessat(place, tag, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, -EEXIST, "there is a checkpoint '%s' already; 'bawn checkpoint rm' removes it", tag);
    dir = clone_make_hidden(place, hidden, err);
    if (dir < 0)
        return dir;
    r = copy_all(box, o, place, dir, &c, err);
    if (r == 0 && syncfs(dir) < 0) /* a name that outlives a power cut must not name files that did not */
        r = err_sys(err, -errno, "write the checkpoint to disk");
    r = r < 0 ? r : publish_new(place, hidden, tag, &c, err);
    if (r < 0)
        idspace_remove_tree(place, hidden);
    else
        *ret = c;
    return r;
}

/* -- forks -------------------------------------------------------------------------------------------------------------- */

int fork_begin(struct box *box, const struct clone_opts *o, const char *tag, struct fork_source *ret, struct err *err) {
    struct fork_source s = {.box = box, .opts = o, .dir = -1};
    int r;

    s.parent = clone_open_place(box, !tag, err);
    if (s.parent < 0 && s.parent != -ENOENT)
        return s.parent;
    s.dir = tag ? clone_open_tag(box, s.parent, tag, false, err) : clone_make_hidden(s.parent, s.temp, err);
    r = s.dir < 0 ? s.dir : tag ? checkpoint_load(s.dir, &s.from) : copy_all(box, o, s.parent, s.dir, &s.from, err);
    if (r < 0 && s.dir >= 0 && tag)
        err_sys(err, r, "read the description of checkpoint '%s'", tag);
    if (r < 0)
        fork_end(&s);
    else
        *ret = s;
    return r;
}

void fork_end(struct fork_source *s) {
    if (s->temp[0] && s->dir >= 0)
        idspace_remove_tree(s->parent, s->temp);
    closep(&s->dir);
    closep(&s->parent);
    s->temp[0] = 0;
}

/* Two that write to the same files would not be forks. */
static enum workspace_mode mode_of_forks(const struct fork_source *s) {
    return s->from.mode == WORKSPACE_DIRECT ? WORKSPACE_OVERLAY : s->from.mode;
}

static bool is_moved(const struct fork_source *s, int to) {
    struct stat a, b;

    return s->last && s->temp[0] && fstat(s->dir, &a) == 0 && fstat(to, &b) == 0 && a.st_dev == b.st_dev;
}

/* One that is being made. */
struct fork_ {
    struct fork_source *s;
    struct rundir rd;
    bool have_run;
    struct clone_tree how;
};

static int fill_run(struct fork_ *f, const char *name, struct err *err) {
    CLEANUP(closep) int from = openat(f->s->dir, "run", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct run_info info = {.mode = f->s->from.mode, .workspace = f->s->box->info.workspace, .named = true};
    int r;

    if (from < 0)
        return errno == ENOENT ? 0 : err_sys(err, -errno, "open the run of the checkpoint");
    /* begun_ns 0: killed now, it is swept as one that never began (supervisor/session/stage.c). */
    r = rundir_create(f->s->opts->runs, name, &info, &f->rd, err);
    if (r < 0)
        return r;
    f->have_run = true;
    /* as in stage.c: started by root for another user, who must get through */
    if (geteuid() == 0 && fchmod(f->rd.fd, 0711) < 0)
        return err_sys(err, -errno, "folder of the run");
    r = is_moved(f->s, f->rd.fd) ? clone_move_parts(from, f->rd.fd, err)
                                 : clone_run_parts(from, f->rd.fd, f->s->from.mode, &f->how, err);
    if (r < 0)
        return r;
    f->rd.info.begun_ns = f->s->from.begun_ns;
    f->rd.info.ended_ns = f->s->from.ended_ns ? f->s->from.ended_ns : clock_mark();
    return rundir_save(&f->rd, err);
}

/* What packages changed; there may be none. */
static int fill_system(struct fork_ *f, struct box *b, struct err *err) {
    int r;

    if (faccessat(f->s->dir, PLAN_SYSTEM, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    f->how.whiteouts = true;
    r = is_moved(f->s, b->fd) ? clone_move_folder(f->s->dir, b->fd, PLAN_SYSTEM, err)
                              : clone_folder_of_box(f->s->dir, b->fd, PLAN_SYSTEM, &f->how, err);
    f->how.whiteouts = false;
    return r;
}

/* The run first: its name is taken then, and if it cannot be, nothing was moved yet. */
static int fill_fork(struct box *b, void *arg, struct err *err) {
    struct fork_ *f = arg;
    int r = fill_run(f, b->name, err);

    if (r == 0 && unlinkat(b->fd, "home", AT_REMOVEDIR) < 0)
        r = err_sys(err, -errno, "make its home");
    if (r == 0)
        r = is_moved(f->s, b->fd) ? clone_move_folder(f->s->dir, b->fd, "home", err)
                                  : clone_folder_of_box(f->s->dir, b->fd, "home", &f->how, err);
    r = r < 0 ? r : fill_system(f, b, err);
    if (r < 0)
        return r;
    snprintf(b->state.mode, sizeof b->state.mode, "%s", workspace_mode_names[mode_of_forks(f->s)]);
    return box_save_state(b, err);
}

static int describe_fork(const struct fork_source *s, struct box_info *ret, struct err *err) {
    const struct box_info *old = &s->box->info;
    int r = strv_add_all(&ret->options, &old->options);

    ret->workspace = strdup(old->workspace);
    ret->from = strdup(old->id);
    ret->created_ns = clock_mark();
    if (r == 0 && mode_of_forks(s) != s->from.mode)
        r = strv_add(&ret->options, "--workspace=overlay");
    return r < 0 || !ret->workspace || !ret->from ? err_oom(err) : 0;
}

int fork_make(struct fork_source *s, const char *name, char **ret_id, struct err *err) {
    CLEANUP(box_info_done) struct box_info info = {0};
    CLEANUP(box_done) struct box made = BOX_INIT;
    struct meter meter = {.progress = s->opts->progress};
    struct fork_ f = {.s = s, .rd = RUNDIR_INIT, .how = {.from = -1, .to = -1, .report = report_progress, .report_arg = &meter}};
    CLEANUP(freep) char *path = str_dupf("%s/%s", s->opts->boxes, name);
    struct err ignored = {0};
    int r = describe_fork(s, &info, err);

    if (r == 0 && path && access(path, F_OK) == 0) /* before anything is copied */
        r = err_set(err, -EEXIST, "there is a sandbox '%s' already; see 'bawn ps -a'", name);
    r = r < 0 ? r : registry_create_filled(s->opts->boxes, name, &info, fill_fork, &f, &made, err);
    if (r < 0 && f.have_run)
        rundir_remove(&f.rd, &ignored);
    rundir_done(&f.rd);
    if (r < 0)
        return r;
    if (ret_id && !(*ret_id = strdup(made.info.id)))
        return err_oom(err);
    return 0;
}
