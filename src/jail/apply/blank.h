/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blanks: the namespaces of a sandbox, made before one is needed. A network namespace with its routes, rules and
 * listeners is the dearest part of a start that depends on nothing but the ids, so a pool (supervisor/pool/pool.h) keeps a few
 * and hands each of them out once.
 *
 * A blank is descriptors and no process: when the last one is closed the kernel takes the namespaces back, whichever process
 * was killed. The process that takes one enters it by setns() with a child of its own (launch.c), which makes the process and mount
 * namespaces there as ever. So nothing of the host's files is ever looked at ahead of time, and PID 1 is the taker's child
 * and in the taker's cgroup, as without a pool.
 *
 * spec/pool-socket.md has the messages.
 */
#pragma once

#include "jail/network/network.h"
#include "jail/plan/plan.h"

struct err;

enum { BLANK_USER, BLANK_NET, BLANK_IPC, BLANK_UTS, BLANK_SPACES };

struct blank {
    int spaces[BLANK_SPACES];
    int tree;            /* the common part of the root (template.h), detached; -1: none */
    struct plan_ids ids; /* only inside_*, host_* and by_root count */
    struct listeners listeners;
};
#define BLANK_INIT \
    { .spaces = {-1, -1, -1, -1}, .tree = -1, .listeners = LISTENERS_INIT }

/* By an ordinary user: ids->host_* are the user's own. By root: ids that no other sandbox has. */
int blank_make(const struct plan_ids *ids, struct blank *ret, struct err *err);
void blank_done(struct blank *b);
/* In a child that is alone with its working directory and root; only system calls. 0 or -errno. */
int blank_enter(const struct blank *b);

/* ---- the pool's socket ---- */

enum { POOL_PROTOCOL = 1, POOL_WHY_MAX = 160 };
enum pool_op { POOL_TAKE = 1, POOL_STATUS, POOL_OFF };

/* What a user's paths mean: a template shows the host's files as the pool sees them. */
struct pool_view {
    uint64_t space, root_dev, root_ino; /* the mount namespace, and the root in it */
};

struct pool_request {
    uint32_t protocol, op;
    uint32_t inside_uid, inside_gid; /* POOL_TAKE: the ids that the command shall have */
    struct pool_view view;           /* POOL_TAKE: the taker's; behind the message, the template that fits the plan */
};

struct pool_reply {
    uint32_t protocol;
    int32_t result; /* 0 or -errno; POOL_TAKE, 0: the namespaces come with this message, the listeners follow (network_send) */
    uint32_t host_uid, host_gid;
    uint32_t with_tree;                   /* POOL_TAKE: a message with the tree comes last */
    uint32_t pid, size, ready, templates; /* POOL_STATUS */
    uint64_t trees, taken, missed, idle_ms, left_ms;
    char why[POOL_WHY_MAX]; /* why no more are made; "" if all is well */
};

/* "$XDG_RUNTIME_DIR/bawn/pool.sock", or "run/pool.sock" in the state folder; NULL: there is no place for one. */
int pool_path(char *const *environ_, char **ret, struct err *err);
/* A connection to this user's pool, -errno if there is none. Waits for no longer than a start without a pool would take. */
int pool_connect(char *const *environ_);
/* Of the calling process. -errno. */
int pool_view(struct pool_view *ret);
/* One question and its answer without descriptors. */
int pool_ask(int sock, enum pool_op op, struct pool_reply *ret);
/* A blank for this plan; sets the ids.host_* of root's. -errno (-ENOENT, -ECONNREFUSED, -EAGAIN...): start without one. */
int blank_take(char *const *environ_, struct plan *plan, struct blank *ret);
int blank_give(int sock, struct blank *b); /* the other side; b is empty afterwards */
