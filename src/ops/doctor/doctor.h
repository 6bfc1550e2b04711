/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `bawn doctor`: doctor_look() asks the host, everything else is pure and works on invented facts too.
 *
 *     struct doctor_facts f;
 *     doctor_look(&f);
 *     check_run(&checks[i], &f);            one finding per feature of the host
 *     doctor_verdict(&f, &run);             what `bawn run` would do here
 *     fixes[i].text(&f, &out);              what would help, if fix_needed(&fixes[i], &f)
 */
#pragma once

#include <limits.h>

#include "base/err.h"
#include "engine/native/probe.h"

struct buf;

/* System calls that newer kernels have, tried without effect. */
enum doctor_call { CALL_OPENAT2, CALL_CLONE3, CALL_CLOSE_RANGE, CALL_PIDFD, CALL_MOUNT_API, CALL_MOUNT_SETATTR, CALL_COUNT };

struct doctor_facts {
    struct native_facts native;
    unsigned major, minor; /* of the kernel */
    char release[66];
    char distro[64];     /* "ubuntu 24.04"; "" if unknown */
    bool apt;            /* packages come by apt-get */
    bool systemd;        /* is PID 1 */
    char lsm[128];       /* active security modules, comma-separated; "" if unknown */
    char self[PATH_MAX]; /* this program */
    bool self_by_others; /* users other than root may replace it */
    bool apparmor_file;  /* a profile for Bawn is installed, if not for this program */
    char user[64];
    unsigned uid;
    int calls[CALL_COUNT]; /* 0: there; -errno */
    int pty, kvm;          /* 0: can be opened; -errno */
    uint64_t swap;         /* bytes */
    int64_t ptrace_scope;  /* SWITCH_ABSENT: no Yama */
    bool subuid, subgid;   /* the user has entries */
    bool tty[3];           /* which of 0, 1, 2 are terminals: the caller's to say */
    int workspace;         /* the current directory can be one: 0 or -errno */
    char workspace_path[PATH_MAX];
    struct err workspace_err;   /* why not */
    const char *nested_missing; /* a program that --nested needs of this machine; NULL: all are there */
    const char *better;         /* an engine that enforces more than the native one can here; NULL: none, or not asked */
};

void doctor_look(struct doctor_facts *ret);
/* The kernel is older than that. */
bool doctor_older_than(const struct doctor_facts *f, unsigned major, unsigned minor);

enum verdict { VERDICT_OK, VERDICT_INFO, VERDICT_WARN, VERDICT_MISSING, VERDICT_COUNT };
extern const char *const verdict_names[VERDICT_COUNT];

struct doctor_finding {
    enum verdict verdict;
    char value[300];
    char remedy[400]; /* "" if nothing has to be done */
};

struct check {
    const char *id; /* stable: documented in docs/doctor.md */
    const char *name;
    const char *how; /* how it is found out */
    const char *why; /* why it matters */
    void (*look)(const struct doctor_facts *f, struct doctor_finding *ret);
    enum doctor_call call; /* in place of look: a call, and the first kernel that has it */
    const char *since;
};
extern const struct check checks[];
extern const size_t n_checks;

struct doctor_finding check_run(const struct check *c, const struct doctor_facts *f);

/* An engine as it is on this host, and its rungs, the strongest first. */
enum { DOCTOR_ENGINES_MAX = 16, DOCTOR_RUNGS_MAX = 4 };
struct doctor_engine {
    const struct engine_ops *ops;
    size_t n;
    struct engine_state states[DOCTOR_RUNGS_MAX];
    const char *names[DOCTOR_RUNGS_MAX];
};
/* Tries those that f does not know about. Returns how many there are. */
/* all: also those that have to ask a daemon, which takes time and may leave traces in the user's home. */
size_t doctor_engines(const struct doctor_facts *f, bool all, struct doctor_engine ret[static DOCTOR_ENGINES_MAX]);

/* Whether a container engine can run inside (--nested), for this user. */
struct doctor_nested {
    bool available;
    char why[200], remedy[400]; /* "" if it is available */
};
void doctor_nested(const struct doctor_facts *f, const struct engine_ops *ops, struct doctor_nested *ret);

/* What `bawn run` with default settings would do in the current directory. */
enum doctor_outcome { RUNS_FULL, RUNS_WEAKER, REFUSES, OUTCOME_COUNT };
extern const char *const doctor_outcome_names[OUTCOME_COUNT];

struct doctor_run {
    enum doctor_outcome outcome;
    int status;     /* what `bawn doctor` exits with */
    enum rung rung; /* unless it refuses */
    char why[1000]; /* if it is not the full one */
    size_t n_announces;
    char announces[3][400]; /* what the run would say aloud */
};
void doctor_verdict(const struct doctor_facts *f, struct doctor_run *ret);

/* Remedies that can be typed or copied. None is ever executed. */
struct fix {
    const char *id; /* stable */
    const char *title;
    bool optional;           /* does not raise the rung */
    enum userns_cause cause; /* what it is against, if there is no needs() */
    bool (*needs)(const struct doctor_facts *f);
    void (*text)(const struct doctor_facts *f, struct buf *out);
};
extern const struct fix fixes[];
extern const size_t n_fixes;
bool fix_needed(const struct fix *x, const struct doctor_facts *f);
