/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client for the gateway's figures: the same one against the server itself, through Bawn's gate and through the peers' proxies.
 *
 *     load [options] HOST PORT PATH
 *         -c N        connections at once, a thread each (1)
 *         -t MS       for how long (1000)
 *         -n          a new connection for every request
 *         -s          TLS
 *         -x H:P      by CONNECT through this proxy
 *         -1          one request only, and the time includes looking the name up
 *         -r N        so many requests, however long they take
 *         -k N        so many connections, one after the other, with a request each; all stay open to the end
 *         -w MS       and so much longer, which does not count
 *
 * Prints {"requests": N, "bytes": N, "seconds": S, "errors": N}; the seconds begin when a connection has had its first answer, which
 * is not counted, so that nobody's start is in the figures. Certificates are not verified: that costs every contender the same, and
 * proxies have CAs of their own.
 */
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 256 * 1024, HEAD_MAX = 16 * 1024 };

struct target {
    const char *host, *port, *path, *proxy_host, *proxy_port;
    bool tls, fresh, once;
    long ms, hold_ms;
    unsigned long most, keep; /* 0: no such number */
    SSL_CTX *ctx;
    struct addrinfo *address; /* of what is connected to; the name is looked up once, in every variant */
};

struct worker {
    const struct target *t;
    pthread_t thread;
    unsigned long requests, bytes, errors;
    double seconds; /* in which these were done */
};

struct link {
    int fd;
    SSL *ssl;
};

static double now(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long link_read(struct link *l, char *buf, size_t n) {
    return l->ssl ? SSL_read(l->ssl, buf, (int)n) : read(l->fd, buf, n);
}

static bool link_write(struct link *l, const char *buf, size_t n) {
    return (l->ssl ? SSL_write(l->ssl, buf, (int)n) : write(l->fd, buf, n)) == (long)n;
}

static void link_close(struct link *l) {
    if (l->ssl)
        SSL_free(l->ssl);
    if (l->fd >= 0)
        close(l->fd);
    *l = (struct link){.fd = -1};
}

/* Reads a head into buf; returns its length, *ret_have what was read in all. */
static long read_head(struct link *l, char *buf, size_t *ret_have) {
    size_t have = 0;

    while (have < HEAD_MAX) {
        long n = link_read(l, buf + have, HEAD_MAX - have);
        char *end;

        if (n <= 0)
            return -1;
        have += (size_t)n;
        buf[have] = 0;
        end = strstr(buf, "\r\n\r\n");
        if (end) {
            *ret_have = have;
            return end + 4 - buf;
        }
    }
    return -1;
}

static bool tunnel(struct link *l, const struct target *t, char *buf) {
    size_t have;
    int n = snprintf(buf, HEAD_MAX, "CONNECT %s:%s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", t->host, t->port, t->host, t->port);

    return link_write(l, buf, (size_t)n) && read_head(l, buf, &have) > 0 && strncmp(buf, "HTTP/1.1 200", 12) == 0;
}

static bool link_open(struct link *l, const struct target *t, char *buf) {
    int one = 1;

    l->fd = socket(t->address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || connect(l->fd, t->address->ai_addr, t->address->ai_addrlen) < 0)
        return false;
    setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (t->proxy_host && !tunnel(l, t, buf))
        return false;
    if (!t->tls)
        return true;
    l->ssl = SSL_new(t->ctx);
    return l->ssl && SSL_set_fd(l->ssl, l->fd) && SSL_set_tlsext_host_name(l->ssl, t->host) && SSL_connect(l->ssl) == 1;
}

/* One request and its whole answer, which must have a Content-Length. */
static long ask(struct link *l, const struct target *t, char *buf) {
    int n = snprintf(buf, HEAD_MAX, "GET %s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", t->path, t->host, t->port);
    size_t have;
    long head, body, left;
    char *field;

    if (!link_write(l, buf, (size_t)n) || (head = read_head(l, buf, &have)) < 0 || strncmp(buf, "HTTP/1.1 200", 12) != 0)
        return -1;
    field = strcasestr(buf, "content-length:");
    if (!field)
        return -1;
    body = strtol(field + 15, NULL, 10);
    for (left = body - ((long)have - head); left > 0;) {
        long got = link_read(l, buf, BUFFER);

        if (got <= 0)
            return -1;
        left -= got;
    }
    return left == 0 ? body : -1;
}

static void *work(void *arg) {
    struct worker *w = arg;
    struct link l = {.fd = -1};
    char *buf = malloc(BUFFER + 1);
    double begin = now(), end = begin + (double)w->t->ms / 1000;
    bool warm = w->t->once;

    while (buf && now() < end) {
        long n = -1;

        if (l.fd >= 0 || link_open(&l, w->t, buf))
            n = ask(&l, w->t, buf);
        if (n < 0)
            w->errors++;
        else if (warm) {
            w->requests++;
            w->bytes += (unsigned long)n;
        } else {
            warm = true;
            begin = now();
            end = begin + (double)w->t->ms / 1000;
        }
        if (n < 0 || w->t->fresh)
            link_close(&l);
        if (w->errors > 20 || w->t->once || (w->t->most && w->requests == w->t->most))
            break;
    }
    w->seconds = now() - begin;
    link_close(&l);
    free(buf);
    return NULL;
}

/* As work(), but each request has a connection of its own, and none is closed before the last one is open. */
static void *work_kept(void *arg) {
    struct worker *w = arg;
    struct link *links = calloc(w->t->keep, sizeof *links);
    char *buf = malloc(BUFFER + 1);
    double begin = now();

    for (unsigned long i = 0; links && buf && i < w->t->keep && w->errors <= 20; i++) {
        long n = link_open(&links[i], w->t, buf) ? ask(&links[i], w->t, buf) : -1;

        w->errors += n < 0;
        w->requests += n >= 0;
        w->bytes += n >= 0 ? (unsigned long)n : 0;
    }
    w->seconds = now() - begin;
    usleep((useconds_t)w->t->hold_ms * 1000);
    free(links); /* the end of the process closes them */
    free(buf);
    return NULL;
}

static int look_up(struct target *t) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    int r = getaddrinfo(t->proxy_host ? t->proxy_host : t->host, t->proxy_host ? t->proxy_port : t->port, &hints, &t->address);

    if (r)
        fprintf(stderr, "load: %s: %s\n", t->host, gai_strerror(r));
    return r;
}

static int run(struct target *t, size_t n) {
    struct worker *w = calloc(n, sizeof *w);
    struct worker sum = {0};
    double begin = now();

    if (!w || look_up(t))
        return 1;
    t->ctx = SSL_CTX_new(TLS_client_method());
    begin = t->once ? begin : now();
    for (size_t i = 0; i < n; i++) {
        w[i].t = t;
        pthread_create(&w[i].thread, NULL, t->keep ? work_kept : work, &w[i]);
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(w[i].thread, NULL);
        sum.requests += w[i].requests;
        sum.bytes += w[i].bytes;
        sum.errors += w[i].errors;
        sum.seconds += w[i].seconds / (double)n;
    }
    if (t->once)
        sum.seconds = now() - begin;
    printf("{\"requests\": %lu, \"bytes\": %lu, \"seconds\": %.6f, \"errors\": %lu}\n", sum.requests, sum.bytes, sum.seconds,
           sum.errors);
    return sum.requests ? 0 : 1;
}

static void allow_files(unsigned long n) {
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < n + 64) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

int main(int argc, char **argv) {
    struct target t = {.ms = 1000};
    size_t connections = 1;
    int c;

    while ((c = getopt(argc, argv, "c:t:nsx:1r:k:w:")) != -1) {
        if (c == 'c')
            connections = strtoul(optarg, NULL, 10);
        else if (c == 't')
            t.ms = strtol(optarg, NULL, 10);
        else if (c == 'n')
            t.fresh = true;
        else if (c == '1')
            t.fresh = t.once = true;
        else if (c == 's')
            t.tls = true;
        else if (c == 'k')
            t.keep = strtoul(optarg, NULL, 10);
        else if (c == 'w')
            t.hold_ms = strtol(optarg, NULL, 10);
        else if (c == 'r') {
            t.most = strtoul(optarg, NULL, 10);
            t.ms = LONG_MAX / 1000;
        }
        else if (c == 'x') {
            t.proxy_host = strsep(&optarg, ":");
            t.proxy_port = optarg;
        } else
            return 2;
    }
    if (argc - optind != 3)
        return 2;
    t.host = argv[optind];
    t.port = argv[optind + 1];
    t.path = argv[optind + 2];
    allow_files(t.keep);
    return run(&t, connections);
}
