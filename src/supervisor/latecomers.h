/*
 * Files that appear on the host under a hidden name while a sandbox shows that folder (direct, overlay, ro): covered as soon as the
 * kernel tells (inotify), about a millisecond after they appear. Also what an editor does: it writes a new file and renames it
 * over the old one, which takes the cover off. sync and worktree need none of this.
 *
 * The folders are gone through while the command already runs, a few at a time, so that nothing waits for it. That begins
 * LATECOMERS_DELAY_MS after the start: closing an inotify instance waits for an RCU grace period, often 10 ms, which is more than
 * all of a short run.
 *
 * A user has only so many inotify instances (fs.inotify.max_user_instances, 128 on many systems); past them the folders are gone
 * through once a second while something runs inside, and before it does.
 */
#pragma once

#include <sys/types.h>

#include "base/strv.h"
#include "jail/plan.h"

struct err;
struct guard;
struct ignore;
struct landing;

enum { LATECOMERS_DELAY_MS = 50, LATECOMERS_AGAIN_MS = 1000 };

struct latecomers {
    uint64_t begin_ms;                     /* when to begin; 0: it has, or never will */
    int inotify;                           /* -1: not yet, or none is to be had */
    int workspace;                         /* the host's folder; borrowed */
    const struct ignore *rules, *accepted; /* borrowed; hidden is what either hides; accepted may be NULL */
    const struct guard *guard;             /* what it saw being made is the command's own; borrowed */
    struct landing *landing;               /* sees every name in the workspace; NULL: nobody wants to; borrowed */
    bool covers;                           /* names can be covered: there are mounts */
    struct strv masked;                    /* overlay: what its mask hides or replaces, whatever appears there; sorted */
    const char *inside;                    /* the workspace's path inside */
    int pidfd, upper;                      /* as in jail/cover.h */
    uid_t uid;
    gid_t gid;
    struct strv queue; /* folders to look at */
    struct strv found; /* hidden names to cover */
    char **path_of;    /* of a watch descriptor */
    size_t n_paths;
    bool told_limit, told_instances;
    bool resting; /* nothing inside could see a file */
    bool walked;  /* all folders of the start are watched, or it was told that they cannot be */
};
#define LATECOMERS_INIT \
    { .inotify = -1, .workspace = -1, .pidfd = -1, .upper = -1 }

struct latecomers_opts {
    int workspace, pidfd, upper;
    const struct ignore *rules, *accepted;
    const struct plan *plan;
    const struct guard *guard;
    struct landing *landing;
    bool covers;
};
int latecomers_init(struct latecomers *l, const struct latecomers_opts *o, struct err *err);
void latecomers_done(struct latecomers *l);
/* Nothing inside runs any more: what happened last is only seen (landing.h). */
void latecomers_last(struct latecomers *l);

/* For poll(): -1 if there is nothing to wait for; and milliseconds until there is work, -1: none. */
int latecomers_fd(const struct latecomers *l);
int latecomers_timeout(const struct latecomers *l);
/* Reads what happened and does a part of the work. Negative: something hidden could not be covered, so the run has to end. */
int latecomers_handle(struct latecomers *l, struct err *err);
/* Nothing runs inside, so nothing has to be looked for; and before something runs again: what appeared meanwhile is covered. */
void latecomers_rest(struct latecomers *l);
int latecomers_wake(struct latecomers *l, struct err *err);
