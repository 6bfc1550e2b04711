/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries a plan out. jail_launch() makes the process that becomes PID 1 of the sandbox; it runs the steps of
 * the plan in new namespaces and then executes bawn-init, which locks itself down (seccomp, Landlock,
 * capabilities) before it starts the command. Any failed step ends the child; nothing is left behind.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/err.h"
#include "os/user/idspace.h"

struct plan;
struct step;
struct cgroup;
struct blank;
struct ground;
struct plan_ids;

struct launch {
    const struct plan *plan;
    struct cgroup *cgroup;       /* entered by the child */
    int init_fd;                 /* the bawn-init program */
    int control_fd;              /* the child's end of the control socket */
    int start_fd;                /* memfd with the encoded struct init_start */
    int guard_fd;                /* the child's end of the guard's socket; -1: no guard */
    int stdio[3];                /* what becomes 0, 1, 2; -1: /dev/null of the sandbox */
    sigset_t old_mask;           /* the signal mask the command shall have */
    const struct blank *blank;   /* namespaces to enter instead of making them (blank.h); NULL: none */
    const struct ground *ground; /* the root's folders and files on disk (ground.h); NULL: they are made in memory */
    uint64_t not_before_ns;      /* clock_pass() this before bawn-init is executed */
    bool linked; /* `bawn-init --link`: makes the network by itself, and has the capability for it until it locks itself down */
    bool named_ports; /* not every port is captured: the proxy is named in the variables. Of the blank, or by the child */

    /* results */
    pid_t pid;
    int pidfd;
    bool no_userns; /* failed because there are no user namespaces: the caller may take a weaker rung */
    bool no_netns;  /* and perhaps only because there are no network namespaces */
    struct err err; /* written by the child, which shares our memory until it execs */

    /* used by apply.c */
    int root_fd, child_init_fd, workspace_fd;
    int made_fd; /* where places are made until the root is sealed: the root, or, of a template or with a ground, the private areas */
    uint64_t private_dev; /* the tmpfs that this sandbox alone has, as st_dev */
    bool made_attached;   /* it is not the root, and is mounted below /proc */
    int ground_tree;      /* by root: the ground's mount, made before the clone; -1: none */
    int userns;           /* with several ids: made before the clone; -1: the child makes its own */
    int lower, run;       /* overlay: the workspace, the run's folder; detached */
    int home_fd;          /* a persistent home, once it is there; -1: not yet */
    struct {
        int file, dir;
    } cover; /* what hidden things are covered by */
    bool born_in_cgroup;
    struct {
        int fd; /* -1: none yet */
        uid_t uid;
        gid_t gid;
        struct id_extent more; /* of uids; none: n is 0 */
    } idmap;                   /* by root: the last userns that mapped an owner, and whom */
    int *trees;                /* by root: idmapped mounts made before the clone, one per step, -1: none */
};

int jail_launch(struct launch *l, struct err *err);

/* apply_many.c: the user namespace of a sandbox with several ids, into l->userns; by the starter. */
int apply_many_userns(struct launch *l, struct err *err) MUST_USE;

/* Steps of the child, in order (apply_*.c). */
int apply_ids(struct launch *l);
int apply_quota(struct launch *l);
int apply_network(struct launch *l);
int apply_root(struct launch *l);
int apply_template(struct launch *l); /* instead of apply_root(): steps that need nothing of one sandbox only (template.h) */
int apply_enter(struct launch *l);
int apply_overlay(struct launch *l, const struct step *s, int *ret_mount); /* the workspace of overlay mode, detached */
/* apply_tracked.c: covers of hidden files that git tracks, into trees; and the same in the mask of overlay mode. */
int apply_tracked(struct launch *l);
int mask_tracked(int mask, int lower, const struct step *s);
/* apply_home.c: a step below a persistent home; the home is mounted. And the workspace in there, O_PATH. */
int apply_home(struct launch *l, const struct step *s);
int apply_home_open(struct launch *l, const char *path);
int apply_fds(struct launch *l);  /* 0..4 as bawn-init expects them */
int apply_exec(struct launch *l); /* closes the rest, executes bawn-init; returns only on failure */

/* By root: userns that maps the owner's id to the sandbox's id, for idmapped mounts. Returns a descriptor. */
int idmap_userns(uid_t owner_uid, uid_t host_uid, gid_t owner_gid, gid_t host_gid);

/* Root takes the sandbox's unprivileged ids as its effective ones; capabilities stay (see apply_ids.c). And back. */
int ids_take(const struct plan_ids *ids, struct err *err);
void ids_return(void);
