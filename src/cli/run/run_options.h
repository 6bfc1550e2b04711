/* SPDX-License-Identifier: Apache-2.0 */
/* What `run` and `explain` have in common: the options that shape a sandbox. */
#pragma once

#include "base/opt.h"
#include "config/settings.h"
#include "jail/plan/elsewhere.h"
#include "jail/plan/plan.h"

enum run_opt {
    RUN_OPT_HELP = 1,
    RUN_OPT_DIR,
    RUN_OPT_PROFILE,
    RUN_OPT_AGENT,
    RUN_OPT_ENGINE,
    RUN_OPT_IMAGE,
    RUN_OPT_CPUS,
    RUN_OPT_MEMORY,
    RUN_OPT_SWAP,
    RUN_OPT_PIDS,
    RUN_OPT_DISK,
    RUN_OPT_TIMEOUT,
    RUN_OPT_NETWORK,
    RUN_OPT_ALLOW,
    RUN_OPT_DENY,
    RUN_OPT_PUBLISH,
    RUN_OPT_ASK,
    RUN_OPT_ASK_TIMEOUT,
    RUN_OPT_SECRET,
    RUN_OPT_NO_SECRETS,
    RUN_OPT_SSH_AGENT,
    RUN_OPT_SSH_KEY,
    RUN_OPT_ENV,
    RUN_OPT_MOUNT,
    RUN_OPT_WORKSPACE,
    RUN_OPT_NAME,
    RUN_OPT_SANDBOX,
    RUN_OPT_NO_SANDBOX,
    RUN_OPT_YES,
    RUN_OPT_TTY,
    RUN_OPT_NO_TTY,
    RUN_OPT_DRY_RUN,
    RUN_OPT_JSON,
    N_RUN_OPTS = RUN_OPT_JSON, /* what `explain` has, too */
    RUN_OPT_EACH,              /* ops/batch/batch.h */
    RUN_OPT_JOBS,
    RUN_OPT_RETRIES,
    RUN_OPT_STOP,
    RUN_OPT_LOG_DIR,
    N_RUN_OPTS_RUN = RUN_OPT_LOG_DIR,
    RUN_OPT_RESULT_FD, /* not for people, so behind what help shows */
    N_RUN_OPTS_ALL = RUN_OPT_RESULT_FD,
    RUN_OPT_IDLE = 1000 /* of `bawn start` alone */
};

extern const struct opt run_opts[N_RUN_OPTS_ALL];

struct run_args {
    struct settings_flags flags;
    const char *dir, *agent, *name;
    bool record;                 /* the rules of a workspace that was never used are accepted */
    struct strv hidden;          /* from run_args_load(): what .sandboxignore hides */
    struct elsewheres elsewhere; /* where else it would be seen */
    struct plan_input input;     /* points to both, and to what an agent has */
    struct ignore *rules;        /* the same as rules, for files that appear later */
    struct ignore *accepted;     /* the accepted rules, if they differ */
    bool help, yes_unsandboxed, tty, no_tty, dry_run, json;
    const char *each, *jobs, *retries, *log_dir; /* as typed */
    bool stop_on_failure;
    int result_fd; /* a socket of ops/batch/batch.h: the result goes there, and orders come from it; 0: none */
    char **argv;   /* the command */
    size_t argc;
};

/* One option, by its id. */
int run_args_take(struct run_args *a, int id, const char *value, struct err *err);
int run_args_parse(int argc, char **argv, struct run_args *ret, struct err *err);
int run_args_parse_run(int argc, char **argv, struct run_args *ret, struct err *err); /* with those of `run` alone */
void run_args_done(struct run_args *a);

/* Goes to the workspace, asks the host and loads the settings. Strings of *facts live in *owned. */
int run_args_load(struct run_args *a, struct host_facts *facts, struct strv *owned, struct settings *ret, struct err *err);
/* --dry-run and explain: the plan, to stdout. Returns the exit status. */
int run_args_explain(const struct run_args *a, const struct host_facts *facts, const struct settings *s, struct err *err);
