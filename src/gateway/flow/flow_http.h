/* SPDX-License-Identifier: Apache-2.0 */
/* What flow_http.c and flow_secret.h share: the requests of an inspected connection. */
#pragma once

#include "gateway/flow/flow_priv.h"

struct flow_secret;

/* A request that was judged, until it is over. Once its answer is known it is logged: there is one line for both. */
struct flow_request {
    struct flow *flow;
    struct flow_request *next;
    uint32_t id;
    struct ask *ask;
    uint64_t max_body;
    bool logged;
    char *path; /* whole; msg's is cut */
    struct gate_msg msg;
    struct flow_secret *secret; /* NULL: this sandbox has no credentials */
    struct policy_verdict
        *denied; /* its answer waits, because there were many refusals lately (pacer.h); NULL: it is not denied */
    struct deadline late;
};

/* flow_http.c */
struct flow_request *flow_request_find(struct flow *f, uint32_t id); /* NULL */
/* It has what it waited for: goes on if there is nothing else. The last thing a caller does with it. */
void flow_request_go(struct flow_request *q);
void flow_request_refuse(struct flow_request *q, const struct policy_verdict *v); /* one that waits; as above */
/* One that is under way already: for the log. */
void flow_request_stopped(struct flow_request *q, const struct policy_verdict *v);

/* flow_secret.c */
/* ALLOW: there is nothing to wait for. WAIT, COLLECT: flow_secret_go() puts in what is needed. DENY: *ret says why. */
enum httpx_answer flow_secret_begin(struct flow_request *q, struct httpx_request *req, struct policy_verdict *ret);
/* Asks the broker for the next value. False: it cannot be asked, *ret says why. */
bool flow_secret_fetch(struct flow_request *q, struct policy_verdict *ret);
/* True: everything is in, and the request can go on. Else it waits, or is over. */
bool flow_secret_go(struct flow_request *q);
bool flow_secret_is_collecting(const struct flow_request *q);
void flow_secret_done(struct flow_secret *s);
/* Hooks (httpx.h); the last three are in flow_cover.c. */
void flow_secret_collected(void *arg, uint32_t id, const uint8_t *body, size_t len);
bool flow_secret_sending(void *arg, uint32_t id, const uint8_t *data, size_t len, bool end, struct policy_verdict *ret);
bool flow_secret_answer_head(void *arg, uint32_t id, int status, struct http_head *head, struct policy_verdict *ret);
void flow_secret_receiving(void *arg, uint32_t id, const uint8_t *data, size_t len, bool end, struct buf *out);
bool flow_secret_pause(void *arg, uint32_t id, struct buf *out);
