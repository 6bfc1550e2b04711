/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-broker with grants, between a gate that may have been taken over and stores that say anything. The input is a list of steps, each
 * a letter, two bytes length, and bytes:
 *
 *     q  a request, filled up to its struct; its length is made right      Q  a request as it is
 *     v  the store that was asked says these bytes                         V  it has the value
 *     r  the user has logged in anew to the grant of this number
 *     c  the grants are others from now on (first byte: which)
 *
 * Whatever comes: an answer is of the form it has to be, belongs to a request (whose id is made to be its number), and holds a value
 * only if that request was for the host of its grant; a certificate is one of ours.
 */
#include <errno.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "broker/serve.h"
#include "broker/values/values.h"
#include "os/fd.h"
#include "os/sock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_VALUE "The-Value-Of-The-User" /* no host reads like this: they have small letters */
#define FUZZ_AWS "AKIDEXAMPLE012345678:" FUZZ_VALUE ":the-session-token"
#define FUZZ_HOST "api.test"

enum { STEPS_MAX = 64 };

static const struct ca *authority(void) {
    static struct ca ca;
    struct err err = {0};

    if (!ca.key && ca_make(&ca, &err) < 0)
        BUG("no certificate authority");
    return &ca;
}

/* A broker and the other ends of its sockets. */
struct scene {
    struct broker b;
    int gate, supervisor;
    uint32_t wanted;                       /* a question of the broker's that is not answered: its index; UINT32_MAX: none */
    bool known;                            /* the gate has the value already: it is in what it says */
    struct broker_request sent[STEPS_MAX]; /* by their id */
    uint32_t n_sent;
};

static int put_memfd(const struct buf *b) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    if (fd < 0 || !buf_ok(b) || fd_write_all(fd, b->data, b->len) < 0)
        BUG("no file in memory");
    return fd;
}

static void scene_configure(struct scene *s, bool other) {
    static char *hosts[] = {FUZZ_HOST, NULL}, *others[] = {"other.test", NULL};
    struct strv for_hosts = {.v = other ? others : hosts, .len = 1};
    struct grant grants[] = {
        {.c = {.name = "header", .place = PLACE_HEADER, .header = "authorization", .format = "Bearer {}", .shape = ""}},
        {.c = {.name = "basic", .place = PLACE_BASIC, .user = "me", .shape = ""}},
        {.c = {.name = "query", .place = PLACE_QUERY, .query = "key", .shape = ""}},
        {.c = {.name = "aws", .place = PLACE_SIGV4, .region = "eu", .service = "s3", .shape = ""}},
    };
    struct gate_layer layer = {
        .kind = LAYER_USER,
        .name = "rules",
        .text = "{\"rules\": [{\"action\": \"deny\", \"host\": \"no.test\"}, {\"action\": \"allow\", \"host\": [\"*.test\", "
                "\"192.0.2.7\", \"2001:db8::1\", \"*.example.com\", \"example.com\"], \"paths\": [\"/\", \"/v1/**\"]}]}"};
    struct gate_config c = {.mode = NET_LIST, .layers = {layer}, .n_layers = 1, .grants = grants, .n_grants = ARRAY_LEN(grants)};
    CLEANUP(buf_done) struct buf bytes = BUF_INIT(GATE_CONFIG_MAX);
    CLEANUP(closep) int fd = -1;
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(grants); i++) {
        grants[i].c.hosts = for_hosts;
        grants[i].placeholder = "PLACEHOLDERxxxxxxxxxxxxxxxxxxxxxxxxx";
        grants[i].placeholder2 = grants[i].c.place == PLACE_SIGV4 ? "PLACEHOLDERyyyyyyyyyyyyyyyyyyyyyyyyy" : "";
    }
    grants[0].c.token_url = "https://id.test/v1/token";
    grants[0].c.client_id = "bawn";
    if (gate_config_encode(&c, &bytes) < 0)
        BUG("a configuration of ours");
    fd = put_memfd(&bytes);
    if (broker_configure(&s->b, fd, &err) < 0)
        BUG(err.msg);
}

static void scene_open(struct scene *s) {
    struct ca ca = *authority();
    int gate[2], supervisor[2];

    EVP_PKEY_up_ref(ca.key);
    X509_up_ref(ca.cert);
    if (sock_pair(gate) < 0 || sock_pair(supervisor) < 0 || broker_init(&s->b, &ca, gate[1], supervisor[1]) < 0)
        BUG("no broker");
    s->gate = gate[0];
    s->supervisor = supervisor[0];
    s->wanted = UINT32_MAX;
    scene_configure(s, false);
}

static void scene_close(struct scene *s) {
    broker_done(&s->b);
    close(s->gate);
    close(s->supervisor);
}

static void check_certificate(const uint8_t *data, size_t len) {
    const uint8_t *p = data;
    X509 *cert = d2i_X509(NULL, &p, (long)len);

    if (!cert || p != data + len || X509_verify(cert, authority()->key) != 1 || X509_check_ca(cert) != 0)
        BUG("an answer that is no leaf of ours");
    X509_free(cert);
}

static bool was_entitled(const struct scene *s, const struct broker_request *req) {
    const char *host = s->b.config.grants[0].c.hosts.v[0];
    struct host is;

    return (req->type == BROKER_COVER || (req->port == 443 && (req->type == BROKER_VALUE || req->type == BROKER_SIGV4))) &&
           host_parse(req->host, strlen(req->host), &is, NULL) == 0 && strcmp(is.text, host) == 0;
}

static void read_answers(struct scene *s) {
    static uint8_t bytes[BROKER_MESSAGE_MAX];
    struct broker_answer a;
    ssize_t n;

    broker_flush(&s->b);
    while ((n = recv(s->gate, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        for (size_t at = 0; at < (size_t)n; at += sizeof a + a.len) {
            if ((size_t)n - at < sizeof a)
                BUG("an answer that is cut");
            memcpy(&a, bytes + at, sizeof a);
            if ((size_t)n - at - sizeof a < a.len || a.status > 0 || (a.status < 0 && a.len) || a.id >= s->n_sent)
                BUG("an answer of the wrong form");
            if (a.status == 0 && s->sent[a.id].type == BROKER_LEAF)
                check_certificate(bytes + at + sizeof a, a.len);
            if (!s->known && memmem(bytes + at, sizeof a + a.len, FUZZ_VALUE, strlen(FUZZ_VALUE)) &&
                !was_entitled(s, &s->sent[a.id]))
                BUG("a value for somebody else");
        }
}

static void read_questions(struct scene *s) {
    struct broker_msg m;

    while (recv(s->supervisor, &m, sizeof m, MSG_DONTWAIT) > 0) {
        if ((!s->known && memmem(&m, sizeof m, FUZZ_VALUE, strlen(FUZZ_VALUE))) || brokermsg_sane(&m) < 0)
            BUG("a message that the supervisor must not get");
        if (m.type == BROKER_MSG_WANT_VALUE)
            s->wanted = m.index;
        if (m.type == BROKER_MSG_WANT_AGENT)
            ssh_agent_fd(&s->b, -ENOENT);
    }
}

/* Every request in a message gets an id of its own, by which its answer is known again. */
static void number_requests(struct scene *s, uint8_t *bytes, size_t len, bool whole) {
    struct broker_request req;

    for (size_t at = 0; len - at >= sizeof req && s->n_sent < ARRAY_LEN(s->sent); at += sizeof req + req.len) {
        memcpy(&req, bytes + at, sizeof req);
        if (whole)
            req.len = (uint32_t)(len - at - sizeof req);
        req.id = s->n_sent;
        memcpy(bytes + at, &req, sizeof req);
        s->sent[s->n_sent++] = req;
        if (req.len > len - at - sizeof req)
            break;
    }
}

static void do_request(struct scene *s, const uint8_t *data, size_t len, bool whole) {
    size_t room = whole ? MAX_OF(len, sizeof(struct broker_request)) : len;
    uint8_t *copy = calloc(1, room + 1);

    if (!copy)
        return;
    memcpy(copy, data, len);
    number_requests(s, copy, room, whole);
    if (s->n_sent < ARRAY_LEN(s->sent))
        (void)serve_requests(&s->b, copy, room);
    else
        memset(copy, 0, room);
    for (size_t i = 0; i < room; i++)
        if (copy[i])
            BUG("a request that is still there");
    free(copy);
}

static void do_vault(struct scene *s, const uint8_t *data, size_t len) {
    struct broker_msg m = {.type = BROKER_MSG_VAULT, .index = s->wanted};
    struct pollfd fds[GRANTS_MAX];
    struct err err = {0};
    int pair[2];

    if (s->wanted == UINT32_MAX || sock_pair(pair) < 0)
        return;
    s->wanted = UINT32_MAX;
    if (sock_send(pair[0], data, len, NULL, 0) < 0)
        BUG("a store that cannot speak");
    if (serve_message(&s->b, &m, sizeof m, pair[1], &err) < 0)
        BUG(err.msg);
    close(pair[0]);
    values_poll_fill(&s->b, fds);
    if (poll(fds, ARRAY_LEN(fds), 0) < 0)
        BUG("poll");
    values_poll_done(&s->b, fds);
}

static void do_value(struct scene *s) {
    const char *value = s->wanted == 3 ? FUZZ_AWS : FUZZ_VALUE;
    struct vault_value head = {.len = (uint32_t)strlen(value)};
    uint8_t bytes[256];

    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, value, head.len);
    do_vault(s, bytes, sizeof head + head.len);
}

static void do_tell(struct scene *s, enum broker_msg_type type, uint32_t index) {
    const struct broker_msg m = {.type = type, .index = index};
    struct err err = {0};

    if (serve_message(&s->b, &m, sizeof m, -1, &err) < 0)
        BUG(err.msg);
}

static void step(struct scene *s, uint8_t what, const uint8_t *data, size_t len) {
    switch (what) {
    case 'q':
    case 'Q':
        do_request(s, data, len, what == 'q');
        break;
    case 'v':
        do_vault(s, data, len);
        break;
    case 'V':
        do_value(s);
        break;
    case 'r':
        do_tell(s, BROKER_MSG_RENEW, len ? data[0] : 0);
        break;
    case 'f':
        do_tell(s, BROKER_MSG_FETCH, len ? data[0] : 0);
        break;
    case 'c':
        scene_configure(s, len && data[0] & 1);
        break;
    default:
        break;
    }
    /* The value comes while a request is answered: questions first, then what they led to. */
    read_questions(s);
    read_answers(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct scene s = {.known = memmem(data, size, FUZZ_VALUE, strlen(FUZZ_VALUE)) != NULL};

    scene_open(&s);
    for (int i = 0; i < STEPS_MAX && size >= 3 && !s.b.over; i++) {
        size_t len = MIN_OF((size_t)data[1] + 256 * (size_t)data[2], size - 3);

        step(&s, data[0], data + 3, MIN_OF(len, sizeof(struct broker_request) + BROKER_DATA_MAX));
        data += 3 + len;
        size -= 3 + len;
    }
    scene_close(&s);
    return 0;
}
