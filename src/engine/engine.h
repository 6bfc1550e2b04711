/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines: who puts a command behind the wall. One const table each; the profile's needs are compared with what
 * the engine says it keeps, and a missing one is a refusal (or, for the native engine in auto mode, a weaker rung
 * that is announced). bawn-init is PID 1 behind every engine, so the supervisor drives them all the same way.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/macros.h"
#include "base/strv.h"
#include "config/limits.h"
#include "jail/apply/ground.h"
#include "jail/cgroup/cgroup.h"
#include "jail/plan/plan.h"

struct err;
struct settings;
struct ignore;

/* What can be enforced; an engine's vector is a set of these. */
enum guarantee {
    ENFORCES_FILES = 1 << 0,     /* nothing of the host but the workspace and read-only tools */
    ENFORCES_PROCESSES = 1 << 1, /* no process outside can be seen, signalled or read */
    ENFORCES_NETWORK = 1 << 2,   /* no packet leaves */
    ENFORCES_SOCKETS = 1 << 3,   /* no unix socket of the host can be reached */
    ENFORCES_SYSCALLS = 1 << 4,  /* kernel surface cut by a filter */
    ENFORCES_CPU = 1 << 5,
    ENFORCES_MEMORY = 1 << 6,
    ENFORCES_PIDS = 1 << 7,
    ENFORCES_DISK = 1 << 8,
    ENFORCES_TIME = 1 << 9,
    ENFORCES_END = 1 << 10,          /* nothing outlives the run */
    ENFORCES_HIDING = 1 << 11,       /* what .sandboxignore hides is not there */
    ENFORCES_HIDING_LATER = 1 << 12, /* nor if it appears while the command runs */
    ENFORCES_PROTECTION = 1 << 13,   /* what the host would run or obey is not changed unseen */
    ENFORCES_NAMES = 1 << 14,        /* network rules by name */
    ENFORCES_PORTS = 1 << 15,        /* for every port */
    ENFORCES_CREDENTIALS = 1 << 16,  /* put in outside; their values are never inside */
    ENFORCES_KERNEL = 1 << 17        /* a kernel of its own between the command and the host's */
};
enum { GUARANTEE_COUNT = 18, ENFORCES_EVERYTHING = (1 << GUARANTEE_COUNT) - 1 };
extern const char *const guarantee_names[GUARANTEE_COUNT];   /* "files", ... */
extern const char *const guarantee_meaning[GUARANTEE_COUNT]; /* a clause for people */

/* One rung or variant of an engine, as this host has it. */
struct engine_state {
    bool available;
    unsigned keeps;   /* set of enum guarantee */
    char why[240];    /* why it is not available, or not whole; "" if all is well */
    char remedy[400]; /* what a person can type; "" if nothing */
};

/* What the caller wants started. */
struct engine_request {
    const struct settings *settings;
    struct plan *plan;
    int stdio[3];                        /* what becomes 0, 1, 2 inside; -1: nothing */
    int guard;                           /* socket for the guard inside; -1: none */
    const struct ignore *hide, *protect; /* the guard's rules */
    unsigned tty;                        /* set of enum init_flag TTY bits; 0: no terminal */
    bool own_kernel;                     /* nothing that the kernel counts for a user is shared with the host */
    bool elsewhere;                      /* on another machine, whose kernel is not known */
    bool resident;                       /* no command: bawn-init waits for INIT_MSG_EXEC; the plan's argc is 0 */
    sigset_t old_mask;                   /* the signal mask of the command */
    uint64_t not_before_ns;              /* clock_pass() this before anything inside is executed; 0: nothing to wait for */
};

/* A sandbox that runs. The supervisor talks to its PID 1 through `control`. */
struct sandbox {
    const struct engine_ops *engine;
    pid_t pid;
    int pidfd, control;
    int net[4]; /* listeners made inside: tcp4, tcp6, udp4, udp6; -1: none. Taking one leaves -1 */
    int net_named
        [12]; /* TCP of single ports, for IPv4 and IPv6, where not every port is available (jail/network/network.h); -1: none */
    int shown
        [2]; /* over a byte link: where connections to PLAN_SSH_SOCKET and PLAN_CREDENTIAL_SOCKET are delivered; -1: none. Taken as well */
    struct ground ground; /* native: what its root stands on */
    struct cgroup cgroup;
    struct cgroup_host cgroup_host;
    uint64_t cpu_us; /* that everything inside has used, known once it is stopped */
    void *own;       /* the engine's, freed by its finish() */
    bool bare;       /* landlock rung: PID 1 is no PID 1, and ends the others itself */
    bool silent;     /* PID 1 was gone before the command's end was known */
    bool bytes;      /* over a byte link: descriptors that come are of this kernel, made by bawn-link */
    pid_t link_pid;  /* of bawn-link; -1: none */
};
#define SANDBOX_INIT                                                                                                \
    {                                                                                                               \
        .pid = -1, .link_pid = -1, .pidfd = -1, .control = -1, .net = {-1, -1, -1, -1}, .shown = {-1, -1},          \
        .net_named = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, .ground = GROUND_INIT, .cgroup = CGROUP_INIT \
    }

void sandbox_close_listeners(struct sandbox *sb);

/* What an image of the engine's own says about its programs. */
struct engine_image {
    struct strv env, entrypoint, cmd; /* env: "NAME=value" */
    char *workdir;                    /* "": none */
};
void engine_image_done(struct engine_image *i);

struct engine_ops {
    const char *name, *summary;
    const char *refusal;   /* why this build cannot run it at all; NULL: it can */
    unsigned can_keep;     /* at best; what this host really has: probe() */
    bool for_tests;        /* not listed, not chosen by auto */
    bool asks_others;      /* probe() runs other programs, which may be slow and leave traces in the user's home */
    const char *own_image; /* inside are never this machine's programs: this image's, if none is named */
    bool takes_image;      /* else the user hears that the image is not used */
    bool has_nested;       /* a container engine can run inside (jail/plan/plan_nested.c) */
    bool has_system;       /* a system that can be written to (jail/plan/plan_system.h) */
    bool has_gate;         /* its network leads to the gate; else there is none */
    bool has_guard;        /* direct mode: what is changed goes through the guard in bawn-init, and late names are covered */
    bool waits;            /* start() waits for not_before_ns itself, as late as it can */
    bool unmapped;         /* ids inside are the host's */
    unsigned modes;        /* set of 1 << enum workspace_mode; others become sync: a copy, with the same review */
    /* An engine with images of its own; NULL: it uses those of the store, or none. */
    int (*image)(const char *name, struct engine_image *ret, struct err *err);
    bool (*is_used)(void); /* by this user; else asking it would leave traces in the home. NULL: it leaves none */
    /* The engine's rungs on this host, strongest first; returns how many were written. */
    size_t (*probe)(struct engine_state *ret, const char **ret_names, size_t max);
    /* On failure *ret_next is the weaker rung that the caller may plan for instead; RUNG_FULL: none. */
    int (*start)(const struct engine_request *req, struct sandbox *sb, enum rung *ret_next, struct err *err);
    /* Ends whatever still runs inside and waits for its end. */
    void (*stop)(struct sandbox *sb);
    /* stop(), and what was changed inside is all here: the workspace can be settled while the engine clears away. NULL: finish() does it. */
    void (*collect)(struct sandbox *sb);
    /* stop(), collect(), and removes every trace. Safe on a sandbox that was never started. */
    void (*finish)(struct sandbox *sb);
};

extern const struct engine_ops engine_native, engine_docker, engine_podman, engine_gvisor, engine_lima, engine_sbx,
    engine_seatbelt, engine_none, engine_fake;
extern const struct engine_ops *const engines[];
extern const size_t n_engines;

/* NULL with an error that names the known ones, or says that this build does not drive it yet. */
const struct engine_ops *engine_find(const char *name, struct err *err);

/* The first engine that has to be asked for, is used here, and enforces something beyond `keeps`; NULL: none. May take a while. */
const struct engine_ops *engine_better(unsigned keeps);

/* Finds a program that belongs to Bawn: beside the running executable or in ../libexec/bawn. Never by PATH or the
 * current directory (ATTACKS 7). Writes its path; returns an O_PATH-free, executable descriptor or -errno. */
int engine_helper(const char *name, char *ret_path, size_t size);

/* The control group for processes that we start ourselves (engine_limits.c). kills: it is also what ends them. */
int engine_make_cgroup(const struct limits *limits, bool kills, struct sandbox *sb, struct err *err);
