/*
 * Leaf certificates: asked from the broker one after the other, kept for the next connection to the same host.
 *
 *     tls_leaf_get()  ->  leaf WANTED  ->  SENT to the broker  ->  READY or FAILED  ->  fn of everyone who waits
 *
 * The broker's socket is asked for when it is first needed, and again after it was lost: whoever waited then fails, whoever
 * comes later asks again. fn is only ever called from the loop (`soon`, a timer of 0 ms).
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/x509.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "gateway/gate.h"
#include "gateway/tls_priv.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/brokermsg.h"

enum {
    LEAVES_MAX = 256, /* hosts; the one that was used longest ago makes room (ATTACKS 66: churn) */
    LEAF_WAITING_MAX = 4096,
    LEAF_TIMEOUT_MS = 10000,
    LEAF_MARGIN_S = 600 /* a certificate is not used for new connections so shortly before it ends */
};

enum leaf_state { LEAF_FREE, LEAF_WANTED, LEAF_SENT, LEAF_READY, LEAF_FAILED };

struct tls_leaf {
    struct tls_leaf *next;
    struct leaves *leaves;
    size_t index;
    tls_leaf_fn *fn;
    void *arg;
};

struct leaf {
    enum leaf_state state;
    char host[HOST_TEXT_MAX + 1];
    SSL_CTX *ctx;   /* READY */
    time_t until;   /* READY */
    uint64_t since; /* WANTED, SENT: ms, as the loop has it */
    uint64_t turn;  /* WANTED: the order of asking. READY: of the last use */
    struct tls_leaf *waiting;
};

/* Its own object, because a handle's memory is needed until the loop has closed it. */
struct link {
    uv_poll_t poll;
    int fd;
    struct leaves *leaves;
};

struct leaves {
    struct gate *gate;
    uv_timer_t soon, timeout;
    unsigned handles;
    struct link *link;
    bool asked;   /* for a broker */
    uint32_t ids; /* of requests */
    uint64_t turns;
    EVP_PKEY *key;
    uint8_t *spki;
    int spki_len;
    size_t n_waiting;
    struct leaf v[LEAVES_MAX];
};

static void deliver(uv_timer_t *timer);
static void on_timeout(uv_timer_t *timer);

int leaves_new(struct gate *g, struct leaves **ret) {
    struct leaves *l = calloc(1, sizeof *l);

    if (!l)
        return -ENOMEM;
    l->gate = g;
    uv_timer_init(&g->loop, &l->soon);
    uv_timer_init(&g->loop, &l->timeout);
    l->soon.data = l->timeout.data = l;
    l->handles = 2;
    *ret = l;
    return 0;
}

static void on_closed(uv_handle_t *handle) {
    struct leaves *l = handle->data;

    if (--l->handles == 0)
        free(l);
}

static void on_link_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void drop_link(struct leaves *l) {
    struct link *link = TAKE_PTR(l->link);

    if (!link)
        return;
    uv_close((uv_handle_t *)&link->poll, on_link_closed);
    closep(&link->fd);
}

static void reset(struct leaf *leaf) {
    SSL_CTX_free(leaf->ctx);
    *leaf = (struct leaf){0};
}

void leaves_free(struct leaves *l) {
    drop_link(l);
    for (size_t i = 0; i < LEAVES_MAX; i++) {
        struct tls_leaf *q;

        while ((q = l->v[i].waiting)) {
            l->v[i].waiting = q->next;
            free(q);
        }
        reset(&l->v[i]);
    }
    EVP_PKEY_free(l->key);
    OPENSSL_free(l->spki);
    uv_close((uv_handle_t *)&l->soon, on_closed);
    uv_close((uv_handle_t *)&l->timeout, on_closed);
}

static void settle(struct leaves *l, struct leaf *leaf, enum leaf_state state) {
    leaf->state = state;
    uv_timer_start(&l->soon, deliver, 0, 0);
}

static bool is_open(const struct leaf *leaf) {
    return leaf->state == LEAF_WANTED || leaf->state == LEAF_SENT;
}

static void lose_broker(struct leaves *l) {
    drop_link(l);
    l->asked = false;
    for (size_t i = 0; i < LEAVES_MAX; i++)
        if (is_open(&l->v[i]))
            settle(l, &l->v[i], LEAF_FAILED);
}

/* One key for all leaves: it lives as long as this gate and leaves it never. */
static int make_key(struct leaves *l) {
    if (l->key)
        return 0;
    tls_library_init();
    l->key = EVP_EC_gen("P-256");
    l->spki_len = l->key ? i2d_PUBKEY(l->key, &l->spki) : -1;
    if (l->spki_len > 0 && l->spki_len <= BROKER_DATA_MAX)
        return 0;
    EVP_PKEY_free(TAKE_PTR(l->key));
    return -ENOMEM;
}

static struct leaf *next_leaf(struct leaves *l) {
    struct leaf *best = NULL;

    for (size_t i = 0; i < LEAVES_MAX; i++) {
        if (l->v[i].state == LEAF_SENT)
            return NULL;
        if (l->v[i].state == LEAF_WANTED && (!best || l->v[i].turn < best->turn))
            best = &l->v[i];
    }
    return best;
}

static void ask_broker(struct leaves *l) {
    struct leaf *leaf = next_leaf(l);
    struct broker_request req = {.type = BROKER_LEAF, .id = l->ids + 1, .len = (uint32_t)l->spki_len};
    int r;

    if (!leaf)
        return;
    if (!l->link) {
        if (!l->asked)
            gate_send(l->gate, &(struct gate_msg){.type = GATE_MSG_WANT_BROKER});
        l->asked = true;
        return;
    }
    memcpy(req.host, leaf->host, strlen(leaf->host));
    memcpy(req.data, l->spki, req.len);
    l->ids++;
    leaf->state = LEAF_SENT;
    r = sock_send(l->link->fd, &req, sizeof req, NULL, 0);
    if (r < 0)
        lose_broker(l);
}

/* The end of the certificate's time; 0 if it cannot be read. */
static time_t not_after(const X509 *cert) {
    struct tm tm = {0};

    return ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1 ? timegm(&tm) : 0;
}

static bool take_certificate(struct leaves *l, struct leaf *leaf, const struct broker_answer *a) {
    const uint8_t *p = a->data;
    X509 *cert = d2i_X509(NULL, &p, (long)a->len);

    if (!cert)
        return false;
    leaf->until = not_after(cert);
    leaf->ctx = tls_server_context(cert, l->key);
    X509_free(cert);
    return leaf->ctx != NULL;
}

static struct leaf *sent_leaf(struct leaves *l) {
    for (size_t i = 0; i < LEAVES_MAX; i++)
        if (l->v[i].state == LEAF_SENT)
            return &l->v[i];
    return NULL;
}

static void on_broker(uv_poll_t *poll, int status UNUSED, int events UNUSED) {
    struct link *link = poll->data;
    struct leaves *l = link->leaves;
    struct leaf *leaf = sent_leaf(l);
    struct broker_answer a;
    long n = sock_recv(link->fd, &a, sizeof a, NULL, NULL);

    if (n == -EAGAIN)
        return;
    if (n != sizeof a || !leaf || a.id != l->ids || a.len > sizeof a.data) {
        lose_broker(l);
        return;
    }
    settle(l, leaf, a.status == 0 && take_certificate(l, leaf, &a) ? LEAF_READY : LEAF_FAILED);
    ask_broker(l);
}

void tls_broker(struct tls *t, int fd) {
    struct leaves *l = t->leaves;
    struct link *link = fd >= 0 && !l->link ? calloc(1, sizeof *link) : NULL;

    if (!link || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0 || uv_poll_init(&l->gate->loop, &link->poll, fd) < 0) {
        free(link);
        closep(&fd);
        if (!l->link)
            lose_broker(l);
        return;
    }
    *link = (struct link){.poll = link->poll, .fd = fd, .leaves = l};
    link->poll.data = link;
    l->link = link;
    uv_poll_start(&link->poll, UV_READABLE, on_broker);
    ask_broker(l);
}

static void free_if_unused(struct leaf *leaf) {
    if (leaf->state == LEAF_FAILED && !leaf->waiting)
        reset(leaf);
}

/* fn may ask for, or cancel, any leaf: nothing is remembered across a call but the index. */
static void deliver(uv_timer_t *timer) {
    struct leaves *l = timer->data;

    for (size_t i = 0; i < LEAVES_MAX; i++) {
        struct leaf *leaf = &l->v[i];

        while ((leaf->state == LEAF_READY || leaf->state == LEAF_FAILED) && leaf->waiting) {
            struct tls_leaf *q = leaf->waiting;

            leaf->waiting = q->next;
            l->n_waiting--;
            q->fn(q->arg, leaf->state == LEAF_READY ? leaf->ctx : NULL);
            free(q);
        }
        free_if_unused(leaf);
    }
}

static void watch_time(struct leaves *l) {
    uint64_t now = uv_now(&l->gate->loop), first = UINT64_MAX;

    for (size_t i = 0; i < LEAVES_MAX; i++)
        if (is_open(&l->v[i]))
            first = MIN_OF(first, l->v[i].since + LEAF_TIMEOUT_MS);
    if (first == UINT64_MAX)
        uv_timer_stop(&l->timeout);
    else
        uv_timer_start(&l->timeout, on_timeout, first > now ? first - now : 0, 0);
}

/* A broker that does not answer one request answers none: they come in order. */
static void on_timeout(uv_timer_t *timer) {
    struct leaves *l = timer->data;
    uint64_t now = uv_now(&l->gate->loop);

    for (size_t i = 0; i < LEAVES_MAX; i++)
        if (is_open(&l->v[i]) && l->v[i].since + LEAF_TIMEOUT_MS <= now) {
            lose_broker(l);
            break;
        }
    watch_time(l);
}

static struct leaf *find_leaf(struct leaves *l, const char *host) {
    for (size_t i = 0; i < LEAVES_MAX; i++)
        if (l->v[i].state != LEAF_FREE && str_eq(l->v[i].host, host))
            return &l->v[i];
    return NULL;
}

/* A place that is free, or whose certificate nobody waits for and was used longest ago. */
static struct leaf *make_room(struct leaves *l) {
    struct leaf *best = NULL;

    for (size_t i = 0; i < LEAVES_MAX; i++) {
        if (l->v[i].state == LEAF_FREE)
            return &l->v[i];
        if (l->v[i].state == LEAF_READY && !l->v[i].waiting && (!best || l->v[i].turn < best->turn))
            best = &l->v[i];
    }
    if (best)
        reset(best);
    return best;
}

static struct leaf *get_leaf(struct leaves *l, const struct host *host) {
    struct leaf *leaf = find_leaf(l, host->text);

    if (leaf && leaf->state == LEAF_READY && !leaf->waiting && leaf->until < time(NULL) + LEAF_MARGIN_S)
        reset(leaf);
    if (leaf && leaf->state != LEAF_FREE)
        return leaf;
    leaf = leaf ? leaf : make_room(l);
    if (!leaf || host->len > BROKER_HOST_MAX || make_key(l) < 0)
        return NULL;
    memcpy(leaf->host, host->text, host->len + 1);
    leaf->state = LEAF_WANTED;
    leaf->since = uv_now(&l->gate->loop);
    return leaf;
}

struct tls_leaf *tls_leaf_get(struct tls *t, const struct host *host, tls_leaf_fn *fn, void *arg) {
    struct leaves *l = t->leaves;
    struct tls_leaf *q = l->n_waiting < LEAF_WAITING_MAX ? calloc(1, sizeof *q) : NULL, **at;
    struct leaf *leaf = q ? get_leaf(l, host) : NULL;

    if (!leaf) {
        free(q);
        return NULL;
    }
    *q = (struct tls_leaf){.leaves = l, .index = (size_t)(leaf - l->v), .fn = fn, .arg = arg};
    for (at = &leaf->waiting; *at; at = &(*at)->next)
        ;
    *at = q;
    l->n_waiting++;
    leaf->turn = ++l->turns;
    if (is_open(leaf)) {
        ask_broker(l);
        watch_time(l);
    } else
        uv_timer_start(&l->soon, deliver, 0, 0);
    return q;
}

void tls_leaf_cancel(struct tls_leaf *q) {
    struct leaf *leaf = &q->leaves->v[q->index];
    struct tls_leaf **at;

    for (at = &leaf->waiting; *at != q; at = &(*at)->next)
        ;
    *at = q->next;
    q->leaves->n_waiting--;
    free_if_unused(leaf);
    free(q);
}
