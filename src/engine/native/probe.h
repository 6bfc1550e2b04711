/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the native engine can have on this host. native_look() really tries: a throw-away process goes the way of
 * jail_launch() through the same functions, up to the point where bawn-init would be executed. native_judge() turns
 * what was seen into rungs; it is pure, so that tests can invent hosts.
 */
#pragma once

#include "base/err.h"
#include "engine/engine.h"

enum container {
    CONTAINER_NO,
    CONTAINER_DOCKER,
    CONTAINER_PODMAN,
    CONTAINER_KUBERNETES,
    CONTAINER_LXC,
    CONTAINER_NSPAWN,
    CONTAINER_OTHER,
    CONTAINER_COUNT
};
extern const char *const container_names[CONTAINER_COUNT];

enum { SWITCH_ABSENT = -1, NOT_TRIED = 1 };

struct native_facts {
    bool root;
    bool stuck;               /* root that cannot become another user: lacks CAP_SETUID and the like */
    bool root_owns;           /* the current directory: without user namespaces the command would have to be root */
    int init, scope;          /* bawn-init and bawn-scope: 0 if found and executable, or -errno */
    int memfd;                /* memory for the message to bawn-init: 0 or -errno */
    int seccomp;              /* a filter was installed: 0 or -errno */
    int notify;               /* seccomp notification as the guard of direct mode needs it */
    int landlock_abi;         /* 0: none */
    int ids;                  /* root took the sandbox's unprivileged ids: 0 or -errno */
    int launch;               /* namespaces, ids, root of the sandbox: 0 or -errno */
    bool launch_userns;       /* it failed in a way for which jail_launch() permits the weaker rung */
    bool launch_cloned;       /* the namespaces themselves could be made */
    struct err launch_err;    /* the step that failed */
    int shared;               /* the same in the host's network: 0 or -errno; NOT_TRIED if that is not what was refused */
    int idmap;                /* the current directory as an idmapped mount; NOT_TRIED unless root */
    int overlay;              /* overlayfs in the user namespace; NOT_TRIED if the launch failed before */
    int network;              /* listeners that connections of the sandbox lead to: 0 or -errno; NOT_TRIED as before */
    unsigned network_has;     /* what they hear: see jail/network/network.h */
    int network_rules;        /* why they do not hear every port: -errno */
    int64_t userns_clone;     /* kernel.unprivileged_userns_clone (Debian, Ubuntu) */
    int64_t userns_max;       /* user.max_user_namespaces */
    int64_t userns_apparmor;  /* kernel.apparmor_restrict_unprivileged_userns (Ubuntu 23.10 and newer) */
    bool filtered;            /* this process was started under a seccomp filter */
    enum container container; /* that we are in */
    struct cgroup_host cgroup;
};

/* Milliseconds; leaves nothing behind and nothing changed in the caller. */
void native_look(struct native_facts *ret);
void native_judge(const struct native_facts *f, struct engine_state ret[static RUNG_COUNT]);

/* Why there are no user namespaces. */
enum userns_cause {
    USERNS_FINE,
    USERNS_KERNEL,    /* built without them */
    USERNS_CLONE,     /* switched off for users */
    USERNS_NETWORK,   /* there are, and no network namespaces in them */
    USERNS_MAX,       /* none allowed, or no more */
    USERNS_CONTAINER, /* the container around us */
    USERNS_APPARMOR,
    USERNS_IDS,    /* root, but of a user namespace with too few ids, or without the capabilities */
    USERNS_FILTER, /* a seccomp filter that we were started under */
    USERNS_UNKNOWN,
    USERNS_CAUSE_COUNT
};
enum rung native_best(const struct engine_state rungs[static RUNG_COUNT]); /* the strongest that is available; RUNG_COUNT: none */
enum userns_cause native_userns_cause(const struct native_facts *f);
const char *native_userns_why(enum userns_cause cause); /* a clause; NULL for USERNS_FINE */

/* From what a container engine leaves inside: the word after container=, and /proc/self/cgroup. Either may be "". */
enum container container_guess(const char *word, const char *cgroup_text);
