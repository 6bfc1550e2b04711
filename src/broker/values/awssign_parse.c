/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the gate's canonical request apart and compares it with what was judged. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/hex.h"
#include "base/str.h"
#include "broker/values/awssign.h"

enum { HTTPS_PORT = 443, HASH_HEX = 64 };

static const char token_name[] = "x-amz-security-token";

struct lines {
    const char *p, *end;
};

/* Up to the next line break, or to the end, which is a line only once. */
static bool next_line(struct lines *l, struct broker_part *ret) {
    const char *stop;

    if (!l->p)
        return false;
    stop = memchr(l->p, '\n', (size_t)(l->end - l->p));
    *ret = (struct broker_part){l->p, (size_t)((stop ? stop : l->end) - l->p)};
    l->p = stop ? stop + 1 : NULL;
    return true;
}

static bool part_is(const struct broker_part *p, const char *word) {
    return p->len == strlen(word) && memcmp(p->p, word, p->len) == 0;
}

static int compare_parts(const struct broker_part *a, const struct broker_part *b) {
    int r = memcmp(a->p, b->p, MIN_OF(a->len, b->len));

    return r ? r : a->len < b->len ? -1 : a->len > b->len;
}

static bool is_text(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)text[i] < 0x20 && text[i] != '\n') || text[i] == 0x7f)
            return false;
    return true;
}

static bool name_ok(const struct broker_part *name) {
    for (size_t i = 0; i < name->len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.", name->p[i]))
            return false;
    return name->len > 0;
}

/* Takes the name out of NAMES, where it has to be next. */
static bool take_name(struct broker_part *names, const struct broker_part *name, bool first) {
    if (!first) {
        if (!names->len || names->p[0] != ';')
            return false;
        names->p++;
        names->len--;
    }
    if (names->len < name->len || memcmp(names->p, name->p, name->len) != 0)
        return false;
    names->p += name->len;
    names->len -= name->len;
    return true;
}

static int add_header(struct aws_request *q, const struct broker_part *line, struct broker_part *last) {
    const char *colon = memchr(line->p, ':', line->len);
    struct broker_part name, value;

    if (!colon)
        return -EBADMSG;
    name = (struct broker_part){line->p, (size_t)(colon - line->p)};
    value = (struct broker_part){colon + 1, line->len - name.len - 1};
    if (!name_ok(&name) || (last->p && compare_parts(last, &name) >= 0) || q->n_headers == AWSSIGN_HEADERS_MAX)
        return -EBADMSG;
    *last = name;
    if (part_is(&name, token_name))
        return 0;
    if (part_is(&name, "host"))
        q->host = value;
    if (part_is(&name, "x-amz-date"))
        q->date = value;
    q->headers[q->n_headers].name = name;
    q->headers[q->n_headers++].value = value;
    return 0;
}

static int take_headers(struct lines *l, struct aws_request *q, struct lines *ret_names) {
    struct broker_part line, last = {0};

    ret_names->p = l->p;
    while (next_line(l, &line)) {
        int r;

        if (line.len == 0)
            return 0;
        r = add_header(q, &line, &last);
        if (r < 0)
            return r;
        ret_names->end = line.p + line.len;
    }
    return -EBADMSG;
}

/* The lines once more, now compared with NAMES. */
static bool names_agree(struct lines headers, struct broker_part names) {
    struct broker_part line;
    bool first = true;

    while (next_line(&headers, &line)) {
        struct broker_part name = {line.p, (size_t)((const char *)memchr(line.p, ':', line.len) - line.p)};

        if (!take_name(&names, &name, first))
            return false;
        first = false;
    }
    return names.len == 0;
}

static bool hash_ok(const struct broker_part *h) {
    if (part_is(h, "UNSIGNED-PAYLOAD") || part_is(h, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"))
        return true;
    return h->len == HASH_HEX && hex_is_lower(h->p, h->len);
}

/* A signature for a query with X-Amz-Expires would be good for days, and for everyone who has the URL. */
static bool presigned(const struct broker_part *query) {
    static const char begin[] = "x-amz-";
    const char *p = query->p, *end = p + query->len;

    while (p < end) {
        const char *stop = memchr(p, '&', (size_t)(end - p));

        if ((size_t)(end - p) >= sizeof begin - 1 && strncasecmp(p, begin, sizeof begin - 1) == 0)
            return true;
        p = stop ? stop + 1 : end;
    }
    return false;
}

int awssign_parse(const char *text, size_t len, struct aws_request *ret) {
    struct lines l = {text, text + len}, headers = {0};
    struct broker_part names;
    struct aws_request q = {0};
    int r;

    if (!is_text(text, len) || !next_line(&l, &q.method) || !next_line(&l, &q.path) || !next_line(&l, &q.query))
        return -EBADMSG;
    r = take_headers(&l, &q, &headers);
    if (r < 0)
        return r;
    if (!headers.end || !next_line(&l, &names) || !next_line(&l, &q.hash) || l.p || !names_agree(headers, names) ||
        !hash_ok(&q.hash))
        return -EBADMSG;
    if (!q.host.p || q.date.len != AWSSIGN_DATE || presigned(&q.query))
        return -EBADMSG;
    *ret = q;
    return 0;
}

/* AWS itself takes what is up to fifteen minutes off; more would be a signature for later. */
static bool is_now(const struct broker_part *date) {
    struct tm tm = {0};
    char text[AWSSIGN_DATE + 1] = "";
    const char *end;
    time_t t;

    memcpy(text, date->p, AWSSIGN_DATE);
    end = strptime(text, "%Y%m%dT%H%M%SZ", &tm);
    if (!end || *end)
        return false;
    t = timegm(&tm);
    return llabs((long long)t - (long long)time(NULL)) <= AWSSIGN_SKEW_S;
}

static bool host_agrees(const struct broker_part *line, const struct broker_request *req) {
    struct host is, should;
    uint16_t port = 0;

    return host_parse_with_port(line->p, line->len, &is, &port, NULL) == 0 &&
           host_parse(req->host, strlen(req->host), &should, NULL) == 0 && host_eq(&is, &should) &&
           (port ? port : HTTPS_PORT) == req->port;
}

/* Upper case only, as AWS writes it. */
static int read_encoded(const char *p, size_t len) {
    return len > 2 && !islower((uint8_t)p[1]) && !islower((uint8_t)p[2]) ? hex_percent(p, len) : -1;
}

/* All services but s3 encode the path, which is encoded already, once more. */
static int undo_encoding(const struct broker_part *path, char *out, size_t *ret_len) {
    size_t n = 0;

    for (size_t i = 0; i < path->len; i++) {
        int byte = path->p[i] == '%' ? read_encoded(path->p + i, path->len - i) : (uint8_t)path->p[i];

        if (byte < 0)
            return -EBADMSG;
        i += path->p[i] == '%' ? 2 : 0;
        out[n++] = (char)byte;
    }
    *ret_len = n;
    return 0;
}

int awssign_path(const struct credential *c, const struct broker_request *req, const char *text, char out[static BROKER_DATA_MAX],
                 size_t *ret_len) {
    struct aws_request q;
    int r = awssign_parse(text, req->len, &q);

    if (r < 0)
        return r;
    if (!part_is(&q.method, req->method) || !host_agrees(&q.host, req) || !is_now(&q.date))
        return -EACCES;
    if (!str_eq(c->service, "s3"))
        return undo_encoding(&q.path, out, ret_len);
    memcpy(out, q.path.p, q.path.len);
    *ret_len = q.path.len;
    return 0;
}
