/* SPDX-License-Identifier: Apache-2.0 */
/* The listener that a login's browser comes back to: requests, peers, pages. */
#include "vault/callback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"

enum { BACKLOG = 16, LINGER_MS = 2000, STATE_ESTABLISHED = 1, STATE_CLOSE_WAIT = 8, LINE_MAX_ = 512 };

/* Requests --------------------------------------------------------------------------------------------------------- */

/* A piece of the request's bytes. */
struct callback_span {
    const char *p;
    size_t len;
};

static struct callback_span cut(struct callback_span *rest, char at) {
    const char *end = rest->len ? memchr(rest->p, at, rest->len) : NULL;
    struct callback_span first = {rest->p, end ? (size_t)(end - rest->p) : rest->len};
    size_t used = first.len + (end != NULL);

    *rest = (struct callback_span){rest->p + used, rest->len - used};
    return first;
}

static bool span_is(struct callback_span s, const char *text) {
    return s.len == strlen(text) && memcmp(s.p, text, s.len) == 0;
}

/* %xx; '+' is a space in forms, and no code or state of ours has either. Control bytes are refused: the code goes into a request. */
static int decode_span(struct callback_span s, struct secret *out) {
    secret_clear(out);
    for (size_t i = 0; i < s.len; i++) {
        int byte = hex_percent(s.p + i, s.len - i);
        char c = byte >= 0 ? (char)byte : s.p[i];

        if (out->len == CALLBACK_CODE_MAX || c <= ' ' || c == 0x7f || (s.p[i] == '%' && byte < 0))
            return -EINVAL;
        out->p[out->len++] = c;
        i += byte >= 0 ? 2 : 0;
    }
    return out->len ? 0 : -EINVAL;
}

struct callback_query {
    struct callback_span code, state, error;
};

/* A parameter that is there twice has two readings. */
static int read_query(struct callback_span query, struct callback_query *f) {
    while (query.len) {
        struct callback_span value = cut(&query, '&'), key = cut(&value, '=');
        struct callback_span *to = span_is(key, "code")    ? &f->code
                                   : span_is(key, "state") ? &f->state
                                   : span_is(key, "error") ? &f->error
                                                           : NULL;

        if (to && to->p)
            return -EINVAL;
        if (to)
            *to = value;
    }
    return 0;
}

/* In constant time: the other end of a loopback port may be another user of this machine, with a clock. */
static bool is_state(struct callback_span s, const char *state, struct secret *work) {
    return s.p && decode_span(s, work) == 0 && work->len == strlen(state) && CRYPTO_memcmp(work->p, state, work->len) == 0;
}

int callback_read(const char *head, size_t len, const char *path, const char *state, struct secret *ret_code) {
    struct callback_span rest = {head, len}, line, method, target, where;
    struct callback_query f = {0};

    if (!memmem(head, len, "\r\n\r\n", 4))
        return len < CALLBACK_HEAD_MAX ? -EAGAIN : -EINVAL;
    line = cut(&rest, '\r');
    method = cut(&line, ' ');
    target = cut(&line, ' ');
    where = cut(&target, '?');
    if (!span_is(method, "GET") || !span_is(where, path) || !(span_is(line, "HTTP/1.1") || span_is(line, "HTTP/1.0")))
        return -EINVAL;
    if (read_query(target, &f) < 0 || !is_state(f.state, state, ret_code) || !f.code.p == !f.error.p)
        return -EINVAL;
    return f.error.p ? -EACCES : decode_span(f.code, ret_code);
}

/* Peers ------------------------------------------------------------------------------------------------------------ */

/*
 * Whose is the other end of a connection on a loopback address? The kernel says it for unix sockets only; for TCP it lists every socket with its
 * owner. The address of a login page, with state and challenge, is an argument of the browser, which other users of the machine may see: with it they
 * could send a code of their own account's. So only the user's own programs (and root's) come back from a login.
 */
/* Ports are enough: both ends are on this machine, and no two connections have both. */
static bool line_is(const char *line, unsigned local, unsigned remote, unsigned long *ret_uid) {
    unsigned l, r, state;

    /* sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid */
    return sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%x %x %*x:%*x %*x:%*x %*x %lu", &l, &r, &state, ret_uid) == 4 &&
           l == local && r == remote && (state == STATE_ESTABLISHED || state == STATE_CLOSE_WAIT);
}

static bool find_owner(const char *table, unsigned local, unsigned remote, unsigned long *ret_uid) {
    FILE *f = fopen(table, "re");
    char line[LINE_MAX_];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        found = line_is(line, local, remote, ret_uid);
    if (f)
        fclose(f);
    return found;
}

union callback_any_addr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static unsigned port_of(int fd, bool peer) {
    union callback_any_addr a = {0};
    socklen_t len = sizeof a;

    if ((peer ? getpeername(fd, &a.any, &len) : getsockname(fd, &a.any, &len)) < 0)
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

/* Also for root, whose browser may run as another user. */
static bool is_peer_ours(int fd) {
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    unsigned theirs = port_of(fd, true), ours = port_of(fd, false);
    unsigned long uid;

    if (getuid() == 0)
        return true;
    for (size_t i = 0; theirs && ours && i < ARRAY_LEN(tables); i++)
        if (find_owner(tables[i], theirs, ours, &uid))
            return uid == getuid() || uid == 0;
    return false;
}

/* The listener ----------------------------------------------------------------------------------------------------- */

static int listen_at(const struct credential_redirect *r, struct callback *ret) {
    bool v6 = r->host[0] == '[';
    union callback_any_addr a = {0};
    socklen_t len = v6 ? sizeof a.v6 : sizeof a.v4;
    CLEANUP(closep) int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (v6)
        a.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(r->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    else
        a.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(r->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0)
        return -errno;
    if (bind(fd, &a.any, len) < 0 || listen(fd, BACKLOG) < 0 || getsockname(fd, &a.any, &len) < 0)
        return -errno;
    ret->port = ntohs(v6 ? a.v6.sin6_port : a.v4.sin_port);
    ret->fd = TAKE_FD(fd);
    return 0;
}

int callback_listen(const struct credential_redirect *r, struct callback *ret, struct err *err) {
    int e = listen_at(r, ret);

    if (e == -EADDRINUSE)
        return err_set(err, -ENOKEY, "port %u of this machine is in use, and the login has to come back there", r->port);
    return e < 0 ? err_sys(err, e, "listen for the end of the login") : 0;
}

void callback_done(struct callback *cb) {
    closep(&cb->fd);
}

/* Clients ---------------------------------------------------------------------------------------------------------- */

struct callback_client {
    int fd;
    uint64_t until_ms;
    size_t len;
    char head[CALLBACK_HEAD_MAX]; /* may have a code */
};

struct callback_waiting {
    struct callback_client *v[CALLBACK_CLIENTS_MAX];
    size_t n;
};

static void client_drop(struct callback_waiting *w, size_t i) {
    closep(&w->v[i]->fd);
    explicit_bzero(w->v[i], sizeof *w->v[i]);
    free(w->v[i]);
    w->v[i] = w->v[--w->n];
}

static void waiting_done(struct callback_waiting *w) {
    while (w->n)
        client_drop(w, w->n - 1);
}

static void client_accept(struct callback_waiting *w, int listener) {
    struct callback_client *c;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    c = is_peer_ours(fd) ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        close(fd);
        return;
    }
    c->fd = fd;
    c->until_ms = clock_ms() + CALLBACK_CLIENT_MS;
    w->v[w->n++] = c;
}

static void send_page(int fd, const char *status, const char *title, const char *text) {
    CLEANUP(freep)
    char *page = str_dupf("<!doctype html><meta charset=utf-8><title>%s</title><h1>%s</h1><p>%s\n", title, title, text);
    CLEANUP(freep)
    char *all = page ? str_dupf("HTTP/1.1 %s\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %zu\r\n"
                                "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n%s",
                                status, strlen(page), page)
                     : NULL;

    if (all)
        (void)send(fd, all, strlen(all), MSG_NOSIGNAL | MSG_DONTWAIT); /* an empty socket takes it */
}

/* As callback_read(); -EPIPE: the client is gone or took too long. */
static int client_read(struct callback_client *c, const char *path, const char *state, struct secret *code) {
    ssize_t n = recv(c->fd, c->head + c->len, sizeof c->head - c->len, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return clock_ms() < c->until_ms ? -EAGAIN : -EPIPE;
    if (n <= 0)
        return -EPIPE;
    c->len += (size_t)n;
    return callback_read(c->head, c->len, path, state, code);
}

/* 1: no request that counts has come yet. */
static int serve_clients(struct callback_waiting *w, const char *path, const char *state, struct secret *code, int *ret_client) {
    for (size_t i = w->n; i-- > 0;) {
        int r = client_read(w->v[i], path, state, code);

        if (r == 0 || r == -EACCES) {
            *ret_client = TAKE_FD(w->v[i]->fd);
            return r;
        }
        if (r == -EINVAL)
            send_page(w->v[i]->fd, "404 Not Found", "Not found", "This is not the end of a login that Bawn waits for.");
        if (r != -EAGAIN)
            client_drop(w, i);
    }
    return 1;
}

static int wait_some(const struct callback *cb, const struct callback_waiting *w) {
    struct pollfd fds[1 + CALLBACK_CLIENTS_MAX] = {{.fd = w->n < CALLBACK_CLIENTS_MAX ? cb->fd : -1, .events = POLLIN}};

    for (size_t i = 0; i < w->n; i++)
        fds[1 + i] = (struct pollfd){.fd = w->v[i]->fd, .events = POLLIN};
    if (poll(fds, (nfds_t)(1 + w->n), 1000) < 0 && errno != EINTR)
        return -errno;
    return fds[0].revents != 0;
}

int callback_wait(struct callback *cb, const char *path, const char *state, struct secret *ret_code, int *ret_client,
                  struct err *err) {
    CLEANUP(waiting_done) struct callback_waiting w = {.n = 0};
    uint64_t until = clock_ms() + CALLBACK_MS;
    int r = 1;

    while (r == 1 && clock_ms() < until) {
        int come = wait_some(cb, &w);

        if (come < 0)
            return err_sys(err, come, "wait for the end of the login");
        if (come)
            client_accept(&w, cb->fd);
        r = serve_clients(&w, path, state, ret_code, ret_client);
    }
    callback_done(cb);
    if (r == 1)
        return err_set(err, -ETIMEDOUT, "the login took too long");
    return r < 0 ? err_set(err, r, "the login was refused in the browser") : 0;
}

void callback_answer(int client, bool ok) {
    CLEANUP(closep) int fd = client;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char rest[512];

    if (ok)
        send_page(fd, "200 OK", "Logged in",
                  "The tokens are in Bawn's store, outside of every sandbox. You may close this page.");
    else
        send_page(fd, "200 OK", "Not logged in", "The login did not work; the terminal says why. You may close this page.");
    /* A socket that is closed with something unread resets the connection, and the page may be lost. */
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 16 && poll(&p, 1, LINGER_MS) > 0 && recv(fd, rest, sizeof rest, MSG_DONTWAIT) > 0;)
        i++;
}
