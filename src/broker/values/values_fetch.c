/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches values from bawn-vault, and ends them in time. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "broker/values/values_priv.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sock.h"

enum { CLOCK_LOOK_MS = 60 * 1000 };

bool value_is_over(const struct value *s) {
    return s->expires && s->expires <= (uint64_t)time(NULL);
}

/* One question at a time: what comes back says only for which grant it is. */
void value_ask(struct broker *b, struct value *s) {
    struct broker_msg m = {.type = BROKER_MSG_WANT_VALUE, .index = value_index(b, s), .value = s->ended};

    if (s->asked || s->stale || m.index >= b->config.n_grants || s->state != VALUE_WANTED || s->sock >= 0)
        return;
    snprintf(m.text, sizeof m.text, "%s", b->config.grants[m.index].c.name);
    s->asked = true;
    broker_msg_send(b, &m);
}

/* A store that fails in another way is a store without value; -EACCES would read as if policy had said it. */
static int clean_status(int status) {
    static const int known[] = {-ENOKEY, -EKEYEXPIRED, -ETIMEDOUT, -E2BIG};

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (status == known[i])
            return status;
    return -ENOKEY;
}

static int read_value(struct broker *b, struct value *s, struct broker_part *ret, struct broker_part *ret_identity,
                      uint64_t *ret_expires) {
    struct secret *in = &b->values->in;
    long n = sock_recv(s->sock, in->p, in->cap, NULL, NULL);
    struct vault_value head;

    if (n < (long)sizeof head)
        return -ENOKEY;
    memcpy(&head, in->p, sizeof head);
    if (head.status)
        return clean_status(head.status);
    if (head.len > VAULT_VALUE_MAX || head.identity > VAULT_IDENTITY_MAX || (size_t)n != sizeof head + head.len + head.identity)
        return -ENOKEY;
    if (credential_value_check(&b->config.grants[value_index(b, s)].c, in->p + sizeof head, head.len, NULL) < 0)
        return -ENOKEY;
    if (head.expires && head.expires <= (uint64_t)time(NULL))
        return -EKEYEXPIRED;
    *ret = (struct broker_part){in->p + sizeof head, head.len};
    *ret_identity = (struct broker_part){in->p + sizeof head + head.len, head.identity};
    *ret_expires = head.expires;
    return 0;
}

static void take_value(struct broker *b, struct value *s) {
    struct broker_part value, identity;
    uint64_t expires;
    int r = read_value(b, s, &value, &identity, &expires);

    if (r < 0)
        value_fail(b, s, r);
    else
        value_ready(b, s, &value, &identity, expires);
    secret_clear(&b->values->in);
}

void values_vault(struct broker *b, const struct broker_msg *m, int fd) {
    CLEANUP(closep) int sock = fd;
    struct value *s;
    bool asked;

    if (m->index >= GRANTS_MAX)
        return;
    s = &b->values->v[m->index];
    asked = s->stale ? false : TAKE(s->asked, false);
    if (s->stale)
        s->stale--;
    if (asked && s->state == VALUE_WANTED) {
        if (m->value || sock < 0)
            value_fail(b, s, clean_status(m->value > 0 ? -m->value : m->value));
        else
            s->sock = TAKE_FD(sock);
    }
    value_ask(b, s);
}

void values_poll_fill(const struct broker *b, struct pollfd *ret) {
    for (size_t i = 0; i < GRANTS_MAX; i++)
        ret[i] = (struct pollfd){.fd = b->values->v[i].sock, .events = POLLIN};
}

void values_poll_done(struct broker *b, const struct pollfd *fds) {
    for (size_t i = 0; i < GRANTS_MAX; i++) {
        struct value *s = &b->values->v[i];

        if (s->sock >= 0 && fds[i].fd == s->sock && fds[i].revents)
            take_value(b, s);
        if (s->state == VALUE_WANTED && clock_ms() >= s->deadline_ms)
            value_fail(b, s, -ETIMEDOUT);
        if (s->state == VALUE_READY && value_is_over(s))
            value_end(s);
    }
}

int values_timeout_ms(const struct broker *b) {
    uint64_t least = UINT64_MAX, now = clock_ms(), clock = (uint64_t)time(NULL);

    for (size_t i = 0; i < GRANTS_MAX; i++) {
        const struct value *s = &b->values->v[i];

        if (s->state == VALUE_WANTED)
            least = MIN_OF(least, s->deadline_ms > now ? s->deadline_ms - now : 0);
        if (s->state == VALUE_READY && s->expires)
            least = MIN_OF(least, s->expires > clock ? MIN_OF((s->expires - clock) * 1000, CLOCK_LOOK_MS) : 0);
    }
    return least == UINT64_MAX ? -1 : (int)MIN_OF(least, CLOCK_LOOK_MS); /* the clock may be set meanwhile */
}
