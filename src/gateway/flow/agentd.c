/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/flow/agentd.h"

#include <errno.h>

#include "base/buf.h"
#include "gateway/flow/flow_priv.h"
#include "gateway/net/inlet.h"
#include "gateway/secret/brokerlink.h"
#include "proto/ssh_agent.h"

enum { LENGTH = 4, PORT_SSH = 22 };

/* Of one client. */
struct binding {
    uint8_t *bind; /* the last payload of session-bind */
    size_t len;
    bool forwarded; /* for good */
    struct broker_call *call;
};

static void answer(struct inlet_client *c, const void *msg, size_t len) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SSH_AGENT_MESSAGE_MAX + LENGTH);

    ssh_put_string(&b, msg, len);
    inlet_answer(c, b.data, b.len);
}

static void answer_short(struct inlet_client *c, uint8_t type) {
    answer(c, &type, 1);
}

static void agentd_answered(void *arg, int status, const uint8_t *data, size_t len) {
    struct inlet_client *c = arg;
    struct binding *s = inlet_state(c);

    s->call = NULL;
    if (status < 0 || !len || len > SSH_AGENT_MESSAGE_MAX)
        answer_short(c, SSH_AGENT_FAILURE);
    else
        answer(c, data, len);
}

/* ssh has just opened a connection when it asks for a signature: the last one, and at SSH's own port if there is one. */
static void guess_host(const struct gate *g, struct broker_request *req) {
    const struct flow *best = NULL;

    for (const struct flow *f = g->flows.first; f; f = f->next)
        if (f->state == FLOW_RELAY && f->host.len && !f->is_tls && (!best || (f->port == PORT_SSH && best->port != PORT_SSH)))
            best = f;
    if (!best)
        return;
    snprintf(req->host, sizeof req->host, "%s", best->host.text);
    req->port = best->port;
}

static void ask(struct inlet_client *c, uint32_t type, const void *data, size_t len) {
    struct binding *s = inlet_state(c);
    struct broker_request req = {.type = type};

    if (type == BROKER_SSH_SIGN)
        guess_host(inlet_gate(c), &req);
    s->call = broker_call(inlet_gate(c)->broker, &req, data, len, agentd_answered, c);
    if (!s->call)
        answer_short(c, SSH_AGENT_FAILURE);
}

static void handle_list(struct inlet_client *c, const struct ssh_agent_request *q UNUSED) {
    ask(c, BROKER_SSH_KEYS, NULL, 0);
}

static void handle_sign(struct inlet_client *c, const struct ssh_agent_request *q) {
    struct binding *s = inlet_state(c);
    struct broker_part parts[2] = {{(const char *)s->bind, s->len}, {(const char *)q->payload.p, q->payload.len}};
    uint8_t *data = malloc(BROKER_DATA_MAX);
    long n = data ? broker_parts_write(parts, ARRAY_LEN(parts), data, BROKER_DATA_MAX) : -ENOMEM;

    if (n < 0)
        answer_short(c, SSH_AGENT_FAILURE);
    else
        ask(c, BROKER_SSH_SIGN, data, (size_t)n);
    free(data);
}

/* OpenSSH says "forwarded" before it lets a remote machine speak; what comes then is from there, and nothing is answered any
 * more. */
static void handle_bind(struct inlet_client *c, const struct ssh_agent_request *q) {
    struct binding *s = inlet_state(c);
    uint8_t *copy = malloc(q->payload.len);

    if (!copy) {
        answer_short(c, SSH_AGENT_FAILURE);
        return;
    }
    memcpy(copy, q->payload.p, q->payload.len);
    free(s->bind);
    s->bind = copy;
    s->len = q->payload.len;
    s->forwarded = q->bind.forwarding;
    answer_short(c, s->forwarded ? SSH_AGENT_FAILURE : SSH_AGENT_SUCCESS);
}

static const struct {
    uint8_t type;
    void (*handle)(struct inlet_client *c, const struct ssh_agent_request *q);
} handlers[] = {
    {SSH_AGENTC_REQUEST_IDENTITIES, handle_list},
    {SSH_AGENTC_SIGN_REQUEST, handle_sign},
    {SSH_AGENTC_EXTENSION, handle_bind},
};

static void agentd_message(struct inlet_client *c, const uint8_t *data, size_t len) {
    const struct binding *s = inlet_state(c);
    struct ssh_agent_request q;

    if (s->forwarded || ssh_agent_parse(data + LENGTH, len - LENGTH, &q) < 0) {
        answer_short(c, SSH_AGENT_FAILURE);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(handlers); i++)
        if (handlers[i].type == q.type)
            handlers[i].handle(c, &q);
}

static void agentd_gone(struct inlet_client *c) {
    struct binding *s = inlet_state(c);

    if (s->call)
        broker_call_cancel(TAKE_PTR(s->call));
    free(TAKE_PTR(s->bind));
}

static const struct inlet_ops ops = {
    .message_max = SSH_AGENT_MESSAGE_MAX + LENGTH,
    .state_size = sizeof(struct binding),
    .frame = ssh_agent_frame,
    .message = agentd_message,
    .gone = agentd_gone,
};

int agentd_new(struct gate *g, int fd, struct inlet **ret, struct err *err) {
    return inlet_new(g, fd, &ops, NULL, ret, err);
}
