/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaf certificates: asked from the broker, cached for the next connection to the same host.
 *
 *     tls_leaf_get()  ->  leaf ASKED  ->  READY or FAILED  ->  fn of everyone who waits
 *
 * fn is only ever called from the loop (`soon`).
 */
#include <errno.h>
#include <openssl/ec.h>
#include <openssl/x509.h>
#include <time.h>

#include "base/str.h"
#include "gateway/epoll_set.h"
#include "gateway/gate.h"
#include "gateway/secret/brokerlink.h"
#include "gateway/tls/tls_priv.h"

enum {
    LEAVES_MAX = 256, /* hosts; the one that was used longest ago makes room (ATTACKS 66: churn) */
    LEAF_WAITING_MAX = 4096,
    LEAF_MARGIN_S = 600 /* a certificate is not used for new connections so shortly before it ends */
};

enum leaf_state { LEAF_FREE, LEAF_ASKED, LEAF_READY, LEAF_FAILED };

struct tls_leaf {
    struct tls_leaf *next;
    struct leaves *leaves;
    size_t index;
    tls_leaf_fn *fn;
    void *arg;
};

struct leaf {
    enum leaf_state state;
    struct leaves *leaves;
    char host[HOST_TEXT_MAX + 1];
    struct broker_call *call; /* ASKED */
    SSL_CTX *ctx;             /* READY */
    time_t until;             /* READY */
    uint64_t turn;            /* READY: of the last use */
    struct tls_leaf *waiting;
};

struct leaves {
    struct gate *gate;
    struct soon soon;
    uint64_t turns;
    EVP_PKEY *key;
    uint8_t *spki;
    int spki_len;
    size_t n_waiting;
    struct leaf v[LEAVES_MAX];
};

static void deliver(void *arg);

int leaves_new(struct gate *g, struct leaves **ret) {
    struct leaves *l = calloc(1, sizeof *l);

    if (!l)
        return -ENOMEM;
    l->gate = g;
    *ret = l;
    return 0;
}

static void reset_leaf(struct leaf *leaf) {
    if (leaf->call)
        broker_call_cancel(leaf->call);
    SSL_CTX_free(leaf->ctx);
    *leaf = (struct leaf){0};
}

void leaves_free(struct leaves *l) {
    for (size_t i = 0; i < LEAVES_MAX; i++) {
        struct tls_leaf *q;

        while ((q = l->v[i].waiting)) {
            l->v[i].waiting = q->next;
            free(q);
        }
        reset_leaf(&l->v[i]);
    }
    EVP_PKEY_free(l->key);
    OPENSSL_free(l->spki);
    soon_cancel(l->gate->hub, &l->soon);
    free(l);
}

static void settle_leaf(struct leaves *l, struct leaf *leaf, enum leaf_state state) {
    leaf->state = state;
    soon_set(l->gate->hub, &l->soon, deliver, l);
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

/* The end of the certificate's time; 0 if it cannot be read. */
static time_t not_after(const X509 *cert) {
    struct tm tm = {0};

    return ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1 ? timegm(&tm) : 0;
}

static bool take_certificate(struct leaf *leaf, const uint8_t *data, size_t len) {
    X509 *cert = d2i_X509(NULL, &data, (long)len);

    if (!cert)
        return false;
    leaf->until = not_after(cert);
    leaf->ctx = tls_server_context(cert, leaf->leaves->key);
    X509_free(cert);
    return leaf->ctx != NULL;
}

static void on_answer(void *arg, int status, const uint8_t *data, size_t len) {
    struct leaf *leaf = arg;

    leaf->call = NULL;
    settle_leaf(leaf->leaves, leaf, status == 0 && take_certificate(leaf, data, len) ? LEAF_READY : LEAF_FAILED);
}

static void free_if_unused(struct leaf *leaf) {
    if (leaf->state == LEAF_FAILED && !leaf->waiting)
        reset_leaf(leaf);
}

/* fn may ask for, or cancel, any leaf: nothing is remembered across a call but the index. */
static void deliver(void *arg) {
    struct leaves *l = arg;

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

static struct leaf *find_leaf(struct leaves *l, const char *host) {
    for (size_t i = 0; i < LEAVES_MAX; i++)
        if (l->v[i].state != LEAF_FREE && str_eq(l->v[i].host, host))
            return &l->v[i];
    return NULL;
}

/* A place that is free, or whose certificate is not waited for and was used longest ago. */
static struct leaf *make_leaf_room(struct leaves *l) {
    struct leaf *best = NULL;

    for (size_t i = 0; i < LEAVES_MAX; i++) {
        if (l->v[i].state == LEAF_FREE)
            return &l->v[i];
        if (l->v[i].state == LEAF_READY && !l->v[i].waiting && (!best || l->v[i].turn < best->turn))
            best = &l->v[i];
    }
    if (best)
        reset_leaf(best);
    return best;
}

static struct leaf *ask_for(struct leaves *l, struct leaf *leaf, const struct host *host) {
    struct broker_request req = {.type = BROKER_LEAF};

    if (host->len > BROKER_HOST_MAX || make_key(l) < 0)
        return NULL;
    memcpy(req.host, host->text, host->len + 1);
    leaf->call = broker_call(l->gate->broker, &req, l->spki, (size_t)l->spki_len, on_answer, leaf);
    if (!leaf->call)
        return NULL;
    memcpy(leaf->host, host->text, host->len + 1);
    leaf->leaves = l;
    leaf->state = LEAF_ASKED;
    return leaf;
}

static struct leaf *get_leaf(struct leaves *l, const struct host *host) {
    struct leaf *leaf = find_leaf(l, host->text);

    if (leaf && leaf->state == LEAF_READY && !leaf->waiting && leaf->until < time(NULL) + LEAF_MARGIN_S)
        reset_leaf(leaf);
    if (leaf && leaf->state != LEAF_FREE)
        return leaf;
    leaf = leaf ? leaf : make_leaf_room(l);
    return leaf ? ask_for(l, leaf, host) : NULL;
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
    if (leaf->state != LEAF_ASKED)
        soon_set(l->gate->hub, &l->soon, deliver, l);
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
