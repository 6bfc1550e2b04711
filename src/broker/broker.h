/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bawn-broker has while it serves, and what its parts share.
 *
 *     serve.c    the loop: poll, and one table of requests, one of messages
 *     values/value_judge.c    may this request have this credential? Every request is asked about here, before anything else is done
 *     values.c   values: fetched once, in locked memory until they end, given out for one request at a time
 *     render.c   how a value looks in a request; awssign.c: signatures of AWS
 *     ssh_*.c    the ssh-agent
 *
 * One thread, nothing blocks but a send to the gate or the supervisor, and that not for long (BROKER_SEND_S): then the broker ends, and
 * with it every value. A hung bawn-vault or ssh-agent delays only the requests that need it.
 */
#pragma once

#include "base/secret.h"
#include "broker/ca/ca.h"
#include "os/evloop.h"
#include "policy/gateconf.h"
#include "proto/brokermsg.h"

struct values;
struct ssh_relay;

/* A kind of use (struct broker_msg but for its count), and how many were not reported yet. */
struct used {
    struct broker_msg msg;
    uint64_t reported_ms; /* 0: nothing here */
    uint32_t more;
};

enum {
    BROKER_SOURCES = 4, /* supervisor, ssh-agent, a bawn-vault for each grant, gate */
    BROKER_USED_KINDS = 8,
    USED_PAUSE_MS = 1000,
    BROKER_SEND_S = 20,
    BROKER_VAULT_TIMEOUT_MS = 50 * 1000,
    BROKER_SSH_TIMEOUT_MS = 50 * 1000
};

struct broker {
    struct ca ca; /* key NULL: this sandbox has none */
    int gate, supervisor;
    bool over; /* one of them is gone */
    bool configured;
    struct gate_config config;
    struct policy policy;
    struct values *values;
    struct ssh_relay *ssh;
    struct evloop loop; /* serve.c */
    struct evloop_source sources[BROKER_SOURCES];
    struct err *err;       /* of this turn */
    struct secret in, out; /* requests, and answers that wait to go out, which may have values in them */
    struct used used[BROKER_USED_KINDS];
};

/* 0, or -errno: the broker cannot start. Takes ca, which may be empty. */
int broker_init(struct broker *b, struct ca *ca, int gate, int supervisor);
void broker_done(struct broker *b); /* zeroes every value */

/* Goes to the gate with others, by broker_flush(). data may be NULL if len is 0; more than BROKER_DATA_MAX becomes -E2BIG. The caller zeroes data. */
void broker_answer_send(struct broker *b, uint32_t id, int status, const void *data, size_t len);
/* The same for broker_parts, written where they are sent from: nothing is left to zero but the parts themselves. */
void broker_answer_parts(struct broker *b, uint32_t id, const struct broker_part *parts, size_t n);
/* To the supervisor. */
void broker_msg_send(struct broker *b, const struct broker_msg *m);
void broker_flush(struct broker *b); /* the answers so far, as one message */

/* serve.c: reports to the supervisor which value went where: the first of a kind at once, more of the same within USED_PAUSE_MS together. */
void used_report(struct broker *b, const struct broker_msg *m);

/* Replaces policy and grants by those of a memfd. A configuration that cannot be read changes nothing; -errno. */
int broker_configure(struct broker *b, int memfd, struct err *err);

/*
 * A request of the table, serve.c. data has req->len bytes behind req, is not NUL-terminated, and is zeroed when the function
 * returns; so is req. host and method end within their arrays. Answers by broker_answer_send(), now or later, exactly once.
 */
typedef void broker_request_fn(struct broker *b, const struct broker_request *req, const uint8_t *data);

broker_request_fn value_request; /* also LOGIN */

/* values/value_judge.c. 0: policy allows it (to ask is not enough) and the grant is for exactly this host and port; -EACCES. */
int judge_grant(const struct broker *b, const struct broker_request *req, const char *path, size_t path_len);
/* 0: it has oauth, host and port are those of its token_url, and policy allows a POST there. */
int judge_login_place(const struct broker *b, const struct broker_request *req);
/* 0: answers of this host must not tell the grant's value, so the gate has to know it: the grant is for the host, whatever the port,
 * and policy allows some request that the value could go with anyway; -EACCES. */
int judge_cover(const struct broker *b, const struct broker_request *req);
/* 0: a connection to this host is allowed whatever is said in it; -EACCES. For ssh: there is no request inside to look at. */
int judge_connection(const struct broker *b, const struct host *host, uint16_t port);

/*
 * ssh_*.c, whose state is b->ssh. A part of the loop: ssh_poll_fill() sets fd (-1: nothing to wait for) and events; ssh_poll_done() is
 * called in each round with what poll() said (0 too: then it may look at the clock); ssh_timeout_ms() is when it wants to be called
 * at the latest, -1: any time.
 */
broker_request_fn ssh_keys, ssh_sign;
int ssh_new(struct broker *b); /* makes b->ssh; -ENOMEM */
void ssh_free(struct broker *b);
void ssh_agent_fd(struct broker *b, int fd_or_error); /* BROKER_MSG_AGENT: taken, or -errno */
void ssh_configured(struct broker *b);                /* b->config is another one: what points into the old one is forgotten */
void ssh_poll_fill(struct broker *b, struct pollfd *ret);
void ssh_poll_done(struct broker *b, short revents);
int ssh_timeout_ms(const struct broker *b);
