/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the records of a handshake up to a second ClientHello. */
#include "proto/tls_retry.h"

enum {
    RECORD_MAX = 16384 + 256,
    CHANGE_CIPHER_SPEC = 20,
    ALERT = 21,
    HANDSHAKE = 22,
    APPLICATION = 23,
    SERVER_HELLO = 2,
    MESSAGE_HEAD = 4
};

/* RFC 8446, 4.1.3: the "random" of a ServerHello that is a HelloRetryRequest, SHA-256 of these words. */
static const uint8_t retry_random[32] = {0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C,
                                         0x02, 0x1E, 0x65, 0xB8, 0x91, 0xC2, 0xA2, 0x11, 0x16, 0x7A, 0xBB,
                                         0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C};

void tls_retry_init(struct tls_retry *t, size_t first) {
    *t = (struct tls_retry){.skip = first};
}

void tls_retry_done(struct tls_retry *t) {
    free(t->hello);
    *t = (struct tls_retry){0};
}

/* Takes the head of a record from *data. 1: it is there; 0: more has to come; -1: it is none. */
static int take_head(struct tls_retry_record *r, const uint8_t **data, size_t *len) {
    while (r->n < sizeof r->head && *len) {
        r->head[r->n++] = *(*data)++;
        --*len;
    }
    if (r->n < sizeof r->head)
        return 0;
    r->left = (size_t)r->head[3] << 8 | r->head[4];
    return r->head[1] == 3 && r->left && r->left <= RECORD_MAX ? 1 : -1;
}

/* How much of the record is there. */
static size_t take_part(struct tls_retry_record *r, size_t len) {
    size_t n = MIN_OF(r->left, len);

    r->left -= n;
    if (!r->left)
        r->n = 0;
    return n;
}

static bool store_bytes(struct tls_retry *t, const uint8_t *data, size_t len) {
    if (!t->hello)
        t->hello = malloc(TLS_HELLO_MAX);
    if (!t->hello || len > TLS_HELLO_MAX - t->n_hello)
        return false;
    memcpy(t->hello + t->n_hello, data, len);
    t->n_hello += len;
    return true;
}

/* The message's own length is in its first bytes, which may be in several records. */
static void count_message(struct tls_retry *t, const uint8_t *data, size_t len) {
    for (size_t i = 0; i < len && t->n_message + i < MESSAGE_HEAD; i++)
        if (t->n_message + i > 0)
            t->want = t->want << 8 | data[i];
    t->n_message += len;
}

/* Before the server's answer a client says nothing in the open but its first hello; what is encrypted (early data) may pass. */
static bool may_pass(const struct tls_retry *t, const struct tls_retry_record *r) {
    uint8_t type = r->head[0];

    if (type == CHANGE_CIPHER_SPEC || type == ALERT || type == APPLICATION)
        return !t->n_message; /* not amid the second hello */
    return type == HANDSHAKE && t->retry;
}

/* One record, or the part of it that is there. */
static enum tls_retry_result take_client(struct tls_retry *t, const uint8_t **data, size_t *len, struct tls_hello *ret) {
    struct tls_retry_record *r = &t->client;
    size_t n;

    if (r->left == 0) {
        int head = take_head(r, data, len);

        if (head <= 0)
            return head == 0 ? TLS_RETRY_MORE : TLS_RETRY_BAD;
        if (!may_pass(t, r) || (r->head[0] == HANDSHAKE && !store_bytes(t, r->head, sizeof r->head)))
            return TLS_RETRY_BAD;
    }
    n = take_part(r, *len);
    if (r->head[0] == HANDSHAKE) {
        if (!store_bytes(t, *data, n))
            return TLS_RETRY_BAD;
        count_message(t, *data, n);
    }
    *data += n;
    *len -= n;
    if (t->n_message < MESSAGE_HEAD || t->n_message < MESSAGE_HEAD + t->want || r->left)
        return TLS_RETRY_MORE;
    return tls_hello_parse(t->hello, t->n_hello, ret) == TLS_HELLO_OK ? TLS_RETRY_HELLO : TLS_RETRY_BAD;
}

enum tls_retry_result tls_retry_client(struct tls_retry *t, const uint8_t *data, size_t len, struct tls_hello *ret) {
    enum tls_retry_result r = TLS_RETRY_MORE;
    size_t n = MIN_OF(t->skip, len);

    t->skip -= n;
    data += n;
    len -= n;
    while (len && r == TLS_RETRY_MORE)
        r = take_client(t, &data, &len, ret);
    return r;
}

static enum tls_retry_result judge_answer(struct tls_retry *t) {
    const size_t random = TLS_SERVER_HELLO_HEAD - sizeof retry_random;

    if (t->answer[0] != SERVER_HELLO)
        return TLS_RETRY_OVER;
    if (t->n_answer < TLS_SERVER_HELLO_HEAD)
        return TLS_RETRY_MORE;
    t->retry = memcmp(t->answer + random, retry_random, sizeof retry_random) == 0;
    return t->retry ? TLS_RETRY_MORE : TLS_RETRY_OVER;
}

/* Warnings may come before a ServerHello ("unrecognized_name"). */
static bool is_awaited(struct tls_retry *t) {
    return t->server.head[0] == HANDSHAKE || (t->server.head[0] == ALERT && ++t->n_alerts <= TLS_RETRY_ALERTS_MAX);
}

enum tls_retry_result tls_retry_server(struct tls_retry *t, const uint8_t *data, size_t len) {
    struct tls_retry_record *r = &t->server;
    enum tls_retry_result result = TLS_RETRY_MORE;

    while (len && !t->retry && result == TLS_RETRY_MORE) {
        bool answer;
        size_t n;

        if (r->left == 0) {
            int head = take_head(r, &data, &len);

            if (head == 0)
                break;
            if (head < 0 || !is_awaited(t))
                return TLS_RETRY_OVER;
        }
        answer = r->head[0] == HANDSHAKE;
        n = take_part(r, len);
        if (answer && n) {
            size_t part = MIN_OF(n, TLS_SERVER_HELLO_HEAD - t->n_answer);

            memcpy(t->answer + t->n_answer, data, part);
            t->n_answer += part;
            result = judge_answer(t);
        }
        data += n;
        len -= n;
    }
    return result;
}
