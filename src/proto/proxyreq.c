/* SPDX-License-Identifier: Apache-2.0 */
/* Reads requests to an HTTP proxy. */
#include "proto/proxyreq.h"

#include <strings.h>

/* Bytes that came; not terminated. */
struct piece {
    const char *p;
    size_t len;
};

static const char token_chars[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

static enum proxyreq_result bad(struct proxyreq *q, const char *why) {
    *q = (struct proxyreq){0};
    snprintf(q->why, sizeof q->why, "%s", why);
    return PROXYREQ_BAD;
}

/* Where the head and its first line end (both with their line ends); 0: not yet. NULL, or what is wrong with it. */
static const char *find_end(const uint8_t *data, size_t len, size_t *ret_line, size_t *ret_head) {
    size_t begin = 0; /* of the line */

    *ret_line = *ret_head = 0;
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\r' && i + 1 < len && data[i + 1] != '\n')
            return "a carriage return stands alone";
        if (data[i] == '\n' && (i == 0 || data[i - 1] != '\r'))
            return "a line ends without carriage return";
        if ((data[i] < 0x20 && !strchr("\r\n\t", data[i])) || data[i] == 0x7f || data[i] == 0)
            return "the request has a control character";
        if (*ret_line == 0 && (data[i] == '\t' || data[i] >= 0x80))
            return "the request line has a character that does not belong there";
        if (data[i] != '\n')
            continue;
        if (*ret_line == 0)
            *ret_line = i + 1;
        if (i - begin == 1) {
            *ret_head = i + 1;
            return NULL;
        }
        begin = i + 1;
    }
    return NULL;
}

static bool is_token(struct piece s) {
    for (size_t i = 0; i < s.len; i++)
        if (!s.p[i] || !strchr(token_chars, s.p[i]))
            return false;
    return s.len > 0;
}

static bool piece_is(struct piece s, const char *word) {
    return s.len == strlen(word) && memcmp(s.p, word, s.len) == 0;
}

/* METHOD SP TARGET SP VERSION */
static const char *split(struct piece line, struct piece *method, struct piece *target) {
    const char *first = memchr(line.p, ' ', line.len), *last = memrchr(line.p, ' ', line.len);
    struct piece version;

    if (!first || first == last)
        return "the request line does not have three parts";
    *method = (struct piece){line.p, (size_t)(first - line.p)};
    *target = (struct piece){first + 1, (size_t)(last - first - 1)};
    version = (struct piece){last + 1, line.len - (size_t)(last + 1 - line.p)};
    if (!is_token(*method))
        return "the method is no word";
    if (target->len == 0 || memchr(target->p, ' ', target->len))
        return "the parts of the request line are not separated by one space";
    if (!piece_is(version, "HTTP/1.1") && !piece_is(version, "HTTP/1.0"))
        return "the version is not HTTP/1.0 or HTTP/1.1";
    return NULL;
}

/* 0: none there. -1: bad. */
static int port_of(struct piece text) {
    int port = 0;

    if (text.len > 5)
        return -1;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return -1;
        port = port * 10 + (text.p[i] - '0');
    }
    return port > 65535 || (text.len && port == 0) ? -1 : port;
}

/* Only its shape; whether the host is one, host_parse() knows. */
static const char *read_authority(struct piece a, bool needs_port, struct proxyreq *q) {
    const char *bracket = a.len && a.p[0] == '[' ? memchr(a.p, ']', a.len) : NULL;
    const char *rest = bracket ? bracket + 1 : memchr(a.p, ':', a.len);
    size_t host_len = rest ? (size_t)(rest - a.p) : a.len;
    int port = rest && host_len < a.len ? port_of((struct piece){rest + 1, a.len - host_len - 1}) : 0;

    for (size_t i = 0; i < a.len; i++)
        if (strchr("@/\\?#", a.p[i]))
            return a.p[i] == '@' ? "a user name in the address is not accepted" : "the address is not host:port";
    if (host_len == 0 || a.len > PROXYREQ_HOST_MAX - strlen(":80"))
        return "the address has no host, or is too long";
    if (port < 0 || (host_len < a.len && (*rest != ':' || port == 0)))
        return "the port is not a number from 1 to 65535";
    if (needs_port && port == 0)
        return "CONNECT needs host:port";
    snprintf(q->authority, sizeof q->authority, "%.*s%s", (int)a.len, a.p, port == 0 ? ":80" : "");
    return NULL;
}

static const char *read_target(struct piece method, struct piece target, struct proxyreq *q) {
    static const char scheme[] = "http://", secure[] = "https://";
    size_t n = 0;

    q->connect = piece_is(method, "CONNECT");
    if (q->connect)
        return read_authority(target, true, q);
    if (target.len >= strlen(secure) && strncasecmp(target.p, secure, strlen(secure)) == 0)
        return "https needs CONNECT";
    if (target.len < strlen(scheme) || strncasecmp(target.p, scheme, strlen(scheme)) != 0)
        return "this is a proxy: the request needs a whole URL, http://host/path";
    if (memchr(target.p, '#', target.len))
        return "a fragment does not belong into a request";
    target.p += strlen(scheme);
    target.len -= strlen(scheme);
    while (n < target.len && !strchr("/?", target.p[n]))
        n++;
    return read_authority((struct piece){target.p, n}, false, q);
}

enum proxyreq_result proxyreq_parse(const uint8_t *data, size_t len, struct proxyreq *ret) {
    size_t line_len, head_len, seen = MIN_OF(len, (size_t)PROXYREQ_HEAD_MAX);
    const char *why = find_end(data, seen, &line_len, &head_len);
    struct piece method, target;
    struct proxyreq q = {0};

    if (!why && line_len)
        why = split((struct piece){(const char *)data, line_len - 2}, &method, &target);
    if (!why && line_len)
        why = read_target(method, target, &q);
    if (why)
        return bad(ret, why);
    if (head_len == 0)
        return len >= PROXYREQ_HEAD_MAX ? bad(ret, "the head of the request is too long") : PROXYREQ_MORE;
    q.head_len = head_len;
    *ret = q;
    return PROXYREQ_OK;
}
