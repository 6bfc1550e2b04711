/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the broker: its parts, its answers, its configuration. */
#include "broker/broker.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "broker/values/values.h"
#include "os/fd.h"
#include "os/sock.h"
#include "policy/confload.h"

int broker_init(struct broker *b, struct ca *ca, int gate, int supervisor) {
    int r;

    *b = (struct broker){.gate = gate, .supervisor = supervisor};
    b->ca = TAKE(*ca, (struct ca){0});
    r = secret_alloc(&b->in, BROKER_MESSAGE_MAX);
    r = r < 0 ? r : secret_alloc(&b->out, BROKER_MESSAGE_MAX);
    r = r < 0 ? r : values_new(&b->values);
    return r < 0 ? r : ssh_new(b);
}

void broker_done(struct broker *b) {
    ssh_free(b);
    values_free(TAKE_PTR(b->values));
    policy_done(&b->policy);
    gate_config_done(&b->config);
    secret_done(&b->in);
    secret_done(&b->out);
    ca_done(&b->ca);
    closep(&b->gate);
    closep(&b->supervisor);
}

/* A peer that does not take it is gone, or hangs: SO_SNDTIMEO. */
static void send_or_end(struct broker *b, int sock, const void *data, size_t len) {
    if (!b->over && sock_send(sock, data, len, NULL, 0) < 0)
        b->over = true;
}

void broker_flush(struct broker *b) {
    if (b->out.len)
        send_or_end(b, b->gate, b->out.p, b->out.len);
    secret_drop(&b->out);
}

/* Room behind the answers that wait, for one with so much data. */
static uint8_t *answer_place(struct broker *b, size_t len) {
    if (b->out.len + sizeof(struct broker_answer) + len > BROKER_MESSAGE_MAX)
        broker_flush(b);
    return (uint8_t *)b->out.p + b->out.len + sizeof(struct broker_answer);
}

/* The data is in its place already. */
static void answer_add(struct broker *b, uint32_t id, int status, size_t len) {
    struct broker_answer head = {.id = id, .status = status, .len = (uint32_t)len};

    memcpy(b->out.p + b->out.len, &head, sizeof head);
    b->out.len += sizeof head + len;
}

void broker_answer_send(struct broker *b, uint32_t id, int status, const void *data, size_t len) {
    if (len > BROKER_DATA_MAX) {
        status = -E2BIG;
        len = 0;
    }
    if (len)
        memcpy(answer_place(b, len), data, len);
    else
        answer_place(b, 0);
    answer_add(b, id, status, len);
}

void broker_answer_parts(struct broker *b, uint32_t id, const struct broker_part *parts, size_t n) {
    size_t need = 0;
    long len;

    for (size_t i = 0; i < n; i++)
        need += sizeof(uint32_t) + parts[i].len;
    len = need > BROKER_DATA_MAX ? -E2BIG : broker_parts_write(parts, n, answer_place(b, need), need);
    if (len < 0)
        answer_place(b, 0);
    answer_add(b, id, len < 0 ? (int)len : 0, len < 0 ? 0 : (size_t)len);
}

void broker_msg_send(struct broker *b, const struct broker_msg *m) {
    send_or_end(b, b->supervisor, m, sizeof *m);
}

int broker_configure(struct broker *b, int memfd, struct err *err) {
    CLEANUP(gate_config_done) struct gate_config config = {0};
    CLEANUP(policy_done) struct policy policy = {0};
    int r = confload_read(memfd, &config, err);

    r = r < 0 ? r : confload_policy(&config, &policy, err);
    if (r < 0)
        return r;
    values_reload(b, &config);
    policy = TAKE(b->policy, policy);
    config = TAKE(b->config, config); /* the old ones go with the end of this function */
    b->configured = true;
    ssh_configured(b);
    return 0;
}
