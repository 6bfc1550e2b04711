/* SPDX-License-Identifier: Apache-2.0 */
/* The gatekeeper's insides, for gate*.c. */
#pragma once

#include "supervisor/control/control.h"
#include "supervisor/credential/broker_process.h"
#include "supervisor/credential/login.h"
#include "supervisor/credential/opener.h"
#include "supervisor/network/gate_process.h"
#include "supervisor/network/netcount.h"
#include "supervisor/network/netlog.h"

struct helper;

enum { GATE_INSIDE_MAX = 1024, GATE_INSIDE_AT_ONCE = 16, GATE_AUDITED = 64 };

/* The socket to a running gate. It never blocks: what the gate does not take at once waits here, and a gate that takes nothing for
 * LINK_QUEUE_MAX messages is stuck, or was taken over. */
enum { LINK_QUEUE_MAX = 4096 };

struct link_item {
    uint32_t type, id;
    int32_t value;
    int fd;     /* -1: none */
    char *said; /* a text for ANSWER; NULL: none */
};

struct gate_link {
    int sock; /* -1: no gate */
    struct link_item *queue;
    size_t head, len;
};
#define GATE_LINK_INIT \
    { .sock = -1 }

/*
 * The rules that a gate gets: the files (policy_files.h), which are read again when they change while a gate runs, and what the user
 * decided for this run alone. A file that cannot be read is reported, and the old rules stay.
 */
enum { GATE_SESSION_MAX = 1000, GATE_FLOWS_MAX = 4096 };

struct gate_once {
    char id[RULE_ID_MAX + 1];
    uint64_t until_ms;
};

struct gate_rules {
    const struct policy_where *where;
    struct policy_files files;
    struct rules session;
    struct gate_once *once; /* rules in it that end soon */
    size_t n_once, cap_once;
    const struct run_credentials *credentials; /* NULL: none */
    uint32_t generation;                       /* of the last configuration that the gate got */
    bool can_ask;
    uint64_t watch_ms;    /* when to begin to watch; 0: not */
    int inotify;          /* -1: not watched */
    uint64_t reported_ms; /* a mistake in a file */
    uint64_t last_ms;     /* when the files were read */
    uint64_t reload_ms;   /* when to look at the files again; 0: not */
};
#define GATE_RULES_INIT \
    { .inotify = -1 }

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

/* What clients outside asked for, for an agent: a ring. */
enum { GATE_OUTCOMES = 64, GATE_ONCE_MS = 60 * 1000 };

struct gate_outcome {
    uint32_t number; /* 0: none */
    bool waiting;
    enum gate_answer answer;
    char reason[264], note[600];
};

struct gate_requests {
    struct gate_outcome *v; /* GATE_OUTCOMES; NULL until something is asked for */
    uint32_t last;
    char note[600]; /* of the last answer, for the human who gave it */
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
    unsigned shown;                 /* hosts that were denied, at the terminal */
    uint64_t audited[GATE_AUDITED]; /* connections whose first request is in the audit log */
    size_t next_audited;

    struct gate_inside inside;
    struct gate_requests requests;

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
void gate_login_answered(struct gatekeeper *g, const struct gate_msg *question, enum gate_answer answer);
void gate_login_handle(struct gatekeeper *g);
/* A human's answer that is to be remembered: as a rule; and every one in the log. */
void gate_answer_rule(struct gatekeeper *g, const struct gate_msg *question, enum gate_answer answer);
void gate_answer_log(struct gatekeeper *g, const struct gate_msg *question, enum gate_answer answer);
/* gate_requests.c: what an agent asks for. From the gate; by the control socket; a human's answer; and the end of rules for once. */
int gate_request_event(struct gatekeeper *g, const struct gate_msg *m);
void gate_command_request(struct gatekeeper *g, const json_t *request, struct buf *answer);
void gate_command_requested(struct gatekeeper *g, const json_t *request, struct buf *answer);
void gate_request_answered(struct gatekeeper *g, const struct gate_msg *m, const uint32_t *ids, size_t n,
                           enum gate_answer answer);
int gate_requests_timeout(const struct gatekeeper *g);
void gate_requests_handle(struct gatekeeper *g);
/* gate_commands.c: a request over the control socket (control_fn). */
void gate_command(void *arg, const json_t *request, struct buf *answer);
/* Members of the answer to "status". g NULL: there is no network. */
void gate_status_json(const struct gatekeeper *g, struct buf *out);
/* gate_process.c: the rules have changed. */
void gate_send_config(struct gatekeeper *g);

/* gate_link.c */
/* Takes sock, which does not block. */
int gate_link_open(struct gate_link *l, int sock);
void gate_link_close(struct gate_link *l);
short gate_link_events(const struct gate_link *l); /* for poll() */
/* Takes fd (-1: none), also on failure. Negative: the gate has to be given up. */
int gate_link_send(struct gate_link *l, enum gate_msg_type type, uint32_t id, int32_t value, int fd);
/* ANSWER with a text. */
int gate_link_say(struct gate_link *l, uint32_t id, enum gate_answer answer, const char *said);
int gate_link_flush(struct gate_link *l);
/* One message that has passed gatemsg_sane(). 1: there is one; 0: none now; negative: the gate is gone, or does not keep to the protocol. */
int gate_link_recv(struct gate_link *l, struct gate_msg *ret);

/* gate_listeners.c */
void gate_listeners_done(const struct gatekeeper *g); /* which is freed then */
void gate_listeners_fill(const struct gatekeeper *g, struct helper *h);
size_t gate_listeners_poll(const struct gatekeeper *g, struct pollfd *out); /* at most GATE_LISTENERS_ALL */
bool gate_listeners_ready(const struct gatekeeper *g, const struct pollfd *fds, size_t n);
/* No gate can be started: connections that wait for one are reset, instead of waiting for ever. */
void gate_listeners_refuse(const struct gatekeeper *g);

/* gate_rules.c */
void gate_rules_done(struct gate_rules *r);

/* Reads the files again; true if what counts is not as before. */
bool gate_rules_reload(struct gate_rules *r);
/* Watches the files' folders soon: closing an inotify instance waits for an RCU grace period, often 10 ms, which no short run should
 * pay (as in latecomers.h). Files that change are read a little later, when their writer is done. */
void gate_rules_watch(struct gate_rules *r);
void gate_rules_unwatch(struct gate_rules *r);
int gate_rules_timeout(const struct gate_rules *r);
/* Call when the inotify descriptor is readable, and at the timeout. True: a new configuration has to be sent. */
bool gate_rules_handle(struct gate_rules *r);

/* A configuration of this generation, encoded, as a memfd. */
int gate_rules_config(const struct gate_rules *r, const struct published *pub, int *ret_fd, struct err *err);

/* One rule in front of the others of this run, or of the user's file for good, also if it was there already. text: a JSON object as in a
 * file with rules. */
int gate_rules_add_session(struct gate_rules *r, const char *text, char ret_id[static RULE_ID_MAX + 1], struct err *err);
/* What this question asks for is allowed until then: a rule in front of the others of this run, beside one that says the same and stays. */
int gate_rules_add_once(struct gate_rules *r, const struct gate_msg *question, uint64_t until_ms, struct err *err);
uint64_t gate_rules_once_ms(const struct gate_rules *r);      /* when the next one ends; 0: there is none */
bool gate_rules_end_once(struct gate_rules *r, uint64_t now); /* true: one has ended */
int gate_rules_add_always(struct gate_rules *r, const char *text, struct err *err);
/* The rule that allows what this question asks for, as such an object. -ENOTSUP: no rule can say exactly this. */
int gate_rules_for(const struct gate_msg *question, struct buf *out);
