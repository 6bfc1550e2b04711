/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bawn-task --expose SANDBOX PORT`: connections to the listener on its standard input lead to a server inside, as long as the sandbox runs. Who
 * connects is not known here; what comes back is the inside's own words.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/vec.h"
#include "os/fd.h"
#include "service/task/taskfiles_priv.h"
#include "supervisor/keep/exec_client.h"

enum { EXPOSE_MAX = 256, HALF_SIZE = 64 * 1024 };

/* One direction. */
struct expose_half {
    char data[HALF_SIZE];
    size_t at, len;
    bool ended, shut;
};

struct expose_pair {
    int fds[2];                   /* the client's, the inside's */
    struct expose_half halves[2]; /* from fds[i] to the other */
};

struct exposed {
    const char *sandbox;
    int port, life; /* life: a connection to the keeper that says nothing: its end is the sandbox's */
    struct expose_pair **pairs;
    size_t n;
};

static void pair_free(struct expose_pair *p) {
    fd_close_all(p->fds, 2);
    free(p);
}

static int connect_inside(const struct exposed *e, int *ret, struct err *err) {
    CLEANUP(closep) int sock = -1;
    int r = exec_connect(environ, NULL, e->sandbox, &sock, err);

    return r < 0 ? r : exec_inside(sock, e->port, ret, err);
}

/* A server that is not there: the client's connection is reset, as by one that refuses. */
static void accept_one(struct exposed *e) {
    const struct linger reset = {.l_onoff = 1};
    struct expose_pair *p = calloc(1, sizeof *p);
    struct err err = {0};
    int client = accept4(STDIN_FILENO, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), inside = -1;

    if (p && client >= 0 && connect_inside(e, &inside, &err) == 0 && VEC_ADD(e->pairs, e->n, p) == 0) {
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        setsockopt(inside, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        p->fds[0] = client;
        p->fds[1] = inside;
        return;
    }
    if (client >= 0)
        setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    closep(&client);
    closep(&inside);
    free(p);
}

/* false: the connection is over. */
static bool half_move(struct expose_pair *p, int from) {
    struct expose_half *h = &p->halves[from];
    ssize_t n = 1;

    if (!h->ended && h->len == 0) {
        n = recv(p->fds[from], h->data, sizeof h->data, MSG_DONTWAIT);
        h->at = 0;
        h->len = n > 0 ? (size_t)n : 0;
        h->ended = n == 0;
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
    }
    while (h->len) {
        n = send(p->fds[!from], h->data + h->at, h->len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        h->at += (size_t)n;
        h->len -= (size_t)n;
    }
    if (h->ended && !h->shut) {
        shutdown(p->fds[!from], SHUT_WR);
        h->shut = true;
    }
    return true;
}

static void want_pair(const struct expose_pair *p, struct pollfd *fds) {
    for (int i = 0; i < 2; i++) {
        const struct expose_half *in = &p->halves[i], *out = &p->halves[!i];

        fds[i] =
            (struct pollfd){.fd = p->fds[i], .events = (short)((!in->ended && !in->len ? POLLIN : 0) | (out->len ? POLLOUT : 0))};
        if (!fds[i].events)
            fds[i].fd = -1;
    }
}

static void move_pairs(struct exposed *e, const struct pollfd *fds) {
    for (size_t i = e->n; i-- > 0;) {
        struct expose_pair *p = e->pairs[i];
        bool goes_on = true;

        if (fds[2 * i].revents || fds[2 * i + 1].revents)
            goes_on = half_move(p, 0) && half_move(p, 1);
        if (!goes_on || (p->halves[0].shut && p->halves[1].shut)) {
            pair_free(p);
            VEC_REMOVE(e->pairs, e->n, i);
        }
    }
}

static int serve_port(struct exposed *e, struct err *err) {
    struct pollfd fds[2 + 2 * EXPOSE_MAX];

    for (;;) {
        fds[0] = (struct pollfd){.fd = e->life, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = e->n < EXPOSE_MAX ? STDIN_FILENO : -1, .events = POLLIN};
        for (size_t i = 0; i < e->n; i++)
            want_pair(e->pairs[i], &fds[2 + 2 * i]);
        if (poll(fds, 2 + 2 * e->n, -1) < 0 && errno != EINTR)
            return err_sys(err, -errno, "wait");
        if (fds[0].revents)
            return 0; /* the sandbox has stopped */
        move_pairs(e, fds + 2);
        if (fds[1].revents)
            accept_one(e);
    }
}

int taskfiles_expose(char **args, struct err *err) {
    struct exposed e = {.sandbox = args[0], .life = -1};
    uint64_t port = 0;
    int r = parse_u64(args[1], 1, UINT16_MAX, &port, err);

    e.port = (int)port;
    r = r < 0 ? r : exec_connect(environ, NULL, e.sandbox, &e.life, err);
    if (r >= 0 && fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK) < 0)
        r = err_sys(err, -errno, "the listener");
    r = r < 0 ? r : serve_port(&e, err);
    for (size_t i = 0; i < e.n; i++)
        pair_free(e.pairs[i]);
    free(e.pairs);
    closep(&e.life);
    return r;
}
