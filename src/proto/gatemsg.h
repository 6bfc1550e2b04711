/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The language between a supervisor and its bawn-gate. SOCK_SEQPACKET; one struct per message, descriptors by SCM_RIGHTS.
 *
 * The gate reads hostile bytes and may be taken over, so the supervisor believes nothing: fixed sizes, numbers in range, strings that
 * end (gatemsg_sane() checks, and makes every string printable ASCII). The gate trusts its supervisor.
 */
#pragma once

#include "base/macros.h"

enum {
    GATE_PROTOCOL = 3,
    GATE_FD_CONTROL = 3, /* descriptors that bawn-gate is born with */
    GATE_FD_TCP4 = 4,
    GATE_FD_TCP6 = 5,
    GATE_FD_UDP4 = 6,
    GATE_FD_UDP6 = 7,
    GATE_FD_PUBLISH = 8, /* the first listener of --publish; their number and ports are in the configuration */
    GATE_PUBLISH_MAX = 32,
    GATE_FD_NAMED =
        GATE_FD_PUBLISH + GATE_PUBLISH_MAX, /* TCP listeners of single ports, where one listener for all ports is not possible */
    GATE_NAMED_MAX = 12,
    GATE_FD_SSH = GATE_FD_NAMED + GATE_NAMED_MAX, /* unix listeners (SOCK_STREAM) inside: ssh-agent */
    GATE_FD_CREDENTIAL,                           /* and names of credentials (spec/credential-socket.md) */
    GATE_FD_METER,                                /* what may leave, shared with others (os/meter.h) */
    GATE_FDS_MAX,
    GATE_ACTIONS = 3, /* RULE_ACTIONS and POLICY_CODES, which this layer cannot see; gateway/config.c compares */
    GATE_CODES = 24,
    GATE_STATUS_MAX = 999
};

enum gate_msg_type {
    /* to the gate */
    GATE_MSG_CONFIG =
        1, /* with a memfd: an encoded struct gate_config (policy/gateconf.h); the first message, and at each reload. id: the
                         number of this gate among those of the sandbox, from a random start */
    GATE_MSG_ANSWER, /* id, value: enum gate_answer */
    GATE_MSG_BROKER, /* with a socket to bawn-broker, as an answer to WANT_BROKER or before it; without one: there is none */
    GATE_MSG_INSIDE, /* id; with a socket that is being connected inside the sandbox, or value: errno */
    GATE_MSG_STOP,   /* close everything and exit */
    /* from the gate */
    GATE_MSG_READY,       /* the configuration is in force; value: its generation. value < 0: refused, host[] says why */
    GATE_MSG_EVENT,       /* something for the log: kind says what */
    GATE_MSG_ASK,         /* id: a human has to decide; the fields are those of an event */
    GATE_MSG_CANCEL,      /* id: the answer is not needed any more */
    GATE_MSG_WANT_BROKER, /* a leaf certificate, a credential or an ssh key is needed */
    GATE_MSG_WANT_INSIDE, /* id, port: connect to 127.0.0.1:port inside the sandbox (--publish) */
    GATE_MSG_OPEN, /* a URL that the sandbox wants opened in a browser, in pieces: `path` has the next one, value 1: it is the last */
    GATE_MSG_REQUEST, /* id: an agent asks for more; method: kind, path: value, pattern: its reason. ANSWER has what the human said in pattern */
    GATE_MSG_TYPES
};

enum gate_answer { GATE_DENY, GATE_ALLOW_ONCE, GATE_ALLOW_SESSION, GATE_ALLOW_ALWAYS, GATE_ANSWERS };

enum gate_event_kind {
    GATE_EVENT_LOOKUP,     /* a name that was refused when it was looked up */
    GATE_EVENT_CONNECTION, /* verdict on a connection: one per connection that is not inspected */
    GATE_EVENT_REQUEST,    /* verdict on an HTTP request: one per request */
    GATE_EVENT_END,        /* a connection ended: bytes and duration */
    GATE_EVENT_TROUBLE, /* something that is no verdict: upstream certificate, no answer from a name server; `path` has the text */
    GATE_EVENT_KINDS
};

struct gate_msg {
    uint32_t type;
    uint32_t id;
    int32_t value;
    uint32_t kind;   /* enum gate_event_kind */
    uint32_t action; /* enum rule_action of policy/rules/rule.h */
    uint32_t code;   /* enum policy_code of policy/rules/verdict.h */
    uint32_t port;
    uint32_t status;                 /* HTTP status of the answer, 0: none */
    uint64_t flow;                   /* number of the connection */
    uint64_t sent, received, micros; /* END */
    char host[256];                  /* "example.com", "192.0.2.7"; "" if it could not be read */
    char address[48];                /* that was dialled; "" if none */
    char rule[68], layer[16], pattern[264];
    char method[36], path[512]; /* request only; the path is cut, without query */
    char secret[68]; /* request: name of the credential that went with it, or whose placeholder was seen where it must not be */
};

int gatemsg_sane(struct gate_msg *m); /* -EBADMSG */
