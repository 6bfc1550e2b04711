/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace of one run, before and after it: what the mode needs is made ready (a folder for what is written, a copy, a
 * branch), and when the command has ended, what it changed is stored for `bawn review`, carried back, or, if there is
 * nothing, removed without a trace.
 */
#pragma once

#include "base/buf.h"
#include "jail/plan/plan.h"
#include "supervisor/session/volumes.h"
#include "workspace/git/gitidentity.h"
#include "workspace/mode/worktree.h"
#include "workspace/run/rundir.h"

struct ignore;
struct journal;
struct run_options;

struct stage {
    const struct run_options *opt;
    const char *name; /* for the run; NULL: one is made */
    const struct host_facts *facts;
    const struct lookalikes *tracked; /* of what is hidden, what git tracks; may be NULL */
    enum workspace_mode mode;
    uint64_t begun_ns;
    uint64_t made_ns;    /* when all that the sandbox works on was there: what it changes is to have a later time */
    uint64_t save_at_ms; /* of clock_ms(): run.json is to be on the disk by then; 0: it is */
    char *runs;          /* folder of the runs; NULL: the user has no home */
    struct rundir rd;
    bool have; /* rd is there */
    bool new_; /* it was made for this run */
    int workspace;
    struct worktree_view view;
    struct volumes volumes;
    struct git_identity git;
    size_t changes; /* after stage_end() */
};
#define STAGE_INIT \
    { .rd = RUNDIR_INIT, .workspace = -1, .git = GIT_IDENTITY_INIT }

/* The current directory is the workspace. Sets what *in says of workspace, git and caches. In direct mode nothing is made yet. */
int stage_begin(struct stage *st, const struct run_options *opt, const char *name, struct plan_input *in, struct err *err);
/* The start does not wait for the disk: a power cut within the first second may lose the run. For poll(2), and after it. */
int stage_timeout(const struct stage *st);
void stage_turn(struct stage *st);
/* The run's folder, made now if there is none: direct mode, at the first change. */
int stage_folder(struct stage *st, struct err *err);
/* The journal of a run in direct mode, new. */
int stage_journal(const struct stage *st, const struct rundir *rd, struct journal **ret, struct err *err);
/* After the command: keeps, carries or removes, and logs what the user can do next. Nothing of a run is lost if this fails. */
int stage_end(struct stage *st, int status, struct err *err);
/* The run never started: removes what was made for it. */
void stage_undo(struct stage *st);
void stage_done(struct stage *st);

/* Names that the command may not make in direct mode: the hidden ones, but not in folders of dependencies, which tools fill with
 * certificates and sample configurations. */
int stage_no_new(const struct stage *st, struct ignore **ret, struct err *err);
/* The paths that the guard protects in this workspace. */
int stage_protect(const struct stage *st, struct ignore **ret, struct err *err);

/* Shared by stage*.c: puts substitutes into the copy. */
int stage_substitutes(struct stage *st, struct err *err);

/* A descriptor of what grows while the command writes, for the disk limit; -1: the workspace itself. */
int stage_growth(const struct stage *st);
