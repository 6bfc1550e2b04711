/* SPDX-License-Identifier: Apache-2.0 */
/* c-ares on the loop. */
#include "gateway/net/resolve_channel.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"

struct channel_socket {
    struct resolve_channel *channel;
    struct channel_socket *next;
    uv_poll_t poll;
    int fd, events;
};

struct resolve_channel {
    uv_loop_t *loop;
    ares_channel ares;
    uv_timer_t timer;
    struct channel_socket *sockets; /* the sockets that c-ares has */
    size_t asked;                   /* questions that are open */
};

struct resolve_question {
    struct resolve_channel *channel;
    uint8_t len;
    resolve_reply_fn *fn;
    void *arg;
};

/* c-ares makes its sockets with these: close-on-exec from birth, no other option is touched, and no SIGPIPE. */
static ares_socket_t socket_make(int family, int type, int protocol, void *arg) {
    return socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
}

static int socket_close(ares_socket_t fd, void *arg) {
    return close(fd);
}

static int socket_connect(ares_socket_t fd, const struct sockaddr *to, ares_socklen_t len, void *arg) {
    return connect(fd, to, len);
}

static ares_ssize_t socket_recv(ares_socket_t fd, void *buf, size_t len, int flags, struct sockaddr *from,
                                ares_socklen_t *from_len, void *arg) {
    return recvfrom(fd, buf, len, flags | MSG_DONTWAIT, from, from_len);
}

static ares_ssize_t socket_send(ares_socket_t fd, const struct iovec *iov, int n, void *arg) {
    struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n};

    return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static const struct ares_socket_functions socket_functions = {
    .asocket = socket_make,
    .aclose = socket_close,
    .aconnect = socket_connect,
    .arecvfrom = socket_recv,
    .asendv = socket_send,
};

static void on_timer(uv_timer_t *timer);

/* After every call into c-ares: when it has to be called next. */
static void plan_next(struct resolve_channel *c) {
    struct timeval tv;

    if (ares_timeout(c->ares, NULL, &tv))
        uv_timer_start(&c->timer, on_timer, (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000 + 1, 0);
    else
        uv_timer_stop(&c->timer);
}

static void on_timer(uv_timer_t *timer) {
    struct resolve_channel *c = timer->data;

    ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    plan_next(c);
}

static void on_socket(uv_poll_t *poll, int status, int events) {
    struct channel_socket *w = poll->data;
    struct resolve_channel *c = w->channel;
    bool in = status < 0 || events & UV_READABLE, out = status < 0 || events & UV_WRITABLE;

    ares_process_fd(c->ares, in ? w->fd : ARES_SOCKET_BAD, out ? w->fd : ARES_SOCKET_BAD);
    /* libuv gives a socket up that has an error; c-ares goes on with it if the error was only that of an earlier packet. */
    if (status < 0 && !uv_is_closing((uv_handle_t *)poll))
        uv_poll_start(poll, w->events, on_socket);
    plan_next(c);
}

static void on_socket_closed(uv_handle_t *handle) {
    free(handle->data);
}

static struct channel_socket *socket_watch(struct resolve_channel *c, int fd) {
    struct channel_socket *w = calloc(1, sizeof *w);

    if (!w || uv_poll_init(c->loop, &w->poll, fd) < 0) {
        free(w);
        return NULL;
    }
    w->poll.data = w;
    w->channel = c;
    w->fd = fd;
    w->next = c->sockets;
    c->sockets = w;
    return w;
}

/* c-ares says what it waits for; nothing (then it closes the socket right after). A socket that cannot be watched times out. */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable) {
    struct resolve_channel *c = arg;
    struct channel_socket **at = &c->sockets, *w;

    while (*at && (*at)->fd != fd)
        at = &(*at)->next;
    w = *at;
    if (readable || writable) {
        w = w ? w : socket_watch(c, fd);
        if (!w)
            return;
        w->events = (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0);
        uv_poll_start(&w->poll, w->events, on_socket);
    } else if (w) {
        *at = w->next;
        uv_close((uv_handle_t *)&w->poll, on_socket_closed);
    }
}

static int set_servers(ares_channel ares, const struct resolve_conf *conf) {
    struct ares_addr_port_node nodes[RESOLVE_SERVERS_MAX] = {0};

    for (size_t i = 0; i < conf->n_servers; i++) {
        const struct resolve_server *s = &conf->servers[i];

        nodes[i].family = s->addr.len == 4 ? AF_INET : AF_INET6;
        nodes[i].udp_port = nodes[i].tcp_port = s->port;
        memcpy(&nodes[i].addr, s->addr.b, s->addr.len);
        nodes[i].next = i + 1 < conf->n_servers ? &nodes[i + 1] : NULL;
    }
    return ares_set_servers_ports(ares, nodes);
}

/* c-ares reads its files unless each of these is given. */
static int open_ares(struct resolve_channel *c, const struct resolve_conf *conf) {
    struct in_addr placeholder = {.s_addr = htonl(INADDR_LOOPBACK)};
    struct ares_options o = {.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
                             .timeout = (int)conf->timeout_s * 1000,
                             .tries = (int)conf->attempts,
                             .ndots = 1,
                             .servers = &placeholder,
                             .nservers = 1,
                             .lookups = (char[]){"b"},
                             .sock_state_cb = on_socket_state,
                             .sock_state_cb_data = c};
    int r = ares_init_options(&c->ares, &o,
                              ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS | ARES_OPT_SERVERS |
                                  ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_SORTLIST | ARES_OPT_SOCK_STATE_CB |
                                  ARES_OPT_NOROTATE);

    if (r != ARES_SUCCESS)
        return r;
    ares_set_socket_functions(c->ares, &socket_functions, c);
    r = set_servers(c->ares, conf);
    if (r != ARES_SUCCESS)
        ares_destroy(c->ares);
    return r;
}

int resolve_channel_new(uv_loop_t *loop, const struct resolve_conf *conf, struct resolve_channel **ret, struct err *err) {
    struct resolve_channel *c = calloc(1, sizeof *c);
    int r;

    if (!c)
        return err_oom(err);
    c->loop = loop;
    r = ares_library_init(ARES_LIB_INIT_ALL);
    if (r == ARES_SUCCESS) {
        r = open_ares(c, conf);
        if (r != ARES_SUCCESS)
            ares_library_cleanup();
    }
    if (r != ARES_SUCCESS) {
        free(c);
        return err_set(err, -EIO, "start the resolver: %s", ares_strerror(r));
    }
    uv_timer_init(loop, &c->timer);
    c->timer.data = c;
    *ret = c;
    return 0;
}

static int status_of(int status, const unsigned char *reply, int len) {
    switch (status) {
    case ARES_SUCCESS:
        break;
    case ARES_ETIMEOUT:
        return -ETIMEDOUT;
    case ARES_ECANCELLED:
    case ARES_EDESTRUCTION:
        return -ECANCELED;
    case ARES_ENOMEM:
        return -ENOMEM;
    default:
        return -EIO;
    }
    if (len < NS_HFIXEDSZ)
        return -EIO;
    return (reply[3] & 15) == ns_r_noerror ? 0 : (reply[3] & 15) == ns_r_nxdomain ? -ENOENT : -EIO;
}

static int status_of_parse(int r, int n) {
    if (r == ARES_ENODATA || (r == ARES_SUCCESS && n == 0))
        return -ENODATA;
    return r == ARES_SUCCESS ? n : r == ARES_ENOMEM ? -ENOMEM : -EIO;
}

static int read_ipv4(const unsigned char *reply, int len, struct addr *ret, unsigned *ret_ttl) {
    struct ares_addrttl found[RESOLVE_REPLY_MAX];
    int n = RESOLVE_REPLY_MAX, r = ares_parse_a_reply(reply, len, NULL, found, &n);

    r = status_of_parse(r, n);
    for (int i = 0; i < r; i++) {
        ret[i] = (struct addr){.len = 4};
        memcpy(ret[i].b, &found[i].ipaddr, 4);
        *ret_ttl = MIN_OF(*ret_ttl, (unsigned)MAX_OF(found[i].ttl, 0));
    }
    return r;
}

static int read_ipv6(const unsigned char *reply, int len, struct addr *ret, unsigned *ret_ttl) {
    struct ares_addr6ttl found[RESOLVE_REPLY_MAX];
    int n = RESOLVE_REPLY_MAX, r = ares_parse_aaaa_reply(reply, len, NULL, found, &n);

    r = status_of_parse(r, n);
    for (int i = 0; i < r; i++) {
        ret[i] = (struct addr){.len = 16};
        memcpy(ret[i].b, &found[i].ip6addr, 16);
        *ret_ttl = MIN_OF(*ret_ttl, (unsigned)MAX_OF(found[i].ttl, 0));
    }
    return r;
}

static void on_reply(void *arg, int status, int timeouts, unsigned char *reply, int len) {
    struct resolve_question *q = arg;
    struct addr addrs[RESOLVE_REPLY_MAX];
    unsigned ttl_s = INT32_MAX;
    int r = status_of(status, reply, len);

    if (r == 0)
        r = q->len == 4 ? read_ipv4(reply, len, addrs, &ttl_s) : read_ipv6(reply, len, addrs, &ttl_s);
    q->channel->asked--;
    q->fn(q->arg, MIN_OF(r, 0), addrs, (size_t)MAX_OF(r, 0), ttl_s);
    free(q);
}

static int make_query(const struct host *name, uint8_t len, unsigned char **ret, int *ret_len) {
    uint16_t id;

    if (getrandom(&id, sizeof id, 0) != sizeof id)
        return -EIO;
    if (ares_create_query(name->text, ns_c_in, len == 4 ? ns_t_a : ns_t_aaaa, id, 1, ret, ret_len, 0) != ARES_SUCCESS)
        return -EIO;
    return 0;
}

void resolve_channel_ask(struct resolve_channel *c, const struct host *name, uint8_t len, resolve_reply_fn *fn, void *arg) {
    struct resolve_question *q = malloc(sizeof *q);
    unsigned char *query = NULL;
    int query_len, r = q ? make_query(name, len, &query, &query_len) : -ENOMEM;

    if (r < 0) {
        free(q);
        fn(arg, r, NULL, 0, 0);
        return;
    }
    *q = (struct resolve_question){.channel = c, .len = len, .fn = fn, .arg = arg};
    c->asked++;
    ares_send(c->ares, query, query_len, on_reply, q);
    ares_free_string(query);
    plan_next(c);
}

size_t resolve_channel_asked(const struct resolve_channel *c) {
    return c->asked;
}

static void on_timer_closed(uv_handle_t *handle) {
    free(handle->data);
}

void resolve_channel_free(struct resolve_channel *c) {
    if (!c)
        return;
    ares_destroy(c->ares);
    ares_library_cleanup();
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}
