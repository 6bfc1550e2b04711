/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of the gate: holds the listeners while there is no gate, starts bawn-gate when one becomes readable, feeds it with
 * rules, answers its questions, writes the log, counts for the summary, and starts another one if it dies. See proto/gatemsg.h.
 */
#pragma once

#include <poll.h>
#include <sys/types.h>

#include "base/err.h"
#include "proto/gatemsg.h"
#include "supervisor/credential/castock.h"
#include "supervisor/credential/credentials.h"
#include "supervisor/network/policy_files.h"
#include "supervisor/network/published.h"

struct asker;
struct audit;
struct buf;
struct cgroup;

enum {
    GATE_LISTENERS = 4,
    GATE_LISTENERS_ALL = GATE_LISTENERS + GATE_NAMED_MAX + GATE_PUBLISH_MAX + INSIDE_SOCKETS,
    GATE_POLL_MAX = 11 + GATE_LISTENERS_ALL
};

struct gate_opts {
    const struct policy_where *where;
    int listeners[GATE_LISTENERS]; /* tcp4, tcp6, udp4, udp6 of the sandbox; -1: none. Taken */
    int named[GATE_NAMED_MAX];     /* TCP listeners of single ports, where not every port is available; -1: none. Taken */
    struct published *published;   /* taken; may be NULL */
    const char *state;             /* $XDG_STATE_HOME/bawn; NULL: no log */
    const char *sandbox;           /* name for the log */
    struct audit *audit;           /* what was decided, for the audit log; NULL: none. Borrowed */
    struct castock *ca;            /* may be NULL */
    const struct run_credentials *credentials; /* NULL: none; freed by the caller, later */
    int inside[INSIDE_SOCKETS];                /* unix listeners (inside_sockets.h); -1: none. Taken */
    struct asker *asker;                       /* NULL: nothing is asked; freed by the caller, later */
    bool only_requests;                        /* the asker is for what agents ask for: questions of the gate are denied */
    bool bytes;                                /* over a byte link: what comes from inside are sockets of ours */
    int init_control;                          /* bawn-init's socket, for connections into the sandbox; borrowed */
    int meter;                                 /* what may leave (os/meter.h); 0: no limit. Borrowed */
    const struct cgroup *cgroup;               /* of the sandbox: it pays for the gate and the broker; NULL: none. Borrowed */
    char **argv;                               /* the command, for `status`; borrowed */
    size_t argc;
    bool no_control;              /* the caller has a control socket of its own, and calls gate_command() for it */
    const char *program, *broker; /* instead of bawn-gate and bawn-broker, for tests; NULL: those */
};

struct gatekeeper;

/* Takes files, and what opts says, also on failure. */
int gatekeeper_new(const struct gate_opts *opts, struct policy_files *files, struct gatekeeper **ret, struct err *err);
/* For the loop: entries to wait for, how long at most (-1: for ever), and what to do then. */
size_t gatekeeper_poll(struct gatekeeper *g, struct pollfd *out); /* at most GATE_POLL_MAX */
int gatekeeper_timeout(const struct gatekeeper *g);
void gatekeeper_handle(struct gatekeeper *g, const struct pollfd *fds, size_t n);
/* Starts gate and broker, and fetches the values that run_credentials.soon names: there will be a connection. */
void gatekeeper_begin(struct gatekeeper *g);
/* bawn-init sent a connection that was asked for (INIT_MSG_INSIDE). Takes fd. */
void gatekeeper_inside(struct gatekeeper *g, uint32_t id, int error, int fd);
/* Ends the gate and the broker, flushes the log; then the summary can be read. */
void gatekeeper_finish(struct gatekeeper *g);
void gatekeeper_report(const struct gatekeeper *g);                /* lines for people: hosts reached, hosts refused */
void gatekeeper_json(const struct gatekeeper *g, struct buf *out); /* "network": {...} for run --json */
void gatekeeper_free(struct gatekeeper *g);
