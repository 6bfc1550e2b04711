/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/secret/sigv4.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/str.h"

enum { HASH_HEX = 64, PORT_TLS = 443, NAME_MAX_LEN = 128 };

#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SIGNED_HEADERS "SignedHeaders="

static bool is_unreserved(uint8_t c) {
    return isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~';
}

static void add_encoded(struct buf *b, uint8_t c) {
    if (is_unreserved(c))
        buf_addc(b, (char)c);
    else
        buf_addf(b, "%%%02X", c);
}

/* twice: what is encoded already is encoded again. */
static void add_path(struct buf *b, const char *path, bool twice) {
    for (size_t len = strlen(path); len; path++, len--)
        if (*path == '/' || (!twice && hex_percent(path, len) >= 0))
            buf_addc(b, *path);
        else
            add_encoded(b, (uint8_t)*path);
}

/* Decoded, then encoded as AWS does it. */
static void add_query_text(struct buf *b, const char *p, size_t len) {
    for (size_t i = 0; i < len; i++) {
        int byte = hex_percent(p + i, len - i);

        add_encoded(b, byte >= 0 ? (uint8_t)byte : (uint8_t)p[i]);
        i += byte >= 0 ? 2 : 0;
    }
}

/* "key=value" with each of them ended by a NUL, so that a key sorts before a longer one that begins with it. */
static int compare_params(const void *a, const void *b) {
    const char *const *x = a, *const *y = b;
    int r = strcmp(*x, *y);

    return r ? r : strcmp(*x + strlen(*x) + 1, *y + strlen(*y) + 1);
}

static size_t split_query(const char *query, struct buf *text, size_t starts[static SIGV4_PARAMS_MAX]) {
    size_t n = 0;

    for (query += *query == '?'; *query; query += *query == '&') {
        size_t len = strcspn(query, "&"), key = strcspn(query, "=&");

        if (n == SIGV4_PARAMS_MAX)
            return SIGV4_PARAMS_MAX + 1;
        if (len) {
            starts[n++] = text->len;
            add_query_text(text, query, key);
            buf_addc(text, 0);
            if (key < len)
                add_query_text(text, query + key + 1, len - key - 1);
            buf_addc(text, 0);
        }
        query += len;
    }
    return n;
}

static int add_query(struct buf *b, const char *query, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(4 * HTTPX_URI_MAX);
    size_t starts[SIGV4_PARAMS_MAX], n = split_query(query, &text, starts);
    const char *params[SIGV4_PARAMS_MAX];

    if (n > SIGV4_PARAMS_MAX || !buf_ok(&text))
        return err_set(err, -EINVAL, "The query has more than %d parameters", SIGV4_PARAMS_MAX);
    for (size_t i = 0; i < n; i++)
        params[i] = text.data + starts[i];
    qsort(params, n, sizeof *params, compare_params);
    for (size_t i = 0; i < n; i++)
        buf_addf(b, "%s%s=%s", i ? "&" : "", params[i], params[i] + strlen(params[i]) + 1);
    return 0;
}

/* Without spaces around it, and one where there are several. */
static void add_trimmed(struct buf *b, const char *p) {
    bool space = false, any = false;

    for (; *p; p++) {
        if (*p == ' ' || *p == '\t') {
            space = any;
            continue;
        }
        if (space)
            buf_addc(b, ' ');
        space = false;
        any = true;
        buf_addc(b, *p);
    }
}

static bool add_fields(struct buf *b, const struct http_head *head, const char *name) {
    bool any = false;

    for (size_t i = 0; i < head->len; i++)
        if (strcasecmp(head->v[i].name, name) == 0) {
            if (any)
                buf_addc(b, ',');
            add_trimmed(b, head->v[i].value);
            any = true;
        }
    return any;
}

static void add_host(struct buf *b, const struct sigv4_request *r) {
    bool v6 = r->host->kind == HOST_IPV6;

    buf_addf(b, "%s%s%s", v6 ? "[" : "", r->host->text, v6 ? "]" : "");
    if (r->port != PORT_TLS)
        buf_addf(b, ":%u", r->port);
}

static int add_header(struct buf *b, const struct sigv4_request *r, const char *name, struct err *err) {
    buf_addf(b, "%s:", name);
    if (str_eq(name, "host"))
        add_host(b, r);
    else if (str_eq(name, "content-length") && r->http->body_len != UINT64_MAX) /* written anew, so not among the fields */
        buf_addf(b, "%llu", (unsigned long long)r->http->body_len);
    else if (!add_fields(b, r->http->head, name))
        return err_set(err, -EINVAL, "A signed header is not there, or cannot go on: %s", name);
    buf_addc(b, '\n');
    return 0;
}

static bool name_ok(const char *name, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!islower((uint8_t)name[i]) && !isdigit((uint8_t)name[i]) && !strchr("-_.", name[i]))
            return false;
    return len > 0 && len <= NAME_MAX_LEN;
}

/* The broker puts its own token in; the others are about one connection, and are written anew or not at all. */
static bool is_left_out(const char *name) {
    static const char *const names[] = {"x-amz-security-token", "transfer-encoding", "connection", "expect", "te", "trailer"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_eq(name, names[i]))
            return true;
    return false;
}

/* The names of the client's signature. */
static size_t signed_names(const char *authorization, char names[static SIGV4_HEADERS_MAX][NAME_MAX_LEN + 1]) {
    const char *at = authorization ? strstr(authorization, SIGNED_HEADERS) : NULL;
    size_t n = 0;

    for (at = at ? at + strlen(SIGNED_HEADERS) : ""; *at && *at != ',' && *at != ' '; at += *at == ';') {
        size_t len = strcspn(at, ";, ");

        if (!name_ok(at, len) || n == SIGV4_HEADERS_MAX)
            return 0;
        snprintf(names[n], sizeof names[n], "%.*s", (int)len, at);
        n += !is_left_out(names[n]);
        at += len;
    }
    return n;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(a, b);
}

static int add_headers(struct buf *b, const struct sigv4_request *r, struct err *err) {
    char names[SIGV4_HEADERS_MAX][NAME_MAX_LEN + 1];
    size_t n = signed_names(http_head_get(r->http->head, "authorization"), names);
    bool host = false, date = false;
    int e = 0;

    if (!n)
        return err_set(err, -EINVAL, "The client's signature does not say which headers it signs");
    qsort(names, n, sizeof names[0], compare_names);
    for (size_t i = 0; e == 0 && i < n; i++) {
        host |= str_eq(names[i], "host");
        date |= str_eq(names[i], "x-amz-date");
        e = i && str_eq(names[i], names[i - 1]) ? err_set(err, -EINVAL, "The client's signature names a header twice")
                                                : add_header(b, r, names[i], err);
    }
    if (e == 0 && (!host || !date))
        e = err_set(err, -EINVAL, "The client's signature is not about the headers host and x-amz-date");
    buf_addc(b, '\n');
    for (size_t i = 0; i < n; i++)
        buf_addf(b, "%s%s", i ? ";" : "", names[i]);
    buf_addc(b, '\n');
    return e;
}

static bool hash_ok(const char *hash) {
    for (size_t i = 0; i < HASH_HEX; i++)
        if (!isdigit((uint8_t)hash[i]) && !(hash[i] >= 'a' && hash[i] <= 'f'))
            return false;
    return hash[HASH_HEX] == 0;
}

/* With a trailer: what SDKs do over TLS by themselves; a checksum follows the body, but the signature is not about it. */
static bool is_unsigned(const char *hash) {
    return str_eq(hash, "UNSIGNED-PAYLOAD") || str_eq(hash, "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
}

static int add_payload(struct buf *b, const struct sigv4_request *r, bool *ret_needs_hash, struct err *err) {
    const char *hash = http_head_get(r->http->head, "x-amz-content-sha256");

    *ret_needs_hash = !hash && r->http->has_body;
    if (!hash) {
        buf_adds(b, r->http->has_body ? "" : EMPTY_HASH);
        return 0;
    }
    if (!is_unsigned(hash) && str_starts(hash, "STREAMING-"))
        return err_set(err, -EINVAL,
                       "A body that is signed chunk by chunk (aws-chunked) cannot be signed anew: turn it off in the client");
    if (!is_unsigned(hash) && !hash_ok(hash))
        return err_set(err, -EINVAL, "The header x-amz-content-sha256 is not a hash");
    buf_adds(b, hash);
    return 0;
}

int sigv4_canonical(const struct sigv4_request *r, struct buf *out, bool *ret_needs_hash, struct err *err) {
    int e;

    buf_addf(out, "%s\n", r->http->method);
    add_path(out, r->http->path.text, !str_eq(r->service, "s3"));
    buf_addc(out, '\n');
    e = add_query(out, r->http->query, err);
    buf_addc(out, '\n');
    e = e < 0 ? e : add_headers(out, r, err);
    e = e < 0 ? e : add_payload(out, r, ret_needs_hash, err);
    return e < 0 || buf_ok(out) ? e : err_set(err, -EINVAL, "The request is too large to be signed");
}
