/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sandbox from before its start to its last trace: what `bawn run` (run.c) and the keeper of a persistent sandbox (keep.h) have in common.
 *
 *     session_prepare()   engine, workspace, guard, network: mistakes are reported before anything runs
 *     session_start()     down the ladder of rungs until the sandbox runs
 *     session_begin()     what watches over it while it runs; session_want(), session_ready() and session_settle() are for the caller's loop
 *     session_stop()      nothing inside runs any more
 *     session_end()       reports, stores or removes what was changed
 *     session_done()
 *
 * A session may not be moved in memory: its parts point at each other.
 */
#pragma once

#include <poll.h>
#include <signal.h>

#include "engine/private_dir.h"
#include "registry/registry.h"
#include "supervisor/network/run_network.h"
#include "supervisor/session/run.h"
#include "supervisor/session/stage.h"
#include "supervisor/watch/guard_link.h"
#include "supervisor/watch/landing.h"
#include "supervisor/watch/latecomers.h"
#include "supervisor/watch/limit_watch.h"

struct ignore;
struct session;

/* A rung is about to be started; s->plan says how. Negative: it is not. */
typedef int session_plan_fn(void *arg, const struct session *s, struct err *err);

struct session {
    const struct run_options *opt;
    const struct engine_ops *engine;
    struct plan_input input;
    struct stage stage;
    struct guard_link guard;
    struct run_network network;
    struct ignore *protect, *no_new; /* the guard's rules: what may not be written, and not be made */
    int guard_inside;                /* the guard's end of the socket, until it is handed over */
    struct plan plan;
    struct sandbox sandbox;
    struct private_dir private_dir;
    bool wants_copy;   /* it was not started, and would be with the workspace as a copy */
    char *system_dir;  /* folder of a writable system (system_dir.h); NULL: none */
    sigset_t old_mask; /* for what runs inside */
    bool clearing;     /* what was changed is here, and the engine still clears away */
    bool launched;     /* the sandbox was started, so something may have been changed */
    struct latecomers latecomers;
    bool late; /* there are events for them */
    struct landing landing;
    struct limit_watch watch, tmp_watch;   /* all; home and /tmp on disk */
    int grows, caches, home, grown_system; /* what the disk limit looks at; -1: none */
    session_plan_fn *planned;              /* may be NULL */
    void *arg;
};
#define SESSION_INIT                                                                                                        \
    {                                                                                                                       \
        .stage = STAGE_INIT, .guard = GUARD_INIT, .network = RUN_NETWORK_INIT, .guard_inside = -1, .sandbox = SANDBOX_INIT, \
        .latecomers = LATECOMERS_INIT, .landing = LANDING_INIT, .private_dir = PRIVATE_DIR_INIT, .grows = -1, .caches = -1, \
        .home = -1, .grown_system = -1                                                                                      \
    }

/* input: copied, and filled from here on. stage_name: of the run's folder; NULL: one is made where it is needed. */
int session_prepare(struct session *s, const struct run_options *opt, const struct plan_input *input, const char *stage_name,
                    struct err *err);

struct session_how {
    int stdio[3]; /* what becomes 0, 1, 2 inside; -1: nothing */
    unsigned tty; /* set of enum init_flag TTY bits */
    bool resident;
};
int session_start(struct session *s, const struct session_how *how, struct err *err);
/* n: name, terminal and command for the network; its sandbox and mask are filled in. timed: resources.timeout ends the sandbox. */
int session_begin(struct session *s, const struct run_network_opts *n, bool timed, struct err *err);

/* A source of the loop (os/evloop.h), called each turn: what it waits for, and what came. session_settle() follows in the same turn, when
 * bawn-init's messages were read. */
struct evloop;
struct pollfd;
void session_want(struct evloop *l, void *session);
int session_ready(void *session, const struct pollfd *fds, size_t n);
/* Covers hidden names that have appeared, and decides about what landed in protected places. Negative: the sandbox has to end. */
int session_settle(struct session *s, struct err *err);
/* Which limit of those that are watched was reached. Each is said once; the caller ends the sandbox. */
enum session_limit { SESSION_WITHIN, SESSION_TIME, SESSION_DISK, SESSION_TMP };
enum session_limit session_check(struct session *s);
/* When nothing runs inside any more, so that nothing has to be watched; and before something does again. */
void session_rest(struct session *s);
int session_wake(struct session *s, struct err *err);

void session_stop(struct session *s);
/* Fills in what the result says about limits. The sandbox is still to be finished. */
void session_limits(struct session *s, struct run_result *r);
/* Removes every trace of it from the host; where the engine takes its time for that, session_end() waits for it. */
void session_finish(struct session *s);
/* After session_finish(), also if it was never started: reports, ends the workspace. */
void session_end(struct session *s, struct run_result *r);
/* What `bawn ps` shows of it while it runs. */
void session_describe(const struct session *s, const char *profile, struct box_state *ret);
void session_done(struct session *s);
