/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings changes from a run into the workspace, and takes them back.
 *
 * All or nothing: first a plan for every path (nothing is touched), then the host's versions are put away in undo/, every new file
 * is written beside its target, and they are moved into place one after the other. A failure, or a crash found by the next
 * call, takes back what was done. Each file appears whole or not at all. No link is followed and nothing outside the
 * workspace is reached, whatever the run put there (ATTACKS 18).
 *
 * In the run's folder: undo.new/ an apply that is not finished, undo/ the last one that was, undo.old/ and undo.gone/ what is
 * removed next. Each has journal and base/ (what was there before), after/ (a journal of what was put there) and what left the run.
 */
#pragma once

#include "base/strv.h"
#include "workspace/change/change.h"

enum { APPLY_MERGE_MAX = 4 * 1024 * 1024 }; /* bytes: larger files are not merged */

enum apply_outcome {
    APPLY_DONE,     /* brought in */
    APPLY_MERGED,   /* both sides had changed different lines */
    APPLY_SAME,     /* the host has it already */
    APPLY_CONFLICT, /* both sides changed it: nothing was done */
    APPLY_LEFT,     /* not asked for (--only), or a hidden name */
    APPLY_REFUSED,  /* would leave the workspace, or is a device */
    APPLY_OUTCOMES
};
extern const char *const apply_outcome_names[APPLY_OUTCOMES];

enum apply_conflict {
    APPLY_STOP,      /* any conflict: nothing is applied (default) */
    APPLY_SKIP,      /* the rest is applied */
    APPLY_KEEP_BOTH, /* the run's version lands beside it as NAME.bawn-RUN */
    APPLY_OVERWRITE  /* the run's version wins; the host's is in undo/ */
};

/* Three-way merge of text; *ret_fd is an open file with the result. 0: merged, 1: conflict, negative: failed. Hostile bytes:
 * the caller does it in a jailed process. */
typedef int apply_merge_fn(int base, int ours, int theirs, int *ret_fd, void *arg, struct err *err);

struct apply_opts {
    const struct strv *only;   /* gitignore-style patterns or plain paths; NULL or empty: everything */
    const struct strv *except; /* the same, left out */
    const bool *leave;         /* one for each change of the set: left out for its risk. NULL: none */
    enum apply_conflict conflict;
    bool dry_run;
    bool allow_links_out;  /* symbolic links whose target is absolute or climbs out of the workspace; else refused */
    apply_merge_fn *merge; /* NULL: no merging, a conflict instead */
    void *merge_arg;
};

struct apply_item {
    const struct change *change;
    enum apply_outcome outcome;
    char why[160]; /* for conflicts and refusals */
};
struct apply_result {
    struct apply_item *v; /* one per change, in their order */
    size_t n;
    bool conflicts; /* APPLY_STOP: and therefore nothing was done */
};

/* A link at this path with this target leads out of the workspace, as far as names tell. */
bool apply_link_leads_out(const char *path, const char *target);

/* rd is locked. Applied changes leave the run (the rest stays for later); an apply that a crash cut off is taken back first. */
int apply_changes(struct rundir *rd, const struct change_set *s, int workspace, const struct apply_opts *opts,
                  struct apply_result *ret, struct err *err);
void apply_result_done(struct apply_result *r);

/* Takes the last apply back. -ENOENT: there is none. Files that changed since are left alone and named, unless force. */
int apply_undo(struct rundir *rd, int workspace, bool force, struct strv *ret_left, struct err *err);
/* After a crash in the middle of an apply: takes back what was done. Returns 1 if there was something, else 0. */
int apply_recover(struct rundir *rd, int workspace, struct err *err);

/* Restores a direct-mode workspace from the journal of its run; only: as above. What cannot be restored (content not stored) or
 * was changed since the run ended is named in ret_left and left alone, unless force. Itself undoable by apply_undo(). */
int rollback_run(struct rundir *rd, const struct change_set *s, int workspace, const struct strv *only, bool force,
                 struct strv *ret_left, struct err *err);
/* What rollback_run() would leave alone; nothing is touched. */
int rollback_check(struct rundir *rd, const struct change_set *s, int workspace, const struct strv *only, bool force,
                   struct strv *ret_left, struct err *err);

/* Takes changes out of a run in overlay, sync or worktree mode, for good. What cannot be taken out alone (a file below a folder
 * that was deleted or replaced as a whole) is named in ret_left. rd is locked. */
int discard_changes(struct rundir *rd, const struct change_set *s, const struct strv *only, struct strv *ret_left,
                    struct err *err);
