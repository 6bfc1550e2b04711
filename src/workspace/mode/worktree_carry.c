/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a run: commits from the sandbox's git directory to the repository. That directory is the sandbox's: git never runs in
 * it. Only files that are named and shaped like objects are taken from it, into our own object store, without its alternates
 * (which could lead to any repository of the user's), its indexes of packs, its configuration, its links and FIFOs. From
 * there git packs what the branch needs, and the repository's store takes the pack as it would take one from the network:
 * every object is hashed and checked.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/copy.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/mode/worktree_priv.h"

struct import {
    const struct worktree *w;
    int from, to; /* object stores */
    uint64_t files, bytes;
    struct strv packs; /* names of the packs, without ".pack" */
    struct err *err;
};

static int import_file(struct import *im, int from, int to, const char *name) {
    uint64_t max = (uint64_t)1 << WORKTREE_BYTES_MAX_LOG2, bytes = 0;
    CLEANUP(closep) int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    CLEANUP(closep) int out = -1;
    struct stat st;
    int r;

    if (in < 0 || fstat(in, &st) < 0 || !S_ISREG(st.st_mode))
        return 0; /* no object; if it was needed, the check at the end says so */
    out = gitrepo_create(to, name, 0600, im->err);
    if (out < 0)
        return out;
    r = ++im->files > WORKTREE_FILES_MAX ? -EFBIG : copy_content(in, out, max - im->bytes, &bytes);
    if (r == -EFBIG)
        return err_set(im->err, r, "the run left too many or too large git objects to carry over");
    im->bytes += bytes;
    return r < 0 ? err_sys(im->err, r, "copy git objects of the run") : 0;
}

static bool is_pack(const char *name, bool sha256) {
    static const char prefix[] = "pack-";
    size_t len = strlen(name), tail = strlen(".pack");

    return str_starts(name, prefix) && str_ends(name, ".pack") && len > strlen(prefix) + tail &&
           (git_is_hex(name + strlen(prefix), len - strlen(prefix) - tail, sha256) ||
            git_is_hex(name + strlen(prefix), len - strlen(prefix) - tail, false));
}

static int import_entry(struct import *im, const char *folder, int from, int to, const char *name) {
    bool sha256 = im->w->repo.sha256;
    int r;

    if (!str_eq(folder, "pack"))
        return strlen(name) + 2 == (sha256 ? 64 : 40) && hex_is_lower(name, strlen(name)) ? import_file(im, from, to, name) : 0;
    if (!is_pack(name, sha256))
        return 0;
    r = import_file(im, from, to, name);
    return r < 0 ? r : strv_add(&im->packs, name) < 0 ? err_oom(im->err) : 0;
}

static int import_folder(struct import *im, const char *folder) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    CLEANUP(closep) int to = -1;
    const struct dirent *e;
    int r = dir_take(safepath_open(im->from, folder, O_RDONLY | O_DIRECTORY), &d);

    if (r < 0)
        return 0; /* not a folder of objects */
    to = gitrepo_make_dir(im->to, folder, 0700, im->err);
    r = to < 0 ? to : 0;
    while (r >= 0 && (e = dir_next(&d)))
        if (e->d_name[0] != '.')
            r = import_entry(im, folder, d.fd, to, e->d_name);
    return r;
}

/* The indexes of packs are made again: git trusts them blindly. */
static int index_packs(struct import *im) {
    for (size_t i = 0; i < im->packs.len; i++) {
        CLEANUP(freep) char *path = str_dupf("objects/pack/%s", im->packs.v[i]);
        struct git_call call = git_call(GIT_ARGS("index-pack", path), -1);
        int r = path ? git_run(&im->w->git, &call, NULL, im->err) : err_oom(im->err);

        if (r < 0)
            return err_ctx(im->err, r, "a pack that the run left is damaged");
    }
    return 0;
}

/* Everything in the run's objects/ that looks like one, to objects/ of our git directory. */
static int import_objects(const struct worktree *w, int git, struct err *err) {
    CLEANUP(closep) int from = safepath_open(git, "objects", O_RDONLY | O_DIRECTORY);
    CLEANUP(closep) int to = safepath_open(w->git.fd, "objects", O_RDONLY | O_DIRECTORY);
    struct import im = {.w = w, .from = from, .to = to, .err = err};
    int r = 0;

    if (from < 0 || to < 0)
        return err_sys(err, from < 0 ? from : to, "open the git objects of the run");
    for (unsigned i = 0; r >= 0 && i < 256; i++) {
        char folder[3];

        snprintf(folder, sizeof folder, "%02x", i);
        r = import_folder(&im, folder);
    }
    r = r < 0 ? r : import_folder(&im, "pack");
    r = r < 0 ? r : index_packs(&im);
    strv_done(&im.packs);
    return r;
}

/* The repository's objects and what was imported. */
static int run_with_both(const struct worktree *w, struct git_call *call, struct buf *out, struct err *err) {
    CLEANUP(closep) int more = safepath_open(w->git.fd, "objects", O_RDONLY | O_DIRECTORY);

    call->more = more;
    return more < 0 ? err_sys(err, more, "open our git objects") : git_run(&w->git, call, out, err);
}

static int ask_git(const struct worktree *w, const char *const *argv, bool may_fail, struct buf *out, struct err *err) {
    struct git_call call = git_call(argv, w->repo.objects);

    call.may_fail = may_fail;
    return run_with_both(w, &call, out, err);
}

static int check_commit(const struct worktree *w, const char *hex, struct err *err) {
    CLEANUP(buf_done) struct buf type = BUF_INIT(100);
    int r;

    if (str_eq(hex, w->known)) /* it was one when the branch was moved there */
        return 0;
    r = ask_git(w, GIT_ARGS("cat-file", "-t", hex), false, &type, err);

    if (r < 0)
        return err_ctx(err, r, "the branch of the run");
    return str_eq(buf_str(&type), "commit\n") ? 0 : err_set(err, -EBADMSG, "the branch of the run is not at a commit");
}

/* Where the sandbox's work ends. Normally its branch; if HEAD was moved on from there (another branch, or none), that. */
static int choose_tip(const struct worktree *w, int git, char ret[static GIT_HEX_SIZE], struct err *err) {
    char tip[GIT_HEX_SIZE] = {0}, head[GIT_HEX_SIZE] = {0};
    int has_head = gitrefs_read(git, w->repo.sha256, "HEAD", head, NULL), r = worktree_read_branch(w, git, tip, err);

    if (r == -ENOENT) /* deleted inside */
        memcpy(tip, w->known, sizeof tip);
    else if (r < 0)
        return r;
    r = check_commit(w, tip, err);
    if (r == 0 && has_head == 0 && !str_eq(head, tip)) {
        r = check_commit(w, head, err);
        r = r < 0 ? r : ask_git(w, GIT_ARGS("merge-base", "--is-ancestor", tip, head), true, NULL, err);
        memcpy(ret, r == 0 ? head : tip, GIT_HEX_SIZE);
        return r < 0 ? r : 0;
    }
    if (r == 0)
        memcpy(ret, tip, GIT_HEX_SIZE);
    return r;
}

static int to_number(struct buf *text, int *ret, struct err *err) {
    uint64_t n;
    int r;

    if (text->len)
        text->data[strcspn(text->data, "\n")] = 0;
    r = parse_u64(buf_str(text), 0, INT32_MAX, &n, err);
    if (r == 0)
        *ret = (int)n;
    return r;
}

static int compare_commits(const void *a, const void *b) {
    return strcmp(((const struct gitref *)a)->hex, ((const struct gitref *)b)->hex);
}

/* Whether all branches of the sandbox's are where the repository has a ref, or at the tip: mostly so, and git need not be asked. Sorts `ours` by commit. */
static bool are_known(const struct gitref_list *theirs, struct gitref_list *ours, const char *tip) {
    if (ours->n)
        qsort(ours->v, ours->n, sizeof *ours->v, compare_commits);
    for (size_t i = 0; i < theirs->n; i++)
        if (str_starts(theirs->v[i].name, "refs/heads/") && !str_eq(theirs->v[i].hex, tip) &&
            !(ours->n && bsearch(&theirs->v[i], ours->v, ours->n, sizeof *ours->v, compare_commits)))
            return false;
    return true;
}

/* Commits on other branches of the sandbox's that neither the repository nor the branch has. */
static int count_others(const struct worktree *w, int git, const char *tip, int *ret, struct err *err) {
    CLEANUP(gitref_list_done) struct gitref_list theirs = {0}, ours = {0};
    CLEANUP(buf_done) struct buf revs = BUF_INIT(GITREPO_PACKED_MAX), text = BUF_INIT(100);
    CLEANUP(closep) int in = -1;
    struct git_call call = git_call(GIT_ARGS("rev-list", "--count", "--ignore-missing", "--stdin"), w->repo.objects);
    int r = gitrefs_list(git, w->repo.sha256, &theirs, err);

    r = r < 0 ? r : gitrefs_list(w->repo.common, w->repo.sha256, &ours, err);
    if (r < 0 || are_known(&theirs, &ours, tip))
        return r;
    for (size_t i = 0; i < theirs.n; i++)
        if (str_starts(theirs.v[i].name, "refs/heads/"))
            buf_addf(&revs, "%s\n", theirs.v[i].hex);
    for (size_t i = 0; i < ours.n; i++)
        buf_addf(&revs, "^%s\n", ours.v[i].hex);
    buf_addf(&revs, "^%s\n", tip);
    in = buf_ok(&revs) ? git_input(&revs, err) : err_oom(err);
    call.in = in;
    r = in < 0 ? in : run_with_both(w, &call, &text, err);
    return r < 0 ? r : to_number(&text, ret, err);
}

static int count_commits(const struct worktree *w, const char *tip, int *ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(100);
    CLEANUP(freep) char *not_known = str_dupf("^%s", w->known);
    int r = not_known ? ask_git(w, GIT_ARGS("rev-list", "--count", tip, not_known), false, &text, err) : err_oom(err);

    return r < 0 ? r : to_number(&text, ret, err);
}

/* A pack of what is new, and the same checks as for one from the network. */
static int send_objects(const struct worktree *w, const char *tip, struct err *err) {
    CLEANUP(closep) int pack = openat(w->git.fd, "new.pack", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), in = -1;
    CLEANUP(buf_done) struct buf revs = BUF_INIT(1000);
    struct git_call make = git_call(GIT_ARGS("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"), w->repo.objects);
    struct git_call take = git_call(GIT_ARGS("index-pack", "--stdin", "--strict"), w->repo.objects);
    CLEANUP(freep) char *not_known = str_dupf("^%s", w->known);
    struct git_call check = git_call(GIT_ARGS("rev-list", "--objects", "--quiet", tip, not_known), w->repo.objects);
    int r;

    if (pack < 0 || !not_known)
        return err_sys(err, pack < 0 ? -errno : -ENOMEM, "make a pack");
    buf_addf(&revs, "%s\n%s\n", tip, not_known);
    in = git_input(&revs, err);
    make.in = in;
    make.out = pack;
    take.in = pack;
    r = in < 0 ? in : run_with_both(w, &make, NULL, err);
    if (r >= 0 && lseek(pack, 0, SEEK_SET) < 0)
        r = err_sys(err, -errno, "read the pack");
    r = r < 0 ? r : git_run(&w->git, &take, NULL, err);
    r = r < 0 ? r : git_run(&w->git, &check, NULL, err);
    return r < 0 ? err_ctx(err, r, "carry over the commits of the run") : 0;
}

static int move_branch(struct worktree *w, const char *tip, struct err *err) {
    char host[GIT_HEX_SIZE] = {0};
    int r = 0;

    /* One that was killed after the move has moved it already. */
    if (worktree_read_branch(w, w->repo.common, host, NULL) < 0 || !str_eq(host, tip))
        r = gitrefs_move(&w->repo, WORKTREE_GROUP, w->rd->name, w->known, tip, err);
    r = r < 0 ? r : worktree_set_known(w, tip, err);
    return r < 0 ? r : worktree_renew_index(w, tip, err);
}

static int carry_commits(struct worktree *w, int git, struct err *err) {
    char tip[GIT_HEX_SIZE] = {0};
    int commits = 0, others = 0, r = import_objects(w, git, err);

    r = r < 0 ? r : choose_tip(w, git, tip, err);
    if (r >= 0 && !str_eq(tip, w->known)) {
        r = count_commits(w, tip, &commits, err);
        if (r >= 0 && commits > 0)
            r = send_objects(w, tip, err);
        r = r < 0 ? r : move_branch(w, tip, err);
    }
    r = r < 0 ? r : count_others(w, git, tip, &others, err);
    if (r < 0)
        return r;
    if (others > 0)
        log_note("worktree: %d commit%s on other branches inside, not carried over; merge them in the run '%s'", others,
                 others == 1 ? " is" : "s are", w->rd->name);
    return commits + others;
}

int worktree_carry(struct rundir *rd, int workspace, struct err *err) {
    CLEANUP(worktree_end) struct worktree w = WORKTREE_INIT;
    CLEANUP(closep) int git = -1;
    int r = worktree_begin(&w, rd, workspace, err);

    if (r < 0)
        return r;
    git = safepath_open(rd->fd, "git", O_RDONLY | O_DIRECTORY);
    if (git < 0 || w.tree < 0 || !w.known[0])
        return err_set(err, -ENOENT, "the run '%s' has no working tree", rd->name);
    return carry_commits(&w, git, err);
}
