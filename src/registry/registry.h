/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent sandboxes of a user, as plain files (spec/sandbox-folder.md). One folder each:
 *
 *     $XDG_STATE_HOME/bawn/sandboxes/NAME/   0700, never visible inside any sandbox
 *         sandbox.json   what it is (struct box_info); replaced by rename
 *         state.json     how it is (struct box_state); written by its keeper, replaced by rename
 *         lock           write-locked (F_OFD_SETLK) by the keeper as long as it lives: the kernel's own proof of life
 *         home/          the sandbox's home
 *         log/           keeper.log; job-N.out and job-N.err of commands in the background
 *         checkpoints/TAG/
 *
 * No daemon, no database, no global lock: a name is taken by mkdir+rename, life is a lock of the kernel's, and looking takes none
 * (F_OFD_GETLK), so any number of `bawn` processes work beside each other and a kill -9 leaves nothing that blocks. What overlay, sync
 * and worktree mode keep of the workspace is the run of the same name (workspace/run/rundir.h), so review, apply and discard are as ever.
 */
#pragma once

#include <sys/types.h>

#include "base/strv.h"

struct err;

enum { BOX_NAME_MAX = 40, BOX_ID_MAX = 5 + BOX_NAME_MAX + 1 + 20, BOX_BOOT_SIZE = 40 };

/* 1 to 40 of a-z A-Z 0-9 - _ . , the first a letter or digit; no "..", and neither "." nor ".lock" at the end, so that it can name a
 * branch. The error quotes what is wrong with it, escaped and cut. */
int box_check_name(const char *name, struct err *err);
/* The project's own sandbox, for keep_alive and verbs without a NAME: last name of the workspace (other characters as '-', cut) and
 * six hex digits of its path's hash. */
void box_name_for(const char *workspace, char ret[static BOX_NAME_MAX + 1]);
/* "bawn-NAME-20261115T195402Z", of now. registry_create() makes it unique for this user: a second one of the same second gets "-2". */
void box_make_id(const char *name, char ret[static BOX_ID_MAX + 1]);

struct box_info {
    char *id;            /* bawn-NAME-<ts>: never used again; in the audit log. NULL for registry_create(): it makes one */
    char *workspace;     /* absolute path on the host */
    struct strv options; /* of `bawn start`, as typed: a restart reads them again */
    uint64_t created_ns; /* CLOCK_REALTIME */
    char *from;          /* id of the sandbox it is a fork of; NULL */
    bool project;        /* made by keep_alive */
};
void box_info_done(struct box_info *i);

enum box_phase {
    BOX_STARTING,
    BOX_RUNNING,
    BOX_STOPPING,
    BOX_STOPPED,
    BOX_FAILED,
    BOX_PHASES
};                                                    /* up to BOX_STOPPING it is active */
extern const char *const box_phase_names[BOX_PHASES]; /* "starting", ... */

/* What the keeper wrote last; what of it is true now: box_look(). */
struct box_state {
    enum box_phase phase;
    pid_t pid;                                        /* the keeper */
    uint64_t start_time;                              /* of that process (os/process.h) */
    char boot[BOX_BOOT_SIZE];                         /* /proc/sys/kernel/random/boot_id */
    pid_t init;                                       /* PID 1 of the sandbox, as the host numbers it */
    uint64_t since_ns;                                /* CLOCK_REALTIME: when it got into this phase */
    uint64_t used_ns;                                 /* when a command was last started or ended */
    int status;                                       /* how it ended: 0 stopped as asked, else an exit status */
    char why[240];                                    /* BOX_FAILED: the error; "" else */
    char engine[16], rung[16], mode[16], profile[64]; /* mode: of the workspace */
    uint64_t memory, pids, cpus_milli;                /* limits; 0: none */
    char *tmp;                                        /* while it runs: the folder on disk that its /tmp is in; NULL: in memory */
    struct strv cgroups; /* absolute paths of its groups: for CPU, memory and pids without asking the keeper */
};
void box_state_done(struct box_state *s);

enum box_kind { BOX_KIND_PERSISTENT, BOX_KIND_RUN, BOX_KINDS }; /* a `bawn run`: registry/running.h */
extern const char *const box_kind_names[BOX_KINDS];             /* "persistent", "run" */

struct box {
    enum box_kind kind;
    char *name, *path;
    int fd;   /* the folder; -1 in a list (there may be more of them than descriptors) */
    int lock; /* held by us: -1 if it was opened for looking only */
    struct box_info info;
    struct box_state state;
    bool alive;     /* its keeper holds the lock. Running without a keeper: it was killed, or the machine was */
    bool this_boot; /* the state was written since the machine was started */
};
#define BOX_INIT \
    { .fd = -1, .lock = -1 }
void box_done(struct box *b); /* closes; the sandbox stays */

/* ".../bawn/sandboxes"; *ret NULL: the user has no home. -EPERM: it belongs to another user, or others may write there. */
int registry_folder(char *const *environ_, const char *home, char **ret, struct err *err);

/* Comes back locked, with an empty home/ and log/. -EEXIST: the name is taken. Made under another name and renamed: no process sees half of one. */
int registry_create(const char *boxes, const char *name, const struct box_info *info, struct box *ret, struct err *err);
/* The same, filled by the caller (forks) before it has its name, however long that takes: b is locked, with its empty home/ and log/; its
 * path is not there yet, so only b->fd is of use. What fill() made in there goes if it fails. */
typedef int registry_fill_fn(struct box *b, void *arg, struct err *err);
int registry_create_filled(const char *boxes, const char *name, const struct box_info *info, registry_fill_fn *fill, void *arg,
                           struct box *ret, struct err *err);
/* name: a name, or an id. -ENOENT: none (the error names the nearest); -EPERM: another user's; lock: -EBUSY if its keeper lives ("already
 * running"); once we have it no other process starts or removes it. */
int registry_open(const char *boxes, const char *name, bool lock, struct box *ret, struct err *err);
/* Sorted by name; what cannot be read is left out. Cheap: 500 in a few milliseconds. */
struct box_list {
    struct box *v;
    size_t n;
};
int registry_list(const char *boxes, struct box_list *ret, struct err *err);
void box_list_done(struct box_list *l);

/* All of these: b must be locked by us (the keeper's own fields: by the keeper). */
int box_save_info(struct box *b, struct err *err);
int box_save_state(struct box *b, struct err *err);
int registry_rename(const char *boxes, struct box *b, const char *name, struct err *err);
/* Crash-safe: renamed out of sight first; what a crash left is swept by the next registry_create(). Takes b. */
int registry_remove(const char *boxes, struct box *b, struct err *err);
/* One that registry_open() cannot read (-EBADMSG): its folder is all that is known of it. */
int registry_remove_damaged(const char *boxes, const char *name, struct err *err);
/* Whether the keeper of this name lives, without reading anything. boxes: the folder, open; name: a checked one. */
bool registry_is_alive(int boxes, const char *name);
/* Removes what crashes left of creations and removals; returns how many. */
int registry_sweep(const char *boxes);
/* /proc/sys/kernel/random/boot_id, "" if it cannot be read: for box_state.boot. */
void box_boot_id(char ret[static BOX_BOOT_SIZE]);

/* How it is now, for people and scripts: BOX_STOPPED/BOX_FAILED for a state of a dead keeper or another boot, whatever the file says.
 * *ret_crashed (may be NULL): BOX_STOPPED, because the keeper was killed, or the machine went down. */
enum box_phase box_look(const struct box *b, bool *ret_crashed);
