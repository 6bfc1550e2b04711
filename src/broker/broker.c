#include "broker/broker.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "broker/values.h"
#include "os/fd.h"
#include "os/sock.h"

int broker_init(struct broker *b, struct ca *ca, int gate, int supervisor) {
    int r;

    *b = (struct broker){.gate = gate, .supervisor = supervisor};
    b->ca = TAKE(*ca, (struct ca){0});
    r = secret_alloc(&b->in, sizeof(struct broker_request) + BROKER_DATA_MAX);
    r = r < 0 ? r : secret_alloc(&b->out, sizeof(struct broker_answer) + BROKER_DATA_MAX);
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

uint64_t broker_now_ms(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Whoever does not take it is gone, or hangs: SO_SNDTIMEO. */
static void send_or_end(struct broker *b, int sock, const void *data, size_t len) {
    if (!b->over && sock_send(sock, data, len, NULL, 0) < 0)
        b->over = true;
}

/* The data is behind the head already. */
static void answer_out(struct broker *b, uint32_t id, int status, size_t len) {
    struct broker_answer head = {.id = id, .status = status, .len = (uint32_t)len};

    memcpy(b->out.p, &head, sizeof head);
    send_or_end(b, b->gate, b->out.p, sizeof head + len);
    explicit_bzero(b->out.p, sizeof head + len);
}

void broker_answer_send(struct broker *b, uint32_t id, int status, const void *data, size_t len) {
    if (len > BROKER_DATA_MAX) {
        status = -E2BIG;
        len = 0;
    }
    if (len)
        memcpy(b->out.p + sizeof(struct broker_answer), data, len);
    answer_out(b, id, status, len);
}

void broker_answer_parts(struct broker *b, uint32_t id, const struct broker_part *parts, size_t n) {
    uint8_t *data = (uint8_t *)b->out.p + sizeof(struct broker_answer);
    long len = broker_parts_write(parts, n, data, BROKER_DATA_MAX);

    if (len < 0)
        secret_clear(&b->out);
    answer_out(b, id, len < 0 ? (int)len : 0, len < 0 ? 0 : (size_t)len);
}

void broker_msg_send(struct broker *b, const struct broker_msg *m) {
    send_or_end(b, b->supervisor, m, sizeof *m);
}
