/* SPDX-License-Identifier: Apache-2.0 */
/* What a run is to be like, as asked for by a command line, a persistent sandbox's folder or a program. */
#pragma once

#include "base/opt.h"
#include "config/settings.h"

struct err;
struct notice;

/* Strings are the caller's, lists are owned: run_request_done(). All zero is a run with the settings of the current folder. */
struct run_request {
    struct settings_flags flags;
    const char *dir;          /* the workspace; NULL: the current folder */
    const char *agent;        /* its settings, and its program if it has a preset (ops/agent/agent_run.h); NULL: none */
    const char *agent_config; /* the user's own settings of the agent: "ask", "yes"; NULL: they stay out */
    const char *agent_setup;  /* file of ops/agent/agent_setup.h; NULL: none */
    bool (*confirm)(const struct strv *runs,
                    void *arg); /* for "ask": lists what they run, and asks; NULL: there is no terminal */
    const char *name;           /* of the run; NULL: none */
    bool dry_run;               /* nothing is recorded, made or installed */
    bool tty, no_tty;           /* give it a terminal, or pipes, whatever our streams are */
    bool want_usage;            /* measure memory and CPU time, and list the hosts that were reached */
    bool closed[3];             /* from stdio_reserve(): which of 0, 1, 2 were closed at the start */
    int parent;                 /* a task's socket (ops/batch/batch.h); 0: none */
    bool passing;               /* the workspace does not come again: nothing is stored for the next run in it */
    bool image_command;         /* without a command it is the image's own */
    char **argv;                /* the command; with an agent its arguments */
    size_t argc;
    const struct notice *notice, *alert; /* alert: also with --quiet */
};
void run_request_done(struct run_request *q);

/* Adds what shapes the sandbox as options, one "--name=value" each, in the order of RUN_SHAPE_OPTS. Not the workspace's folder. */
int run_request_words(const struct run_request *q, struct strv *ret, struct err *err);
/* The inverse. Strings of q point into `words`, which another version of Bawn may have written: unknown ones are an error. */
int run_request_read(struct run_request *q, const struct strv *words, struct err *err);

/* For rows of option tables: "auto", "require" and, for --no-sandbox, "off". */
opt_call run_request_sandbox, run_request_no_sandbox;
opt_call run_request_agent_config; /* "ask", "yes" */
