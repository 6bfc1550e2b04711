/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of one run, from before the start (rules are read, a CA is taken, ports are opened: mistakes are reported before anything
 * runs) to the summary. Without a network, and for engines that have none, all of it does nothing.
 */
#pragma once

#include <signal.h>

#include "supervisor/network/gate_process.h"

struct host_facts;
struct plan_input;
struct plan;
struct sandbox;
struct stdio;

struct run_network {
    bool on;
    struct policy_where where;
    struct policy_files files;
    struct published published;
    struct castock ca;
    struct run_credentials credentials;
    char *state;
    bool agent;              /* the command is one */
    int meter;               /* of BAWN_METER; 0: none */
    char name[80];           /* for the log */
    struct asker *asker;     /* NULL: there is no one to ask */
    struct gatekeeper *gate; /* NULL: none */
};

#define RUN_NETWORK_INIT \
    { .credentials = RUN_CREDENTIALS_INIT }

/* Sets trust and credentials of *in. workspace: the open folder, borrowed until the end. */
int run_network_prepare(struct run_network *n, const struct settings *s, const struct host_facts *facts, struct plan_input *in,
                        int workspace, struct err *err);
/* Down the ladder there is no network: an error if the user named one, else a line about it. */
int run_network_give_up(struct run_network *n, struct err *err);

struct run_network_opts {
    struct sandbox *sandbox; /* its listeners are taken */
    struct stdio *io;        /* NULL: there is no terminal to ask on */
    const char *name;        /* of the run; NULL: its pid */
    struct audit *audit;     /* NULL: none. Borrowed until run_network_done() */
    char **argv;
    size_t argc;
    sigset_t mask;
    bool no_control; /* as in struct gate_opts */
};
/* The sandbox runs. */
int run_network_begin(struct run_network *n, const struct run_network_opts *o, struct err *err);
/* Nothing inside runs any more. */
void run_network_end(struct run_network *n);
void run_network_done(struct run_network *n);
