/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that appear on the host under a hidden name while a sandbox shows that folder (direct, overlay, ro): covered as soon as the
 * kernel reports them (inotify), about a millisecond after they appear. Also what an editor does: it writes a new file and renames it
 * over the old one, which takes the cover off. sync and worktree need none of this.
 *
 * Not watched means not shown: a folder that cannot be read or watched is covered as a whole, and shown once the host opens it. When
 * the user's watches do not suffice the run ends. In direct mode the guard reports before a folder is closed (mode 000) and after one
 * was moved, and waits (proto/guardmsg.h): what the command moves is covered again before its call returns.
 *
 * The folders are gone through while the command already runs, a few at a time, so that nothing waits for it. That begins
 * LATECOMERS_DELAY_MS after the start: closing an inotify instance waits for an RCU grace period, often 10 ms, which is more than
 * all of a short run.
 *
 * Who makes many files makes many events. So after each look at them there is a pause of LATECOMERS_PAUSE_MS, and what comes meanwhile is looked at
 * together: waking up for each would cost more than making the file.
 *
 * A user has only so many inotify instances (fs.inotify.max_user_instances, 128 on many systems); past them the folders are gone
 * through once a second while something runs inside, and before it does.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/strv.h"
#include "jail/plan/plan.h"
#include "supervisor/watch/made.h"
#include "supervisor/watch/wdtable.h"

struct ignore;
struct landing;

enum { LATECOMERS_DELAY_MS = 50, LATECOMERS_AGAIN_MS = 1000, LATECOMERS_PAUSE_MS = 1 };

struct latecomers_opts {                   /* all borrowed */
    int workspace;                         /* the host's folder */
    int pidfd, upper;                      /* as in jail/apply/covers.h */
    const struct elsewheres *elsewhere;    /* the same; may be NULL */
    const struct ignore *rules, *accepted; /* hidden is what either hides; accepted may be NULL */
    const struct ignore *no_new;           /* hidden names that the command cannot make; NULL: it makes none */
    const struct plan *plan;
    struct landing *landing; /* sees every name in the workspace; NULL: none */
    bool covers;             /* names can be covered: there are mounts */
};

struct latecomers {
    struct latecomers_opts o;
    uint64_t begin_ms;   /* when to begin; 0: it has, or never will */
    int inotify;         /* -1: not yet, or none is available */
    uint64_t pause_ms;   /* until then events wait; 0: none did */
    struct made made;    /* those that it made, where it can */
    struct strv masked;  /* overlay: what its mask hides or replaces, whatever appears there; sorted */
    struct strv mounted; /* folders in it that are volumes or mounts: what the host has there is out of sight */
    struct strv queue;   /* folders to look at */
    struct strv found;   /* what to cover */
    struct strv closed;  /* covered because they cannot be read; not in an overlay */
    struct strv opened;  /* of these, what can be shown now */
    struct wdtable paths;
    struct err failed; /* something could not be covered: the run has to end */
    bool reported_instances, reported_closed;
    bool resting; /* nothing inside could see a file */
    bool again;   /* events were lost: everything once more, after what is in the queue */
};
#define LATECOMERS_INIT                                                  \
    {                                                                    \
        .inotify = -1, .o = {.workspace = -1, .pidfd = -1, .upper = -1 } \
    }

int latecomers_init(struct latecomers *l, const struct latecomers_opts *o, struct err *err);
void latecomers_done(struct latecomers *l);
/* Nothing inside runs any more: what happened last is only seen (landing.h). */
void latecomers_last(struct latecomers *l);

/* For poll(), POLLIN; and milliseconds until there is work, -1: none. */
int latecomers_fd(const struct latecomers *l);
int latecomers_timeout(const struct latecomers *l);
/* Reads what happened and does a part of the work. Negative: something hidden could not be covered, so the run has to end. */
int latecomers_handle(struct latecomers *l, struct err *err);
/* Before something runs again, after l->resting was set: what appeared meanwhile is covered. */
int latecomers_wake(struct latecomers *l, struct err *err);

/* The command waits. The folder moved here, or is about to be closed: everything below it is watched, and covered if it is hidden.
 * -errno: it was not; latecomers_handle() has the message. */
int latecomers_look(struct latecomers *l, const char *path, bool closing);
/* The command is about to make a hidden name where it may; and did (fd), or failed (-1). */
int latecomers_making(struct latecomers *l, const char *path);
void latecomers_made(struct latecomers *l, const char *path, int fd);

/* Whether the rules hide a file of this path. */
bool latecomers_hides(const struct latecomers *l, const char *path);

/* latecomers_walk.c, for latecomers.c: what is in the folders, and what the kernel reports about them. 0, or -errno: -ENOSPC if the user's
 * watches do not suffice, -EMFILE and the like, -ENOMEM. */
int late_judge(struct latecomers *l, const char *path, bool is_dir); /* to be covered, to be walked, or nothing */
int late_walk_folder(struct latecomers *l, const char *path);
int late_read_events(struct latecomers *l, bool all); /* what there is now, or a part of it */
