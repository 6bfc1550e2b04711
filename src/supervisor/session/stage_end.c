/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace after the command: what was changed is stored, carried back or removed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/clock.h"
#include "os/copy.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/safepath.h"
#include "proto/guardmsg.h"
#include "supervisor/session/review_spawn.h"
#include "supervisor/session/run.h"
#include "supervisor/session/stage.h"
#include "workspace/apply/apply.h"
#include "workspace/change/change.h"
#include "workspace/copy/place.h"
#include "workspace/git/gitconfig.h"
#include "workspace/hide/ignore.h"
#include "workspace/hide/protect.h"
#include "workspace/mode/sync.h"
#include "workspace/run/journal.h"
#include "workspace/run/settle.h"

enum {
    SUBSTITUTE_MAX = 16 * 1024 * 1024,
    DIRECT_RUNS = 10,                /* so many are stored for a workspace */
    OLD_FILE_MAX = 256 * 1024 * 1024 /* of a larger file the old version is not */
};

/* Into the copy, under the hidden name; it is never carried back, because the name is hidden. */
static int substitute(const struct stage *st, int tree, const struct substitute_spec *s) {
    CLEANUP(closep) int from = safepath_open(st->workspace, s->shown, O_RDONLY | O_NONBLOCK);
    CLEANUP(closep) int dir = -1;
    CLEANUP(closep) int to = -1;
    CLEANUP(freep) char *parent = strdup(s->path);
    const char *slash = strrchr(s->path, '/');
    struct err why = {0};
    struct stat st_from;

    if (from < 0 || !parent)
        return from < 0 ? from : -ENOMEM;
    if (fstat(from, &st_from) < 0 || !S_ISREG(st_from.st_mode))
        return -EINVAL;
    if (slash)
        parent[slash - s->path] = 0;
    if (slash && place_dir(tree, parent, 0755, &why) < 0)
        return why.code;
    dir = slash ? safepath_open(tree, parent, O_RDONLY | O_DIRECTORY) : fcntl(tree, F_DUPFD_CLOEXEC, 0);
    if (dir < 0)
        return dir;
    /* An earlier run of this name may have left a FIFO, a link or a folder there. */
    if (remove_tree(dir, slash ? slash + 1 : s->path) < 0 && unlinkat(dir, slash ? slash + 1 : s->path, 0) < 0 && errno != ENOENT)
        return -errno;
    to = openat(dir, slash ? slash + 1 : s->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, st_from.st_mode & 0777);
    if (to < 0)
        return -errno;
    if (geteuid() == 0 && fchown(to, st_from.st_uid, st_from.st_gid) < 0)
        return -errno;
    return copy_content(from, to, SUBSTITUTE_MAX, NULL);
}

int stage_substitutes(struct stage *st, struct err *err) {
    CLEANUP(closep) int tree = openat(st->rd.fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const struct settings *s = st->opt->settings;

    if (tree < 0)
        return err_sys(err, -errno, "copy of the workspace");
    for (size_t i = 0; i < s->workspace.n_substitutes; i++) {
        int r = substitute(st, tree, &s->workspace.substitutes[i]);

        if (r < 0)
            return err_sys(err, r, "show '%s' as '%s'", s->workspace.substitutes[i].shown, s->workspace.substitutes[i].path);
    }
    return volumes_points(s, tree, err);
}

static int forget_run(struct stage *st, struct err *err) {
    int r = st->mode == WORKSPACE_WORKTREE ? worktree_drop(&st->rd, st->workspace, true, err) : 0;

    r = r < 0 ? r : rundir_remove(&st->rd, err);
    st->have = r < 0;
    return r;
}

/* How many changes wait in the run; those under hidden names do not count. *ret_git: some are git's own. */
static int count_changes(struct stage *st, bool keep_base, bool *ret_git, struct err *err) {
    CLEANUP(change_set_done) struct change_set set = CHANGE_SET_INIT;
    int r = change_set_make(&st->rd, st->workspace, st->opt->rules, &set, err);

    if (r < 0)
        return r;
    st->changes = 0;
    for (size_t i = 0; i < set.n; i++)
        st->changes += !set.v[i].hidden;
    if (keep_base)
        r = change_keep_base(&st->rd, &set, st->workspace, err);
    if (ret_git)
        *ret_git = git_report_needed(&set);
    return r;
}

static int end_overlay(struct stage *st, struct err *err) {
    int r = count_changes(st, true, NULL, err);

    if (r < 0)
        return r;
    if (st->changes == 0 && !st->rd.info.named)
        return forget_run(st, err);
    r = rundir_save(&st->rd, err);
    if (r < 0)
        return r;
    if (st->changes)
        log_note("%zu %s changed, stored as run '%s': bawn review %s, then bawn apply %s or bawn discard %s", st->changes,
                 str_plural(st->changes, "file", "files"), st->rd.name, st->rd.name, st->rd.name, st->rd.name);
    return 0;
}

/* What comes back from a copy, and the record of what it replaced: a run in direct mode of its own, for `bawn rollback`. */
struct carrying {
    struct stage *st;
    struct ignore *protect;
    struct git_report git;
    struct rundir rd;
    struct journal *journal;
};

static void carrying_done(struct carrying *w) {
    ignore_freep(&w->protect);
    git_report_done(&w->git);
}

/* Only part of a repository, which git would obey, if its HEAD is there (ATTACKS 37). Below .git there are others that it makes itself: those
 * of submodules, whose configuration and hooks are protected, and in refs and logs, where no folder `objects` may be beside them. */
static bool makes_repository(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *part = git_report_part(path);

    if (part && (str_starts(part, "logs/") || str_starts(part, "refs/")))
        return strstr(part, "/objects/") || str_eq(name, "objects");
    if (part && (str_starts(part, "modules/") || part == name))
        return false;
    return str_eq(name, "HEAD") || str_eq(name, "commondir");
}

int stage_journal(const struct stage *st, const struct rundir *rd, struct journal **ret, struct err *err) {
    uint64_t budget = st->opt->settings->workspace.rollback;
    const struct journal_opts opts = {.budget = budget ? budget : UINT64_MAX, .file_max = OLD_FILE_MAX};

    return journal_open(rd->fd, true, &opts, ret, err);
}

/* Waits for `bawn review` and `bawn apply`. */
static bool is_sensitive(const struct change *c, void *arg) {
    const struct carrying *w = arg;

    return settings_holds_changes(w->st->opt->settings) || git_report_holds(&w->git, c->path) ||
           ignore_match(w->protect, c->path, S_ISDIR(c->new_.mode)) == IGNORE_EXCLUDED ||
           (c->new_.link && apply_link_leads_out(c->path, c->new_.link)) || (c->new_.mode && makes_repository(c->path));
}

static int begin_record(struct carrying *w, struct err *err) {
    struct run_info info = w->st->rd.info;
    int r;

    if (w->journal)
        return 0;
    info.mode = WORKSPACE_DIRECT;
    info.named = false;
    r = rundir_create(w->st->runs, NULL, &info, &w->rd, err);
    return r < 0 ? r : stage_journal(w->st, &w->rd, &w->journal, err);
}

static int keep_old(const char *path, void *arg, struct err *err) {
    struct carrying *w = arg;
    struct journal_entry e = {0};
    CLEANUP(closep) int content = -1;
    int r = begin_record(w, err);

    if (r < 0 || journal_find(w->journal, path))
        return r;
    r = journal_look(w->journal, w->st->workspace, path, &e, &content, err);
    return r < 0 ? r : journal_add(w->journal, &e, content, false, -1, err) < 0 ? err->code : 0;
}

/* Named in the log, so that it can be taken back. */
static int end_record(struct carrying *w, struct err *err) {
    int r = 0;

    if (w->journal) {
        w->rd.info.ended_ns = clock_mark();
        r = rundir_save(&w->rd, err);
        clock_pass(w->rd.info.ended_ns);
        log_note("'bawn rollback %s' takes back what was carried to the workspace", w->rd.name);
    }
    journal_close(TAKE_PTR(w->journal));
    rundir_done(&w->rd);
    return r < 0 ? r : rundir_prune(w->st->runs, w->st->rd.info.workspace, DIRECT_RUNS, err);
}

static void report_sync(const struct stage *st, const struct sync_result *s) {
    if (s->out || s->in)
        log_note("%zu %s carried to the workspace, %zu to the copy", s->out, str_plural(s->out, "file", "files"), s->in);
    for (size_t i = 0; i < s->conflicts.len; i++)
        log_note("changed on both sides: %s", s->conflicts.v[i]);
    if (s->held.len) /* without its name the verbs would take the record of what was carried, which is later */
        log_note("%zu %s%s held back in '%s': bawn review %s, then bawn apply %s or bawn discard %s", s->held.len,
                 settings_holds_changes(st->opt->settings) ? "" : "sensitive ", str_plural(s->held.len, "file", "files"),
                 st->rd.name, st->rd.name, st->rd.name, st->rd.name);
}

int stage_no_new(const struct stage *st, struct ignore **ret, struct err *err) {
    static const char own[] =
        "!**/node_modules/**\n!**/bower_components/**\n!**/venv/**\n!**/.venv/**\n!**/.tox/**\n!**/.nox/**\n"
        "!**/site-packages/**\n!**/__pypackages__/**\n!**/vendor/**\n!**/target/**\n!**/.gradle/**\n";
    CLEANUP(ignore_freep) struct ignore *rules = ignore_new();
    const struct ignore_source *src;
    int r = rules ? 0 : err_oom(err);

    for (size_t i = 0; r >= 0 && (src = ignore_source(st->opt->rules, i)); i++)
        r = ignore_add_file(rules, src->dir, src->origin, src->data, src->len, err);
    r = r < 0 ? r : ignore_add_file(rules, "", GUARD_DEPENDENCIES, own, sizeof own - 1, err);
    if (r >= 0)
        *ret = TAKE_PTR(rules);
    return r;
}

int stage_protect(const struct stage *st, struct ignore **ret, struct err *err) {
    CLEANUP(strv_done) struct strv places = {0}, lines = {0};
    const char *home = st->facts->home, *xdg = paths_getenv(st->facts->environ_, "XDG_CONFIG_HOME");
    CLEANUP(freep) char *user = home ? str_dupf("%s/.gitconfig", home) : NULL, *hooks = NULL;
    CLEANUP(freep) char *second = xdg ? str_dupf("%s/git/config", xdg) : home ? str_dupf("%s/.config/git/config", home) : NULL;
    const char *machine = paths_getenv(st->facts->environ_, "GIT_CONFIG_SYSTEM");
    const char *global = paths_getenv(st->facts->environ_, "GIT_CONFIG_GLOBAL");
    const char *first = global ? global : second, *const more[] = {machine ? machine : "/etc/gitconfig", first ? first : user,
                                                                   first && !global ? user : NULL, NULL};
    const struct strv *extra = &st->opt->settings->workspace.protect;
    int r = gitconfig_places(st->workspace, st->facts->workspace, more, &places, &hooks, err);

    for (size_t i = 0; r >= 0 && i < places.len; i++)
        r = protect_add_path(&lines, places.v[i], err);
    for (size_t i = 0; r >= 0 && i < extra->len; i++)
        r = strv_add(&lines, extra->v[i]) < 0 ? err_oom(err) : 0;
    return r < 0 ? r : protect_rules(&lines, hooks, ret, err);
}

/* What direct mode could not hold back, and worktree mode put on a branch. */
static int report_git(const struct stage *st, struct err *err) {
    CLEANUP(git_report_done) struct git_report git = {0};
    CLEANUP(ignore_freep) struct ignore *protect = NULL;
    int r = stage_protect(st, &protect, err);

    r = r < 0 ? r : git_report_make(&st->rd, st->workspace, st->opt->rules, protect, &git, err);
    if (r == 0)
        git_report_log(&git, st->rd.name);
    return r;
}

/* Before anything is carried. */
static int ask_git(struct carrying *w, bool *ret_changed, struct err *err) {
    CLEANUP(change_set_done) struct change_set set = CHANGE_SET_INIT;
    int r = change_set_make(&w->st->rd, w->st->workspace, w->st->opt->rules, &set, err);

    *ret_changed = r < 0 || set.n > 0 || set.notes.len > 0;
    if (r < 0 || !git_report_needed(&set))
        return r;
    return git_report_make(&w->st->rd, w->st->workspace, w->st->opt->rules, w->protect, &w->git, err);
}

static int end_sync(struct stage *st, struct err *err) {
    CLEANUP(carrying_done) struct carrying w = {.st = st, .rd = RUNDIR_INIT};
    CLEANUP(sync_result_done) struct sync_result result = {0};
    const struct sync_hooks hooks = {.hold = is_sensitive, .before = keep_old, .arg = &w};
    int r = stage_protect(st, &w.protect, err), r2;
    bool changed = false;

    r = r < 0 ? r : ask_git(&w, &changed, err);
    if (r == 0 && !changed &&
        !st->rd.info.named) /* nothing to carry, and the copy goes: what the host changed does not matter to it */
        return forget_run(st, err);
    r = r < 0 ? r : rundir_save(&st->rd, err);
    r = r < 0 ? r : sync_both(&st->rd, st->workspace, st->opt->rules, &hooks, &result, err);
    r2 = end_record(&w, err);
    if (r < 0 || r2 < 0)
        return r < 0 ? r : r2;
    git_report_log(&w.git, st->rd.name);
    report_sync(st, &result);
    st->changes = result.out + result.held.len;
    return result.held.len == 0 && result.left == 0 && !st->rd.info.named ? forget_run(st, err) : 0;
}

static int end_worktree(struct stage *st, struct err *err) {
    int commits = worktree_carry(&st->rd, st->workspace, err);
    int r = commits < 0 ? commits : count_changes(st, true, NULL, err);

    if (r < 0)
        return r;
    if (commits == 0 && st->changes == 0 && !st->rd.info.named)
        return forget_run(st, err);
    log_note(
        "branch %s: %d new %s, %zu %s from its beginning: bawn review %s, then git merge or bawn apply %s, or bawn discard %s",
        st->rd.info.branch, commits, str_plural((uint64_t)commits, "commit", "commits"), st->changes,
        str_plural(st->changes, "file differs", "files differ"), st->rd.name, st->rd.name, st->rd.name);
    return commits ? report_git(st, err) : 0;
}

static int end_direct(struct stage *st, struct err *err) {
    bool git = false;
    int r = count_changes(st, false, &git, err);

    if (r >= 0 && st->changes == 0)
        return forget_run(st, err);
    if (r >= 0 && git)
        r = report_git(st, err);
    return r < 0 ? r : rundir_prune(st->runs, st->rd.info.workspace, DIRECT_RUNS, err);
}

int stage_end(struct stage *st, int status, struct err *err) {
    static int (*const end[WORKSPACE_MODES])(struct stage *, struct err *) = {
        [WORKSPACE_DIRECT] = end_direct,
        [WORKSPACE_OVERLAY] = end_overlay,
        [WORKSPACE_SYNC] = end_sync,
        [WORKSPACE_WORKTREE] = end_worktree,
    };
    struct err ignored = {0};
    uint64_t ended_ns;
    int r = 0;

    if (!st->have)
        return 0;
    st->rd.info.ended_ns = clock_mark();
    st->rd.info.status = status;
    st->save_at_ms = 0;
    /* It may be forgotten: those that keep it wait for the disk. An overlay is looked at first: most are forgotten. */
    if (st->mode != WORKSPACE_OVERLAY)
        r = st->mode == WORKSPACE_WORKTREE ? rundir_save(&st->rd, err) : rundir_save_soon(&st->rd, err);
    ended_ns = st->rd.info.ended_ns;
    r = r < 0 ? r : settle_run(st->rd.fd, err);
    r = r < 0 ? r : end[st->mode](st, err);
    if (r < 0 && st->mode == WORKSPACE_OVERLAY && st->have)
        rundir_save_soon(&st->rd, &ignored);
    if (st->mode == WORKSPACE_DIRECT && st->have) /* what the user saves from now on is not the run's */
        clock_pass(ended_ns);
    return r < 0 ? err_ctx(err, r, "what the run changed is in '%s'", st->rd.path) : 0;
}
