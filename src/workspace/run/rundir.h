/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run leaves behind until it is applied, discarded or forgotten (spec/run-folder.md). One folder per run:
 *
 *     $XDG_STATE_HOME/bawn/runs/NAME/        0700, never visible inside any sandbox
 *         run.json      struct run_info
 *         lock          flock()ed by the process that runs in it or changes it
 *         upper/ work/  overlay: what was written inside, and the kernel's scratch
 *         tree/         sync, worktree: the private copy
 *         git/          worktree: the git directory that the sandbox sees
 *         manifest      sync, worktree: what the copy looked like when it was made (manifest.h)
 *         journal base/ what was in the workspace before (journal.h)
 *         killed        it was killed, and has changes: not to be compared again at each start
 *         undo/         the last apply, so that it can be taken back (apply.h)
 */
#pragma once

#include "base/strv.h"
#include "config/settings.h"

struct buf;
struct err;

struct run_info {
    enum workspace_mode mode;
    char *workspace;   /* absolute path on the host */
    uint64_t begun_ns; /* CLOCK_REALTIME_COARSE: comparable with the ctime of files */
    uint64_t ended_ns; /* 0: it runs, or was killed */
    int status;        /* exit status, once ended */
    struct strv command;
    char *branch, *base_commit; /* worktree; NULL elsewhere */
    bool named;                 /* the user gave the name: the run stays when nothing changed, and is used again */
};
void run_info_done(struct run_info *i);

/* run.json. The ceiling: the longest command that Linux executes (6 MiB), every byte of it as \u00XX. */
enum { RUN_INFO_MAX = 40 * 1024 * 1024 };
int run_info_write(const struct run_info *i, struct buf *out, struct err *err);
int run_info_parse(const char *text, size_t len, struct run_info *ret, struct err *err); /* -EBADMSG */

#define RUNDIR_KILLED "killed"

struct rundir {
    char *name, *path;
    int fd;   /* the folder */
    int lock; /* held: -1 if it was opened for looking only */
    struct run_info info;
};
#define RUNDIR_INIT \
    { .fd = -1, .lock = -1 }
void rundir_done(struct rundir *r); /* closes; the folder stays */

enum { RUNDIR_NAME_MAX = 64 };
/* Letters, digits, '-', '_', '.', not first; the error says so. */
int rundir_check_name(const char *name, struct err *err);

/* ".../bawn/runs"; *ret is NULL if the user has no home. */
int rundir_folder(char *const *environ_, const char *home, char **ret, struct err *err);

/* name NULL: made from the last name of the workspace and four random letters. Folders are created as needed. -EEXIST if the
 * name is taken. Comes back locked; info is copied. A folder that was not finished is never seen by the calls below. */
int rundir_create(const char *runs, const char *name, const struct run_info *info, struct rundir *ret, struct err *err);
/* The same with what fill() makes in the folder before it is seen. */
typedef int rundir_fill(int dir, void *arg, struct err *err);
int rundir_create_filled(const char *runs, const char *name, const struct run_info *info, rundir_fill *fill, void *arg,
                         struct rundir *ret, struct err *err);
/* -ENOENT: no such run (the error names the nearest); -EBUSY with lock: it is running, or being applied. */
int rundir_open(const char *runs, const char *name, bool lock, struct rundir *ret, struct err *err);

struct rundir_entry {
    char *name;
    struct run_info info;
    bool busy;
};
struct rundir_list {
    struct rundir_entry *v;
    size_t n;
};
/* Newest first; workspace NULL: of all. Folders that cannot be read are left out. */
int rundir_list(const char *runs, const char *workspace, struct rundir_list *ret, struct err *err);
void rundir_list_done(struct rundir_list *l);

/* Rewrites run.json from r->info, atomically; but for direct mode it survives a power cut. */
int rundir_save(struct rundir *r, struct err *err);
/* The same without waiting for the disk: where rundir_save() or rundir_remove() follows. */
int rundir_save_soon(struct rundir *r, struct err *err);
/* Removes the folder and all in it, whatever its modes, following no link. Crash-safe: it is renamed first, and the next
 * rundir_create() sweeps what a crash left. Takes r. */
int rundir_remove(struct rundir *r, struct err *err);
/* Removes what crashes left of creations and removals; runs may be NULL. */
void rundir_sweep(const char *runs);
/* Removes the oldest unnamed runs in direct mode of this workspace until `keep` are left; running ones are left alone. */
int rundir_prune(const char *runs, const char *workspace, size_t keep, struct err *err);
