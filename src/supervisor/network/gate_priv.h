/* SPDX-License-Identifier: Apache-2.0 */
/* The gatekeeper's insides, for gate*.c. */
#pragma once

#include "supervisor/control/control.h"
#include "supervisor/credential/broker_process.h"
#include "supervisor/credential/login.h"
#include "supervisor/credential/opener.h"
#include "supervisor/network/gate_link.h"
#include "supervisor/network/gate_process.h"
#include "supervisor/network/gate_rules.h"
#include "supervisor/network/netcount.h"
#include "supervisor/network/netlog.h"

enum { GATE_INSIDE_MAX = 1024, GATE_INSIDE_AT_ONCE = 16, GATE_AUDITED = 64 };

/* When gates start and end. */
struct gate_life {
    uint64_t started_ms;
    uint32_t gates; /* so far, from a random start: no two in a row hand out the same synthetic addresses (gateway/net/names.h) */
    uint64_t retry_ms; /* no new gate before; 0: at once */
    unsigned delay_ms; /* the next time */
    bool reported;     /* that a gate ended badly */
};

/* Connections into the sandbox that are still to be asked for. Few at once: bawn-init drops what its socket has no room for. */
struct gate_inside {
    struct {
        uint32_t id, port;
    } v[GATE_INSIDE_MAX];
    size_t n, asked;
    size_t stale; /* of those asked: for a gate that has ended. They come first; the next gate uses the same ids again */
};

struct gatekeeper {
    struct gate_opts opts; /* listeners, named, inside and published are owned */
    struct published published;
    struct gate_rules rules;
    struct netlog *log; /* NULL: none */
    struct netcount count;
    struct control_server *control; /* from the first start of a gate on; NULL: none */
    bool control_failed;

    pid_t pid; /* of the gate; -1: none */
    struct gate_link link;
    int messages;   /* its stderr */
    bool ready;     /* the gate has said so */
    bool finishing; /* only what goes to the log is still looked at */
    struct gate_life life;
    uint64_t flows;                 /* seen so far */
    uint64_t audited[GATE_AUDITED]; /* connections whose first request is in the audit log */
    size_t next_audited;

    struct gate_inside inside;

    struct brokerkeeper *brokers;
    bool broker_wanted;  /* as soon as brokerkeeper_pause() is over */
    bool broker_refused; /* reported */
    struct opener opener;
    struct login login;
    bool login_asked; /* the user is, about the next one */
    struct opener_login login_next;
};

/* gate_events.c: one message of the gate. Negative: it does not keep to the protocol. */
int gate_event_take(struct gatekeeper *g, const struct gate_msg *m);
/* Answers WANT_BROKER, if one may be started now. */
int gate_broker_answer(struct gatekeeper *g);
/* The broker says that a credential was used (struct broker_opts). */
void gate_broker_used(void *arg, const struct broker_msg *m, const struct grant *grant);
/* Asks bawn-init for the next connections into the sandbox; for this one, which gatekeeper_inside() gets by its id. */
int gate_inside_next(struct gatekeeper *g);
int gate_ask_init(const struct gatekeeper *g, uint32_t id, uint32_t port);
/* gate_login.c */
void gate_login_want(struct gatekeeper *g, const struct opener_login *what);
void gate_login_refuse(struct gatekeeper *g, const struct opener_login *what); /* the program inside gets an error */
void gate_login_answered(struct gatekeeper *g, const struct gate_msg *question, enum gate_answer answer);
void gate_login_handle(struct gatekeeper *g);
/* A human's answer that is to be remembered: as a rule; and every one in the log. */
void gate_answer_rule(struct gatekeeper *g, const struct gate_msg *question, enum gate_answer answer);
void gate_answer_log(struct gatekeeper *g, const struct gate_msg *question, enum gate_answer answer);
/* gate_commands.c: a request over the control socket (control_fn). */
void gate_command(void *arg, const json_t *request, struct buf *answer);
/* Members of the answer to "status", each with a comma in front. g NULL: there is no network. */
void gate_status_json(const struct gatekeeper *g, struct buf *out);
/* gate_process.c: the rules have changed. */
void gate_send_config(struct gatekeeper *g);

/* gate_listeners.c */
void gate_listeners_done(struct gatekeeper *g);
void gate_listeners_fill(const struct gatekeeper *g, struct gate_spawn *s);
size_t gate_listeners_poll(const struct gatekeeper *g, struct pollfd *out); /* at most GATE_LISTENERS_ALL */
bool gate_listeners_ready(const struct gatekeeper *g, const struct pollfd *fds, size_t n);
/* No gate can be started: connections that wait for one are reset, instead of waiting for ever. */
void gate_listeners_refuse(const struct gatekeeper *g);
