/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flow and its way:
 *
 *     accept -> [ENTRY] -> judged -> [ASK] -> [FIRST] -> DIAL -> [FIRST] -> RELAY or INSPECT -> end
 *                             \-> REFUSE -> LINGER -> end
 *
 * REFUSE waits if there were many refusals lately, looks at the first bytes, and answers in their protocol. For TLS that is an
 * inspection without a server.
 *
 * FIRST, the look at the client's first bytes, comes before the dial, or after it where the client waits for our word that it
 * is connected (ENTRY). Each state has at most one handler for the client's socket and one deadline. Functions that may free
 * the flow are the last thing their callers do with it.
 */
#pragma once

#include "gateway/epoll_set.h"
#include "gateway/flow/flow.h"
#include "gateway/flow/relay.h"
#include "gateway/net/dial.h"
#include "gateway/tls/inspect.h"
#include "proto/tls_retry.h"

enum {
    FLOW_FIRST_MS = 30 * 1000, /* first bytes, handshakes and heads */
    FLOW_SILENT_MS = 500,      /* a refused client that says nothing is reset after this: perhaps the server has to speak first */
    FLOW_SLOW_MS = 10 * 1000,  /* the same on ports where the client does: Java reads its trust store after it connected */
    FLOW_LINGER_MS = 2000,     /* for reading what the client still sends, so that it can read our last word */
    FLOW_ENCRYPT_MAX = 2,      /* questions about encryption that a refused client may ask */
    FLOW_DENIED_REQUESTS = 16, /* on one connection, inside TLS */
    FLOW_PEEK_MAX = TLS_HELLO_MAX,
    FLOW_ANSWER_MAX = 64 * 1024 + 4096
};

/* The build zeroes automatic variables: for this one, that would cost more than the look. */
#define PEEK_BUFFER UNINITIALIZED uint8_t

enum flow_state {
    FLOW_ENTRY,
    FLOW_ASK,
    FLOW_FIRST,
    FLOW_DIAL,
    FLOW_RELAY,
    FLOW_INSPECT,
    FLOW_REFUSE,
    FLOW_LINGER,
    FLOW_WHY,
    FLOW_INSIDE
};

enum flow_entry { ENTRY_NONE, ENTRY_CONNECT, ENTRY_SOCKS, ENTRY_URI };

/* What of the verdict goes into the log later. No pointers: rules may have been replaced by then. */
struct flow_cause {
    enum policy_code code;
    char rule[RULE_ID_MAX + 1], pattern[HOST_TEXT_MAX + 8];
    const char *layer;
};

/* How it came in through the explicit proxy port. */
struct flow_way {
    enum flow_entry kind;
    bool greeted;  /* SOCKS: the greeting is over */
    bool welcomed; /* the client knows that it is connected */
};

/* What the rules say about it. */
struct flow_ruling {
    uint32_t generation; /* of the policy that `inspect` and `wants_first` come from */
    bool inspect;        /* its HTTP is inspected */
    bool guarded;        /* requests are searched for placeholders: there were credentials when its inspection began */
    bool covers;         /* a credential belongs to the host: HTTP is inspected on every port */
    bool wants_first;    /* the client's first bytes have to be seen before any of them goes on */
    bool asks_address;   /* ASK: the question is also about where the name leads */
    bool approved;       /* the user said yes */
    bool address_too;    /* ... also to that */
    bool reported;       /* the log has its verdict */
    bool slow;           /* REFUSE: its answer waits (pacer.h) */
    unsigned refused;    /* REFUSE: requests, inside TLS */
    struct flow_cause cause;
    struct policy_verdict *denied; /* REFUSE, and the relay's check */
};

/* What the client's first bytes showed. */
struct flow_first {
    bool done;
    uint8_t asked;  /* REFUSE: how often the client asked for encryption before it says what it wants */
    bool low_water; /* SO_RCVLOWAT is set */
    size_t peeked;  /* bytes so far, by the relay's check */
    bool has_ech;   /* the first ClientHello had it */
    struct tls_retry retry;
};

/* LINGER: bytes that the client still has to get. */
struct flow_out {
    uint8_t *data;
    size_t at, len;
};

struct flow {
    struct gate *gate;
    struct flow *next, **at; /* list of the gate */
    uint64_t id;
    uint64_t started_us;
    enum flow_state state;
    int client, server;
    struct watch watch; /* of the client, outside of relay and inspection */
    struct deadline deadline;

    struct addr dest; /* as the client dialled it; len 0: through the entry */
    bool holds_name;  /* names_hold(dest) */
    struct host host; /* len 0: a published port, no rule applies */
    uint16_t port;
    struct addr address; /* that was dialled; len 0: none, or only the upstream proxy knows it */
    bool is_tls;

    struct flow_way entry;
    struct flow_ruling ruling;
    struct flow_first first;
    struct flow_out out;

    struct ask *ask;
    struct dial *dial;
    struct relay *relay;
    struct inspect *inspect;
    struct flow_request *requests; /* of an inspected one */
};

/* flow.c */
void flow_free(struct flow *f);  /* closes both sockets as they are */
void flow_abort(struct flow *f); /* by a reset, so that the peers do not take it for an end */
/* One handler, one deadline. Aborts the flow on failure. */
void flow_wait(struct flow *f, enum flow_state state, uint32_t events, watch_fn *fn, uint64_t ms);
/* REFUSE, without reading: fn for its end, then, after so many ms. Aborts the flow on failure. */
void flow_pause(struct flow *f, watch_fn *fn, uint64_t ms, deadline_fn *then);
void flow_late(void *arg); /* its time is over: aborts it */
void flow_unwatch(struct flow *f);
/* How many bytes can be peeked (0: the end), or -errno; buf has FLOW_PEEK_MAX bytes. */
long flow_peek(struct flow *f, uint8_t *buf);
/* Not readable before more than `have` bytes are there. */
void flow_need_more(struct flow *f, size_t have);
void flow_need_any(struct flow *f);
const char *flow_address_text(const struct flow *f, char out[static ADDR_TEXT_SIZE]);

/* flow_judge.c */
/* A human said yes to what this verdict asks about. */
bool flow_is_approved(const struct flow *f, const struct policy_verdict *v);
/* What is known of it so far, as a question to the policy. */
struct policy_request flow_question(const struct flow *f);
void flow_begin(struct flow *f); /* destination known */
void flow_judge(struct flow *f); /* host and port known */
void flow_ask(struct flow *f, const struct policy_verdict *v);
bool flow_judge_anew(struct flow *f);     /* if the rules have changed since it was judged; false: refused */
void flow_report_allowed(struct flow *f); /* one event per flow */

/* flow_join.c */
void flow_first(struct flow *f);
void flow_dial(struct flow *f);
void flow_end_event(struct flow *f, uint64_t sent, uint64_t received);

/* flow_http.c: hooks of inspected flows */
struct httpx_hooks flow_http_hooks(struct flow *f);
bool flow_http_judge_again(struct flow *f); /* false: one of its open requests is not allowed any more */
void flow_http_done(struct flow *f);

/* flow_refuse.c */
void flow_refuse(struct flow *f, const struct policy_verdict *v);
void flow_refuse_code(struct flow *f, enum policy_code code, const char *why);
/* Stores the verdict for flow_refuse_denied(); -EACCES. */
int flow_deny_code(struct flow *f, enum policy_code code, const char *why);
void flow_refuse_denied(struct flow *f);
void flow_last_word(struct flow *f, const void *data, size_t len); /* sends it, then LINGER */

/* entry.c */
void entry_begin(struct flow *f);
int entry_welcome(struct flow *f); /* tells the client that it is connected */
void entry_refuse(struct flow *f, const struct policy_verdict *v);
void flow_why(struct flow *f);
