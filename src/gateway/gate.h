/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-gate: one per sandbox, started at its first connection, jailed (gate_jail.h).
 *
 * Theory of operation. The listeners were made inside the sandbox's network namespace, where every address is local;
 * connections that are accepted from them carry their original destination as their own address (getsockname). For each one
 * (struct flow, flow.c):
 *
 *     destination -> host    the name to which DNS handed the address out (names.h), else the address itself
 *     first bytes            peeked (MSG_PEEK, SO_RCVLOWAT against spinning), never read before it is known who reads them
 *     verdict                policy_judge() on host and port; ask: the flow waits for the supervisor
 *     lookup                 resolve.h; every address is judged, the first allowed one is dialled (and no other one is ever)
 *     relay                  spliced (relay.h), SNI = name checked on the way; or inspected (inspect.h)
 *
 * A denial is answered in the protocol spoken (refuse.h). One thread, one loop (libuv), no file, no child.
 */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "gateway/epoll_set.h"
#include "gateway/net/names.h"
#include "gateway/net/nat64.h"
#include "os/meter.h"
#include "policy/gateconf.h"
#include "policy/rules/verdict.h"

struct resolver;
struct dnsd;
struct tls;
struct brokerlink;
struct placeholders;
struct flow;
struct gate_control;
struct hub;
struct pipes;
struct why;
struct pacer;
struct listener;
struct ask;
struct inlet;
struct credd;

/* Whether an address is this machine's own, as it was a moment ago. */
struct own_addr {
    struct addr addr;
    bool own;
    uint64_t until_ms;
};

enum {
    GATE_OWN_CACHE = 64,
    GATE_FLOWS_DEFAULT = 4096,
    GATE_LISTENERS_MAX = 2 + GATE_PUBLISH_MAX + GATE_NAMED_MAX,
    GATE_TRUST_MAX = 4 /* bundles of the host's trusted certificates */
};

/* Open connections. */
struct gate_flows {
    struct flow *first;
    size_t n;
    uint64_t last_id;
};

/* Questions that wait for the user. */
struct gate_asks {
    struct ask *first;
    size_t n;
    uint32_t last_id;
    char said[264]; /* what came with the answer that is being handed out */
};

struct gate {
    uv_loop_t loop;
    struct gate_config config;
    struct policy policy;
    struct names *names;
    struct resolver *resolver;
    struct dnsd *dnsd;
    struct tls *tls;
    struct brokerlink *broker;
    struct placeholders *placeholders; /* of config.grants; NULL: there are none */
    struct gate_control *control;      /* NULL: no supervisor (unit tests of single parts) */
    struct gate_flows flows;
    struct hub *hub;                                /* epoll_set.h */
    struct pipes *pipes;                            /* relay.h */
    struct why *why;                                /* the last refusals; may be NULL as control may */
    struct pacer *pacer;                            /* and how long the next ones wait; the same */
    struct listener *listeners[GATE_LISTENERS_MAX]; /* flow.h */
    size_t n_listeners;
    struct inlet *ssh;   /* agentd.h; NULL: this sandbox has no ssh-agent */
    struct credd *credd; /* NULL: nor this */
    struct gate_asks asks;
    struct nat64 nat64;
    struct own_addr own[GATE_OWN_CACHE]; /* dial_own.c */
    bool captures_all;                   /* connections to every port come here, not only those of the named listeners */
    struct shared_meter *meter;          /* what may leave, with what others send; NULL: no limit */
    struct soon over;                    /* it is past its limit: all is judged again */
    size_t files;
    bool stopped;
    int status; /* what gate_serve() returns */
};

/* The descriptors that a gate is born with (gatemsg.h); -1: not there. gate_init() takes them all, also on failure. */
struct gate_born {
    int control, tcp[2], udp[2];
    int publish[GATE_PUBLISH_MAX];
    int named[GATE_NAMED_MAX];
    int ssh, credential;
    int trust[GATE_TRUST_MAX];
    struct shared_meter *meter; /* mapped before the gate is locked in; NULL: none */
    size_t files;               /* how many descriptors it may have */
};

/* Waits for the first configuration and puts it into force. */
int gate_init(struct gate *g, struct gate_born *born, struct err *err);
/* Until the supervisor says stop or is gone. There is no gate_done(): the process ends then, and the kernel is faster. */
int gate_serve(struct gate *g);

/* Another configuration: new verdict on every open connection. On failure the old one stays. */
int gate_reload(struct gate *g, struct gate_config *config /* taken */, struct err *err);
void gate_stop(struct gate *g, int status);

/* So many bytes of a connection go out. Past the limit every connection is cut, soon. */
void gate_sent(struct gate *g, size_t n);

uint64_t gate_now_s(const struct gate *g); /* CLOCK_MONOTONIC, as the loop has it */

/* gate_control.c: the socket to the supervisor. No message is lost: they wait (bounded), then nothing is accepted, then the gate
 * waits. */
void gate_send(struct gate *g, const struct gate_msg *m);
/* Fills a message from a verdict; host as text. A denial is also noted for http://bawn.internal/why. */
void gate_event(struct gate *g, enum gate_event_kind kind, uint64_t flow, const char *host, uint16_t port,
                const struct policy_verdict *v);
/* The same in two steps, for callers that add more. They give denials to why_note() themselves. */
void gate_event_fill(struct gate_msg *m, enum gate_event_kind kind, uint64_t flow, const char *host, uint16_t port,
                     const struct policy_verdict *v);
/* Something that is no verdict. code: POLICY_UNREACHABLE or POLICY_NOT_TRUSTED, if the host was allowed and could not be reached;
 * POLICY_ALLOWED: it was. */
void gate_trouble(struct gate *g, uint64_t flow, const char *host, uint16_t port, enum policy_code code, const char *text);

/* Asks the supervisor's human; question->type GATE_MSG_REQUEST: what an agent asks for, anything else is about a connection. fn is called once, never before this returns: GATE_DENY after config.ask_timeout_ms. NULL: too
 * many. */
typedef void ask_fn(void *arg, enum gate_answer answer);
struct ask *gate_ask(struct gate *g, const struct gate_msg *question, ask_fn *fn, void *arg);
void gate_ask_cancel(struct ask *a);
