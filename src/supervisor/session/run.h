/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run from beginning to end: engine and rung are chosen, the sandbox is started, watched, ended, and every trace
 * removed. The caller (cli, later the service) made the settings and prints what comes back.
 */
#pragma once

#include "base/err.h"
#include "engine/engine.h"
#include "workspace/run/rundir.h"

struct settings;
struct ignore;

enum run_limit { RUN_LIMIT_MEMORY, RUN_LIMIT_PIDS, RUN_LIMIT_DISK, RUN_LIMIT_TIME, RUN_LIMIT_PRIVATE, RUN_LIMIT_COUNT };
extern const char *const run_limit_names[RUN_LIMIT_COUNT];

enum { EXIT_TIMEOUT = 124 }; /* as timeout(1) has it */

/* Bytes from run_options.parent. The end of the socket counts as RUN_PARENT_END, so that no run outlives a parent that was killed. */
enum { RUN_PARENT_END = 'T' /* SIGTERM, and SIGKILL for what is there seconds later */, RUN_PARENT_KILL = 'K' };

struct run_options {
    const struct settings *settings;
    const struct host_facts *facts;
    const struct plan_input *input; /* what is known before the stages of the run: hidden files, an agent's home */
    const struct ignore *rules;     /* what is hidden in the workspace */
    const struct ignore *accepted;  /* older rules of which some still count (workspace/hide/pin.h); NULL: none */
    const char *name;               /* of the run, for --name; NULL: none */
    bool fresh; /* the name is new, not the user's: no earlier run goes on, and the run is removed if nothing changed */
    char **argv;
    size_t argc;
    bool force_tty, no_tty;
    bool want_usage; /* measure memory and CPU time, and list the hosts that were reached */
    bool closed[3];  /* from stdio_reserve(): which of 0, 1, 2 were closed at the start */
    int parent;      /* a socket of the batch that this run is a task of (ops/batch/batch.h), see RUN_PARENT_*; 0: none */
};

/* When a run began, started the command, saw its end, had its changes, and was done. */
enum run_time { RUN_TIME_BEGUN, RUN_TIME_COMMAND, RUN_TIME_ENDED, RUN_TIME_REVIEWED, RUN_TIME_DONE, RUN_TIMES };
extern const char *const run_time_names[RUN_TIMES];

struct run_result {
    int status;      /* what `bawn run` exits with */
    int signal;      /* the command was ended by it; 0: it was not */
    bool started;    /* the command was executed */
    bool wants_copy; /* nothing was started: what is hidden cannot be hidden in the workspace itself here, but in a copy of it */
    int exec_errno;  /* it could not be: why */
    const char *engine;
    enum rung rung;
    bool hit[RUN_LIMIT_COUNT];
    uint64_t duration_us;
    uint64_t times[RUN_TIMES]; /* nanoseconds since 1970; 0: it did not come to that */
    struct cgroup_usage usage;
    struct limits limits;
    uint64_t private_size; /* bytes that home and /tmp have */
    bool tmp_on_disk;      /* they are not in memory */
    struct cgroup_caps enforced;
    char run[RUNDIR_NAME_MAX + 1]; /* the folder that keeps what was changed; "": none */
    size_t changes;
    char *network; /* "network": {...} of the summary; NULL: there was none. Owned: run_result_done() */
};
void run_result_done(struct run_result *r);

/* Fails only if nothing was started. Messages that belong to the run (weaker rung, limits) are logged as they arise. */
int run_command(const struct run_options *opt, struct run_result *ret, struct err *err);

struct buf;
void run_report_limits(const struct run_result *r, const struct settings *s); /* log lines for limits that were hit */
void run_report_json(const struct run_result *r, const struct settings *s, struct buf *out);
void run_announce_rung(const struct plan *p); /* the line about a weaker rung, if it is one */
void run_announce_limits(const struct plan *p, const struct cgroup *cg, const struct host_facts *facts); /* once a day */

/* What these settings need enforced, as a set of enum guarantee, and the comparison with an engine. */
unsigned run_needs(const struct settings *s);
int run_check_engine(const struct engine_ops *e, const struct settings *s, struct err *err);
