/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of worktree mode share. */
#pragma once

#include "base/strv.h"
#include "workspace/git/git.h"
#include "workspace/git/gitrepo.h"
#include "workspace/mode/worktree.h"

struct ignore;

#define WORKTREE_GROUP "bawn" /* the branch is bawn/NAME */

enum {
    WORKTREE_INDEX_MAX = 512 * 1024 * 1024,
    WORKTREE_EXCLUDE_MAX = 256 * 1024,
    WORKTREE_FILES_MAX = 1000000, /* object files that a run may leave */
    WORKTREE_BYTES_MAX_LOG2 = 34, /* and their bytes: 16 GiB */
};

struct worktree {
    struct rundir *rd;
    int workspace;
    struct gitrepo repo;
    struct git git;
    char *id;                 /* the name below the repository's worktrees/ */
    char *tree_path;          /* of tree/ on the host */
    int tree;                 /* -1 until it is there */
    char known[GIT_HEX_SIZE]; /* where the branch was when we last moved it; "" until it is there */
};
#define WORKTREE_INIT \
    { .repo = GITREPO_INIT, .git = GIT_INIT, .tree = -1 }

/* Opens the repository and makes ready to run git. tree and known are filled if they are there. */
int worktree_begin(struct worktree *ret, struct rundir *rd, int workspace, struct err *err);
void worktree_end(struct worktree *w);

/* The file `tip` in the run's folder: what we know of the branch, out of the sandbox's reach. */
int worktree_set_known(struct worktree *w, const char *hex, struct err *err);
/* Where the branch of the run is, in the repository or in the sandbox's git directory. -ENOENT: it is not there. */
int worktree_read_branch(const struct worktree *w, int git_dir, char ret[static GIT_HEX_SIZE], struct err *err);
/* A folder in the run's folder that the sandbox will see: it belongs to the owner of the workspace. Returns a descriptor. */
int worktree_make_dir(const struct worktree *w, const char *name, struct err *err);
/* gitrepo_write() or gitrepo_write_soon() */
typedef int worktree_writer(int dir, const char *name, const void *data, size_t len, mode_t mode, struct err *err);
/* An index from one folder to another. */
int worktree_copy(int from, const char *from_name, int to, const char *to_name, worktree_writer *put, struct err *err);

/* worktree_checkout.c: the files of a commit into tree/, an index for them (in our git directory), the manifest. */
int worktree_checkout(struct worktree *w, const char *commit, const struct ignore *hidden, struct err *err);
int worktree_write_manifest(struct worktree *w, struct err *err);
/* The host's index of tree/ after the branch has moved to commit; hidden files are still left out. */
int worktree_renew_index(struct worktree *w, const char *commit, struct err *err);

int worktree_open_registered(const struct worktree *w, struct err *err); /* the folder in worktrees/; -ENOENT */

/* worktree_checkout.c, too: git/ and dotgit, for the sandbox. */
int worktree_make_private(struct worktree *w, const char *commit, struct err *err);
int worktree_set_private(struct worktree *w, const char *commit, struct err *err); /* moves the branch in there */
