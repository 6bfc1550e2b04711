/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of bawn-broker: one for each gate, started when the gate first asks for it, and again after it ended, a few
 * times and with growing pauses. It starts bawn-vault for the values that the broker lacks and hands one end of a socket to each, so that no
 * value passes through this process; connects to the user's ssh-agent; writes down which credential was used where.
 * See proto/brokermsg.h. The broker reads what the gate sends, so it is not believed beyond the form of its messages.
 */
#pragma once

#include <poll.h>
#include <sys/types.h>

#include "policy/credential/credential.h"
#include "proto/brokermsg.h"

struct castock;
struct cgroup;
struct err;

enum {
    BROKERKEEPER_STARTS_MAX = 20, /* for one gate, one soon after the other */
    BROKERKEEPER_POLL_MAX = 1
};

struct broker_opts {
    struct castock *ca; /* NULL or without a path: no leaf certificate is made */
    const struct grant *grants;
    size_t n_grants;
    bool ssh; /* the user's ssh-agent may be asked */
    char *const *environ_;
    const char *state;           /* $XDG_STATE_HOME/bawn: secret-use/NAME is touched there; NULL: nowhere */
    const char *program;         /* instead of bawn-broker, for tests; NULL: bawn-broker */
    const struct cgroup *cgroup; /* struct helper's */
    /* A credential was asked for. grant NULL: an ssh key, whose fingerprint is in m->text. */
    void (*used)(void *arg, const struct broker_msg *m, const struct grant *grant);
    void *arg;
};

struct brokerkeeper;

int brokerkeeper_new(const struct broker_opts *opts, struct brokerkeeper **ret, struct err *err);
void brokerkeeper_free(struct brokerkeeper *b);
/* Has this run anything for a broker to do? */
bool brokerkeeper_needed(const struct brokerkeeper *b);
/* Starts one; a running one is ended first. config: a memfd, taken. *ret_sock: the end for the gate. -EAGAIN: not before
 * brokerkeeper_pause() is 0; -EDQUOT: too often for this gate. */
int brokerkeeper_start(struct brokerkeeper *b, int config, int *ret_sock, struct err *err);
int brokerkeeper_pause(const struct brokerkeeper *b); /* milliseconds until one may be started */
bool brokerkeeper_runs(const struct brokerkeeper *b);
void brokerkeeper_config(struct brokerkeeper *b, int config);               /* the rules have changed; taken */
void brokerkeeper_fetch(struct brokerkeeper *b, uint32_t index);            /* the value of this grant will be asked for */
void brokerkeeper_renew(struct brokerkeeper *b, const struct grant *grant); /* the user has logged in */
void brokerkeeper_end(struct brokerkeeper *b, bool gate_ended); /* gate_ended: the next gate may start as many again */
/* For the loop. */
size_t brokerkeeper_poll(const struct brokerkeeper *b, struct pollfd *out);
int brokerkeeper_timeout(const struct brokerkeeper *b);
void brokerkeeper_handle(struct brokerkeeper *b);
