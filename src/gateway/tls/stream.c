/* SPDX-License-Identifier: Apache-2.0 */
/* A socket, or TLS over a socket. */
#include "gateway/tls/stream.h"

#include <errno.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/err.h"

enum { STREAM_CHUNK = 1024 * 1024 }; /* SSL_write() takes an int; one call never needs more than this */

void stream_init(struct stream *s, int fd) {
    *s = (struct stream){.fd = fd, .readable = true, .writable = true, .read_wants = UV_READABLE, .write_wants = UV_WRITABLE};
}

/* OpenSSL forgets the session of a connection that seems to end without close_notify; RFC 8446 has no need for that. */
void stream_done(struct stream *s) {
    if (s->ssl && !s->broken)
        SSL_set_shutdown(s->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(TAKE_PTR(s->ssl));
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

int stream_start_tls(struct stream *s, SSL *ssl, struct err *err) {
    s->ssl = ssl;
    if (SSL_set_fd(ssl, s->fd) != 1)
        return err_oom(err);
    return 0;
}

/* What a call of OpenSSL that did not succeed means. If it has to be repeated, *ready and *wants say when. */
static int tls_failure(struct stream *s, int r, bool *ready, uint8_t *wants) {
    int saved = errno, kind = SSL_get_error(s->ssl, r);
    unsigned long code = ERR_peek_last_error();

    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
        *wants = kind == SSL_ERROR_WANT_READ ? UV_READABLE : UV_WRITABLE;
        *ready = false;
        return -EAGAIN;
    }
    if (kind == SSL_ERROR_ZERO_RETURN)
        return 0;
    s->broken = true;
    if (kind == SSL_ERROR_SYSCALL)
        return saved ? -saved : -ECONNRESET;
    return ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING ? -ECONNRESET : -EPROTO;
}

/* The library's own constant text for the first thing that went wrong; alerts of the peer have one, too. */
static const char *tls_reason(int r) {
    const char *text = ERR_reason_error_string(ERR_peek_error());

    if (r == 0 || r == -ECONNRESET || r == -EPIPE)
        return "the connection was closed";
    return text ? text : "the connection failed";
}

int stream_handshake(struct stream *s, struct err *err) {
    int r;

    ERR_clear_error();
    errno = 0;
    r = SSL_do_handshake(s->ssl);
    if (r == 1) {
        s->readable = s->writable = true;
        s->read_wants = UV_READABLE;
        s->write_wants = UV_WRITABLE;
        return 0;
    }
    r = tls_failure(s, r, &s->readable, &s->read_wants);
    return r == -EAGAIN ? r : err_set(err, r ? r : -ECONNRESET, "the TLS handshake failed: %s", tls_reason(r));
}

static ssize_t read_plain(struct stream *s, void *data, size_t len) {
    ssize_t n;

    do
        n = recv(s->fd, data, len, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN)
        return -errno;
    s->readable = n > 0 && (size_t)n == len;
    return n < 0 ? -EAGAIN : n;
}

static ssize_t read_tls(struct stream *s, uint8_t *data, size_t len) {
    size_t got = 0;

    s->read_wants = UV_READABLE;
    while (got < len) {
        int r;

        ERR_clear_error();
        errno = 0;
        r = SSL_read(s->ssl, data + got, (int)MIN_OF(len - got, (size_t)STREAM_CHUNK));
        if (r <= 0) {
            r = tls_failure(s, r, &s->readable, &s->read_wants);
            if (got && r != -EAGAIN)
                s->readable = true; /* an end or a failure stays one and is found by the next call */
            return got ? (ssize_t)got : r;
        }
        got += (size_t)r;
        if (!SSL_has_pending(s->ssl)) {
            s->readable = false;
            break;
        }
    }
    return (ssize_t)got;
}

ssize_t stream_read(struct stream *s, void *data, size_t len) {
    return s->ssl ? read_tls(s, data, len) : read_plain(s, data, len);
}

static ssize_t write_plain(struct stream *s, const void *data, size_t len) {
    ssize_t n;

    do
        n = send(s->fd, data, len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return n;
    if (errno == EAGAIN)
        s->writable = false;
    return -errno;
}

static ssize_t write_tls(struct stream *s, const uint8_t *data, size_t len) {
    size_t done = 0;

    s->write_wants = UV_WRITABLE;
    while (done < len) {
        int r;

        ERR_clear_error();
        errno = 0;
        r = SSL_write(s->ssl, data + done, (int)MIN_OF(len - done, (size_t)STREAM_CHUNK));
        if (r <= 0) {
            r = tls_failure(s, r, &s->writable, &s->write_wants);
            return done ? (ssize_t)done : r ? r : -EPIPE;
        }
        done += (size_t)r;
    }
    return (ssize_t)done;
}

ssize_t stream_write(struct stream *s, const void *data, size_t len) {
    return s->ssl ? write_tls(s, data, len) : write_plain(s, data, len);
}

int stream_shutdown(struct stream *s) {
    if (s->ssl && !s->broken && !(SSL_get_shutdown(s->ssl) & SSL_SENT_SHUTDOWN) && SSL_is_init_finished(s->ssl)) {
        int r;

        ERR_clear_error();
        errno = 0;
        s->write_wants = UV_WRITABLE;
        r = SSL_shutdown(s->ssl);
        if (r < 0 && tls_failure(s, r, &s->writable, &s->write_wants) == -EAGAIN)
            return -EAGAIN;
    }
    return shutdown(s->fd, SHUT_WR) < 0 ? -errno : 0;
}

void stream_ready(struct stream *s, int events) {
    if (events & s->read_wants)
        s->readable = true;
    if (events & s->write_wants)
        s->writable = true;
}

int stream_events(const struct stream *s, bool reading, bool writing) {
    return (reading ? s->read_wants : 0) | (writing ? s->write_wants : 0);
}
