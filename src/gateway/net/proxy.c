/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/net/proxy.h"

#include <errno.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/str.h"

enum { PROXY_PORT_DEFAULT = 80, NO_PROXY_ENTRY_MAX = 300 };

/* user:password of a URL, with its %XX read. */
static int read_auth(const char *text, size_t len, char out[static PROXY_AUTH_MAX]) {
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        int byte = hex_percent(text + i, len - i);
        char c = byte >= 0 ? (char)byte : text[i];

        i += byte >= 0 ? 2 : 0;
        if (c < 0x20 || c == 0x7f || n + 1 >= PROXY_AUTH_MAX)
            return -EINVAL;
        out[n++] = c;
    }
    out[n] = 0;
    return 0;
}

/* "http://user:password@host:port/"; the scheme may be missing. Messages do not repeat it: it may hold a password. */
static int read_url(const char *url, struct proxy *ret, struct err *err) {
    const char *scheme = strstr(url, "://"), *at = scheme ? scheme + 3 : url, *sign;
    size_t len = strcspn(at, "/?#");

    if (scheme && !(scheme - url == 4 && strncasecmp(url, "http", 4) == 0))
        return err_set(err, -EINVAL, "the host's proxy setting has a scheme other than http://, which the gate cannot use");
    *ret = (struct proxy){0};
    sign = memrchr(at, '@', len);
    if (sign) {
        if (read_auth(at, (size_t)(sign - at), ret->auth) < 0)
            return err_set(err, -EINVAL, "the host's proxy setting has credentials that cannot be sent");
        len -= (size_t)(sign + 1 - at);
        at = sign + 1;
    }
    if (host_parse_with_port(at, len, &ret->host, &ret->port, err) < 0)
        return err_ctx(err, -EINVAL, "the host's proxy setting");
    if (!ret->port)
        ret->port = PROXY_PORT_DEFAULT;
    return 0;
}

static bool name_below(const struct host *host, const char *suffix, size_t len) {
    if (len && suffix[0] == '.') {
        suffix++;
        len--;
    }
    if (!len || host->len < len || strncasecmp(host->text + host->len - len, suffix, len) != 0)
        return false;
    return host->len == len || host->text[host->len - len - 1] == '.';
}

static bool entry_matches(const char *entry, size_t len, const struct host *host) {
    struct cidr cidr;

    if (len == 1 && entry[0] == '*')
        return true;
    if (host->kind == HOST_NAME)
        return name_below(host, entry, len);
    return cidr_parse(entry, len, &cidr, NULL) == 0 && cidr_has(&cidr, &host->addr);
}

static bool is_excepted(const char *no_proxy, const struct host *host) {
    for (const char *at = no_proxy; *at;) {
        size_t len = strcspn(at, ", \t");

        if (len && len < NO_PROXY_ENTRY_MAX && entry_matches(at, len, host))
            return true;
        at += len;
        at += strspn(at, ", \t");
    }
    return false;
}

/* Names of this machine by definition. A proxy would take them for itself, and it may run here. */
static bool is_home(const struct host *host) {
    return name_below(host, "localhost", strlen("localhost")) || name_below(host, "bawn.internal", strlen("bawn.internal"));
}

int proxy_choose(const struct gate_config *c, const struct host *host, bool plain_http, struct proxy *ret, struct err *err) {
    const char *url = plain_http ? c->http_proxy : c->https_proxy;
    int r;

    if (!url || !*url || is_home(host) || is_excepted(c->no_proxy ? c->no_proxy : "", host))
        return 0;
    r = read_url(url, ret, err);
    return r < 0 ? r : 1;
}

void proxy_request(const struct proxy *p, const struct host *host, uint16_t port, struct buf *b) {
    const char *open = host->kind == HOST_IPV6 ? "[" : "", *close = host->kind == HOST_IPV6 ? "]" : "";

    buf_addf(b, "CONNECT %s%s%s:%u HTTP/1.1\r\n", open, host->text, close, port);
    buf_addf(b, "Host: %s%s%s:%u\r\n", open, host->text, close, port);
    if (p->auth[0]) {
        buf_adds(b, "Proxy-Authorization: Basic ");
        base64_add(b, p->auth, strlen(p->auth));
        buf_adds(b, "\r\n");
    }
    buf_adds(b, "\r\n");
}

long proxy_answer(const uint8_t *data, size_t len, int *ret_status) {
    const uint8_t *end = memmem(data, len, "\r\n\r\n", 4);
    static const char start[] = "HTTP/1.";

    *ret_status = 0;
    if (memcmp(data, start, MIN_OF(len, sizeof start - 1)) != 0)
        return -EPROTO;
    if (!end)
        return len >= PROXY_ANSWER_MAX ? -EPROTO : 0;
    if (end - data < 12 || data[8] != ' ')
        return -EPROTO;
    for (int i = 9; i < 12; i++) {
        if (data[i] < '0' || data[i] > '9')
            return -EPROTO;
        *ret_status = *ret_status * 10 + (data[i] - '0');
    }
    return *ret_status == 200 ? end + 4 - data : -EACCES;
}
