#include <errno.h>
#include <string.h>
#include <time.h>

#include "broker/values_priv.h"
#include "os/fd.h"
#include "os/sock.h"

enum { CLOCK_LOOK_MS = 60 * 1000, STORE_PAUSE_MS = 500, STORE_TRIES_MAX = 100 };

bool value_is_over(const struct value *s) {
    return s->expires && s->expires <= (uint64_t)time(NULL);
}

/* One question at a time: what comes back says only for which grant it is. */
void value_ask(struct broker *b, struct value *s) {
    struct broker_msg m = {.index = value_index(b, s)};

    if (s->asked || s->stale || m.index >= b->config.n_grants)
        return;
    if (s->store.len && broker_now_ms() >= s->store_after_ms)
        m.type = BROKER_MSG_WANT_STORE;
    else if (s->state == VALUE_WANTED && s->sock < 0)
        m.type = BROKER_MSG_WANT_VALUE;
    else
        return;
    m.value = m.type == BROKER_MSG_WANT_VALUE && s->ended;
    snprintf(m.text, sizeof m.text, "%s", b->config.grants[m.index].c.name);
    s->asked = m.type;
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

static int read_value(struct broker *b, struct value *s, struct broker_part *ret, uint64_t *ret_expires) {
    struct secret *in = &b->values->in;
    long n = sock_recv(s->sock, in->p, in->cap, NULL, NULL);
    struct vault_value head;

    if (n < (long)sizeof head)
        return -ENOKEY;
    memcpy(&head, in->p, sizeof head);
    if (head.status)
        return clean_status(head.status);
    if (head.len > VAULT_VALUE_MAX || (size_t)n != sizeof head + head.len)
        return -ENOKEY;
    if (credential_value_check(&b->config.grants[value_index(b, s)].c, in->p + sizeof head, head.len, NULL) < 0)
        return -ENOKEY;
    if (head.expires && head.expires <= (uint64_t)time(NULL))
        return -EKEYEXPIRED;
    *ret = (struct broker_part){in->p + sizeof head, head.len};
    *ret_expires = head.expires;
    return 0;
}

static void take_value(struct broker *b, struct value *s) {
    struct broker_part value;
    uint64_t expires;
    int r = read_value(b, s, &value, &expires);

    if (r < 0)
        value_fail(b, s, r);
    else
        value_ready(b, s, &value, expires);
    secret_clear(&b->values->in);
}

/* An empty socket takes it at once; if that vault is gone, it has said why. Busy: with tokens that came before these. */
static void give_tokens(struct value *s, int sock, int error) {
    if (sock < 0 && error == EBUSY && s->store_tries++ < STORE_TRIES_MAX) {
        s->store_after_ms = broker_now_ms() + STORE_PAUSE_MS;
        return;
    }
    if (sock >= 0)
        (void)sock_send(sock, s->store.p, s->store.len, NULL, 0);
    secret_done(&s->store);
}

void values_vault(struct broker *b, const struct broker_msg *m, int fd) {
    CLEANUP(closep) int sock = fd;
    struct value *s;
    uint32_t asked;

    if (m->index >= GRANTS_MAX)
        return;
    s = &b->values->v[m->index];
    asked = s->stale ? 0 : TAKE(s->asked, 0);
    if (s->stale)
        s->stale--;
    if (asked == BROKER_MSG_WANT_STORE)
        give_tokens(s, sock, m->value);
    if (asked == BROKER_MSG_WANT_VALUE && s->state == VALUE_WANTED) {
        if (m->value || sock < 0)
            value_fail(b, s, clean_status(m->value > 0 ? -m->value : m->value));
        else
            s->sock = TAKE_FD(sock);
    }
    value_ask(b, s);
}

int values_replace(struct broker *b, uint32_t index, const struct broker_part *value, const struct broker_part *refresh,
                   uint64_t expires) {
    struct value *s = &b->values->v[index];
    struct broker_part parts[] = {*value, *refresh};
    struct vault_value head = {.expires = expires};
    struct secret store = {0};
    long n;
    int r = secret_alloc(&store, sizeof head + VAULT_VALUE_MAX);

    if (r < 0)
        return r;
    n = broker_parts_write(parts, ARRAY_LEN(parts), (uint8_t *)store.p + sizeof head, VAULT_VALUE_MAX);
    r = n < 0 ? (int)n : value_ready(b, s, value, expires);
    if (r < 0) {
        secret_done(&store);
        return r;
    }
    head.len = (uint32_t)n;
    memcpy(store.p, &head, sizeof head);
    store.len = sizeof head + (size_t)n;
    secret_done(&s->store);
    s->store = store;
    s->store_tries = 0;
    s->store_after_ms = 0;
    value_ask(b, s);
    return 0;
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
        if (s->state == VALUE_WANTED && broker_now_ms() >= s->deadline_ms)
            value_fail(b, s, -ETIMEDOUT);
        if (s->state == VALUE_READY && value_is_over(s))
            value_end(s);
        if (s->store.len)
            value_ask(b, s);
    }
}

int values_timeout_ms(const struct broker *b) {
    uint64_t least = UINT64_MAX, now = broker_now_ms(), clock = (uint64_t)time(NULL);

    for (size_t i = 0; i < GRANTS_MAX; i++) {
        const struct value *s = &b->values->v[i];

        if (s->state == VALUE_WANTED)
            least = MIN_OF(least, s->deadline_ms > now ? s->deadline_ms - now : 0);
        if (s->store.len && !s->asked && !s->stale)
            least = MIN_OF(least, s->store_after_ms > now ? s->store_after_ms - now : 0);
        if (s->state == VALUE_READY && s->expires)
            least = MIN_OF(least, s->expires > clock ? MIN_OF((s->expires - clock) * 1000, CLOCK_LOOK_MS) : 0);
    }
    return least == UINT64_MAX ? -1 : (int)MIN_OF(least, CLOCK_LOOK_MS); /* the clock may be set meanwhile */
}
