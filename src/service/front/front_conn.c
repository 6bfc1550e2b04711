/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: ceilings, deadlines, and the hand-over to libmicrohttpd. */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/vec.h"
#include "os/clock.h"
#include "service/front/front.h"
#include "service/front/front_jail.h"

enum { ACCEPT_BATCH = 64, KEY_UNIX = 1, KEY_V4 = 4, KEY_V6 = 6, V6_NETWORK = 8 };

int front_conns_init(struct front_server *f, struct err *err) {
    f->n_by_fd = FRONT_FILES_MAX;
    f->by_fd = calloc(f->n_by_fd, VEC_SIZE(f->by_fd));
    f->n_slots = f->conf.connections_max;
    f->slots = calloc(f->n_slots, VEC_SIZE(f->slots));
    return f->by_fd && f->slots ? 0 : err_oom(err);
}

static size_t count_key(const struct front_server *f, const unsigned char *key) {
    size_t n = 0;

    for (size_t i = 0, left = f->n_conns; i < f->n_by_fd && left; i++) {
        left -= f->by_fd[i] ? 1 : 0;
        n += f->by_fd[i] && memcmp(f->by_fd[i]->key, key, FRONT_KEY_SIZE) == 0;
    }
    return n;
}

/* One user, one IPv4 address, or one network of IPv6, which a single client has all addresses of. */
static void make_key(unsigned char key[static FRONT_KEY_SIZE], uint32_t uid, const struct sockaddr_storage *from) {
    const struct sockaddr_in *v4 = (const void *)from;
    const struct sockaddr_in6 *v6 = (const void *)from;

    memset(key, 0, FRONT_KEY_SIZE);
    if (from->ss_family == AF_INET) {
        key[0] = KEY_V4;
        memcpy(key + 1, &v4->sin_addr, sizeof v4->sin_addr);
    } else if (from->ss_family == AF_INET6) {
        key[0] = KEY_V6;
        memcpy(key + 1, &v6->sin6_addr, IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) ? sizeof v6->sin6_addr : V6_NETWORK);
    } else {
        key[0] = KEY_UNIX;
        memcpy(key + 1, &uid, sizeof uid);
    }
}

static void conn_free(struct front_server *f, struct front_conn *c) {
    front_watch_stop(&f->loop, &c->gone);
    f->by_fd[c->fd] = NULL;
    f->n_conns--;
    front_send_gone(f, c->peer);
    free(c->uri);
    free(c);
}

static int conn_add(struct front_server *f, int fd, uint64_t peer, uint32_t uid, const struct sockaddr_storage *from,
                    socklen_t len) {
    struct front_conn *c;
    unsigned char key[FRONT_KEY_SIZE];

    make_key(key, uid, from);
    if (f->draining || f->n_conns >= f->conf.connections_max || (size_t)fd >= f->n_by_fd || count_key(f, key) >= f->conf.peer_max)
        return -EBUSY;
    c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    *c = (struct front_conn){.front = f,
                             .fd = fd,
                             .peer = peer,
                             .daemon = peer || !f->tls ? f->plain : f->tls,
                             .deadline_ms = clock_ms() + f->conf.header_seconds * 1000};
    memcpy(c->key, key, sizeof key);
    f->by_fd[fd] = c;
    f->n_conns++;
    if (MHD_add_connection(c->daemon, fd, (const struct sockaddr *)from, len) == MHD_YES)
        return 0;
    c->peer = 0;
    conn_free(f, c);
    return -EALREADY; /* libmicrohttpd has closed it */
}

void front_conn_take(struct front_server *f, int fd, uint64_t peer, uint32_t uid) {
    const struct sockaddr_storage from = {.ss_family = AF_UNIX};
    int r = conn_add(f, fd, peer, uid, &from, sizeof from.ss_family);

    if (r < 0) {
        if (r != -EALREADY)
            close(fd);
        front_send_gone(f, peer);
    }
}

static void accept_some(struct front_server *f, int listener) {
    for (int i = 0; i < ACCEPT_BATCH && f->n_conns < f->conf.connections_max; i++) {
        struct sockaddr_storage from = {0};
        socklen_t len = sizeof from;
        int fd = accept4(listener, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        int r;

        if (fd < 0)
            break;
        r = conn_add(f, fd, 0, 0, &from, len);
        if (r < 0 && r != -EALREADY)
            close(fd);
    }
    front_listen_update(f);
}

static void on_listen_0(void *arg, uint32_t events) {
    accept_some(arg, ((struct front_server *)arg)->conf.listen[0]);
}

static void on_listen_1(void *arg, uint32_t events) {
    accept_some(arg, ((struct front_server *)arg)->conf.listen[1]);
}

/* With all connections in use, clients wait in the kernel's queue. */
void front_listen_update(struct front_server *f) {
    static front_watch_fn *const fns[API_LISTEN_MAX] = {on_listen_0, on_listen_1};
    bool want = !f->draining && f->n_conns < f->conf.connections_max;

    if (want == f->listening)
        return;
    f->listening = want;
    for (size_t i = 0; i < f->conf.n_listen; i++) {
        if (!want)
            front_watch_stop(&f->loop, &f->listen_watch[i]);
        else if (front_watch_start(&f->loop, &f->listen_watch[i], f->conf.listen[i], EPOLLIN, fns[i], f) < 0)
            f->failed = -EIO;
    }
}

struct front_conn *front_conn_of(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

void front_conn_notify(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode code) {
    struct front_server *f = cls;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct front_conn *c = info && (size_t)info->connect_fd < f->n_by_fd ? f->by_fd[info->connect_fd] : NULL;

        *context = c;
        if (c)
            c->mhd = mhd;
    } else if (*context) {
        conn_free(f, *context);
        *context = NULL;
        front_listen_update(f);
    }
}

void front_conn_cut(struct front_conn *c, const struct front_fault *fault, const char *request_id) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(8192), all = BUF_INIT(16384);
    const union MHD_ConnectionInfo *tls;

    front_problem_text(fault, request_id, &body);
    buf_addf(&all,
             "HTTP/1.1 %u %s\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\nRequest-Id: %s\r\n"
             "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
             fault->status, MHD_get_reason_phrase_for(fault->status), body.len, request_id);
    buf_add(&all, body.data, body.len);
    tls = MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    /* What does not fit is lost: it is a courtesy. */
    if (tls && tls->tls_session && c->daemon == c->front->tls) {
        gnutls_record_send(tls->tls_session, all.data, all.len);
        gnutls_bye(tls->tls_session, GNUTLS_SHUT_WR);
    } else {
        send(c->fd, all.data, all.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    shutdown(c->fd, SHUT_RDWR);
    c->deadline_ms = 0;
}

static void conn_expire(struct front_conn *c) {
    struct front_fault fault;

    c->deadline_ms = 0;
    if (!c->exchange) {
        shutdown(c->fd, SHUT_RDWR); /* no request yet, or no more */
        return;
    }
    fault_set(&fault, 408, API_PROBLEM_TIMEOUT, "the body took more than %u seconds", (unsigned)c->front->conf.body_seconds);
    c->exchange->cut = true;
    front_conn_cut(c, &fault, c->exchange->request_id);
}

void front_conns_tick(struct front_server *f, uint64_t now_ms) {
    for (size_t i = 0, left = f->n_conns; i < f->n_by_fd && left; i++) {
        if (!f->by_fd[i])
            continue;
        left--;
        if (f->by_fd[i]->deadline_ms && f->by_fd[i]->deadline_ms <= now_ms)
            conn_expire(f->by_fd[i]);
    }
}

void front_conns_drain(struct front_server *f) {
    f->draining = true;
    front_listen_update(f);
    for (size_t i = 0, left = f->n_conns; i < f->n_by_fd && left; i++) {
        if (!f->by_fd[i])
            continue;
        left--;
        if (!f->by_fd[i]->exchange)
            shutdown(f->by_fd[i]->fd, SHUT_RDWR);
    }
    front_terminals_drain(f);
}
