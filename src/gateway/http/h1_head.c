/* SPDX-License-Identifier: Apache-2.0 */
/* Reads heads of HTTP/1, twice. */
#include "gateway/http/h1_head.h"

#include <errno.h>
#include <llhttp.h>
#include <strings.h>

#include "base/str.h"

enum {
    LENGTH_DIGITS_MAX = 18, /* fits into 63 bits */
    IDLE_MAX = 16 * 1024    /* memory that a connection holds between requests */
};

static bool bad(struct httpx_refusal *why, const char *text) {
    return httpx_refuse(why, 400, POLICY_NOT_HTTP, text);
}

static int pause_there(llhttp_t *parser) {
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {.on_headers_complete = pause_there};

/* llhttp's reading of the head, before it was parsed here (which writes into it), compared with ours. */
struct h1_second {
    bool ok, other_method; /* the method is none that llhttp knows: it read POST in its place */
    int minor, status;
    const char *method;
    bool has_length, chunked;
    uint64_t length;
};

static bool h1_second_knows(const char *method, size_t len) {
#define METHOD_NAME(number, name, text) #text,
    static const char *const names[] = {HTTP_METHOD_MAP(METHOD_NAME)};
#undef METHOD_NAME

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strlen(names[i]) == len && memcmp(names[i], method, len) == 0)
            return true;
    return false;
}

static void h1_second_read(const struct buf *raw, bool request, struct h1_second *ret) {
    CLEANUP(buf_done) struct buf post = BUF_INIT(HTTPX_HEAD_MAX + 8);
    size_t method = request ? strcspn(buf_str(raw), " \r\n") : 0;
    llhttp_t p;

    *ret = (struct h1_second){.other_method = request && !h1_second_knows(buf_str(raw), method)};
    if (ret->other_method) {
        buf_adds(&post, "POST");
        buf_add(&post, raw->data + method, raw->len - method);
        if (!buf_ok(&post))
            return;
        raw = &post;
    }
    llhttp_init(&p, request ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
    ret->ok = llhttp_execute(&p, buf_str(raw), raw->len) == HPE_PAUSED;
    if (!ret->ok)
        return;
    ret->minor = p.http_major == 1 ? p.http_minor : -1;
    ret->status = p.status_code;
    ret->method = request ? llhttp_method_name((llhttp_method_t)p.method) : NULL;
    ret->has_length = p.flags & F_CONTENT_LENGTH;
    ret->length = ret->has_length ? p.content_length : 0;
    ret->chunked = p.flags & F_CHUNKED;
}

static bool h1_second_agrees(const struct h1_second *s, const struct h1_head *h, bool request) {
    if (!s->ok || s->minor != h->minor || s->has_length != h->has_length || s->length != h->length || s->chunked != h->chunked)
        return false;
    return request ? str_eq(s->method, s->other_method ? "POST" : h->method) : s->status == h->status;
}

void h1_head_init(struct h1_head *h) {
    *h = (struct h1_head){.raw = BUF_INIT(HTTPX_HEAD_MAX)};
}

/* A server that got a secret may have said it in words that no hook covers. */
static void zero_raw(struct buf *raw) {
    if (raw->len)
        explicit_bzero(raw->data, raw->len);
}

void h1_head_done(struct h1_head *h) {
    zero_raw(&h->raw);
    buf_done(&h->raw);
    http_head_done(&h->fields);
}

void h1_head_clear(struct h1_head *h) {
    struct buf raw = h->raw;
    struct http_head fields = h->fields;

    zero_raw(&raw);
    if (raw.cap > IDLE_MAX)
        buf_done(&raw);
    buf_clear(&raw);
    http_head_clear(&fields);
    *h = (struct h1_head){.raw = raw, .fields = fields};
}

static int give_up(struct httpx_refusal *why, int status, const char *text) {
    httpx_refuse(why, status, POLICY_NOT_HTTP, text);
    return -EPROTO;
}

int h1_head_take(struct h1_head *h, const char *p, size_t n, size_t *ret_used, struct httpx_refusal *why) {
    size_t pos = 0;
    bool whole = false;
    const char *lf;

    while (!whole && (lf = memchr(p + pos, '\n', n - pos))) {
        size_t at = (size_t)(lf - p), len = h->line + at + 1 - pos;
        char before = at ? p[at - 1] : h->raw.len ? h->raw.data[h->raw.len - 1] : 0;

        if (len < 2 || before != '\r')
            return give_up(why, 400, "A line ends with LF alone");
        if (at + 1 > HTTPX_HEAD_MAX)
            break;
        h->line = 0;
        pos = at + 1;
        whole = len == 2;
    }
    if (!whole) {
        h->line += n - pos;
        pos = n;
    }
    buf_add(&h->raw, p, pos);
    if (!buf_ok(&h->raw))
        return give_up(why, 431, "The head is larger than 64 KiB");
    *ret_used = pos;
    return whole;
}

/* The line at *p, without its end, with a NUL there; moves on. NULL: it has a CR in it. Every line is known to end with CRLF. */
static char *next_line(char **p, size_t *ret_len) {
    char *line = *p, *lf = strchr(line, '\n'), *cr = lf ? memchr(line, '\r', (size_t)(lf - line)) : NULL;

    if (!lf || cr != lf - 1)
        return NULL;
    *cr = 0;
    *p = lf + 1;
    *ret_len = (size_t)(cr - line);
    return line;
}

static bool parse_field(struct h1_head *h, char *line, size_t len, struct httpx_refusal *why) {
    char *colon = memchr(line, ':', len), *value, *end = line + len;
    int r;

    if (line[0] == ' ' || line[0] == '\t')
        return bad(why, "A header goes on in the next line (obs-fold)");
    if (!colon || !http_is_token(line, (size_t)(colon - line)))
        return bad(why, "A header's name has a byte that no name has, or a space before the colon");
    *colon = 0;
    value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = 0;
    if (!http_is_value(value, (size_t)(end - value)))
        return bad(why, "A header has a control byte in it");
    r = http_head_add_ref(&h->fields, line, (size_t)(colon - line), value, (size_t)(end - value));
    if (r < 0)
        return httpx_refuse(why, r == -ENOMEM ? 503 : 431, POLICY_NOT_HTTP, "There are more than 200 headers");
    return true;
}

static bool parse_fields(struct h1_head *h, char *p, struct httpx_refusal *why) {
    size_t len;

    for (;;) {
        char *line = next_line(&p, &len);

        if (!line)
            return bad(why, "A line has a CR in it");
        if (len == 0)
            return true;
        if (!parse_field(h, line, len, why))
            return false;
    }
}

static bool parse_length(const struct http_header *f, uint64_t *ret) {
    uint64_t n = 0;

    if (f->value_len == 0 || f->value_len > LENGTH_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < f->value_len; i++) {
        if (f->value[i] < '0' || f->value[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(f->value[i] - '0');
    }
    *ret = n;
    return true;
}

static bool read_framing(struct h1_head *h, struct httpx_refusal *why) {
    bool many = false;
    const struct http_header *length = http_head_one(&h->fields, HTTP_NAME_CONTENT_LENGTH, &many);
    const struct http_header *coding = http_head_one(&h->fields, HTTP_NAME_TRANSFER_ENCODING, &many);

    if (many)
        return bad(why, "Content-Length or Transfer-Encoding is there twice");
    if (length && coding)
        return bad(why, "There are both Content-Length and Transfer-Encoding");
    if (length && !parse_length(length, &h->length))
        return bad(why, "Content-Length is not one plain number");
    if (coding && strcasecmp(coding->value, "chunked") != 0)
        return httpx_refuse(why, 501, POLICY_NOT_HTTP, "Transfer-Encoding is not 'chunked'");
    if (coding && h->minor == 0)
        return bad(why, "HTTP/1.0 has no Transfer-Encoding");
    h->has_length = length != NULL;
    h->chunked = coding != NULL;
    return true;
}

static bool read_connection(struct h1_head *h, struct httpx_refusal *why) {
    bool many = false, upgrade = false;
    const struct http_header *to = http_head_one(&h->fields, HTTP_NAME_UPGRADE, &many);
    size_t bytes = 0;

    for (size_t i = 0; i < h->fields.len; i++) {
        const struct http_header *f = &h->fields.v[i];

        if (f->known != HTTP_NAME_CONNECTION)
            continue;
        bytes += f->value_len + 1;
        h->close |= http_list_has(f->value, "close");
        h->keep_alive |= http_list_has(f->value, "keep-alive");
        upgrade |= http_list_has(f->value, "upgrade");
    }
    if (bytes > H1_CONNECTION_MAX)
        return bad(why, "The Connection header is too long");
    h->websocket = to && !many && upgrade && strcasecmp(to->value, "websocket") == 0;
    many = false;
    h->expect = http_head_one(&h->fields, HTTP_NAME_EXPECT, &many) != NULL;
    return true;
}

/* "HTTP/1.1" */
static bool parse_version(const char *p, int *ret_minor) {
    if (memcmp(p, "HTTP/1.", 7) != 0 || (p[7] != '0' && p[7] != '1'))
        return false;
    *ret_minor = p[7] - '0';
    return true;
}

static bool parse_request_line(struct h1_head *h, char *line, size_t len, struct httpx_refusal *why) {
    char *space = memchr(line, ' ', len), *last;

    if (!space || !http_is_token(line, (size_t)(space - line)) || space - line > HTTPX_METHOD_MAX)
        return bad(why, "The first line has no method");
    last = memchr(space + 1, ' ', len - (size_t)(space + 1 - line));
    if (!last || line + len - last != 9 || !parse_version(last + 1, &h->minor))
        return bad(why, "The first line does not end with HTTP/1.1 or HTTP/1.0");
    *space = *last = 0;
    h->method = line;
    h->target = space + 1;
    h->target_len = (size_t)(last - h->target);
    for (size_t i = 0; i < h->target_len; i++)
        if ((uint8_t)h->target[i] <= 0x20 || (uint8_t)h->target[i] >= 0x7f)
            return bad(why, "The request's target has a byte that no target has");
    return true;
}

static bool parse_status_line(struct h1_head *h, char *line, size_t len, struct httpx_refusal *why) {
    if (len < 12 || !parse_version(line, &h->minor) || line[8] != ' ' || (len > 12 && line[12] != ' '))
        return bad(why, "The first line is not a status line");
    for (size_t i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9')
            return bad(why, "The status is not a number");
        h->status = h->status * 10 + (line[i] - '0');
    }
    if (h->status < 100 || h->status > 599)
        return bad(why, "There is no such status");
    h->reason = line + MIN_OF(len, (size_t)13);
    return http_is_value(h->reason, strlen(h->reason)) ? true : bad(why, "The first line has a control byte in it");
}

static bool parse_lines(struct h1_head *h, bool request, struct httpx_refusal *why) {
    struct h1_second second;
    char *p = h->raw.data;
    size_t len;
    char *line;

    if (memchr(h->raw.data, 0, h->raw.len))
        return bad(why, "The head has a NUL in it");
    h1_second_read(&h->raw, request, &second);
    line = next_line(&p, &len);
    if (!line)
        return bad(why, "The first line has a CR in it");
    if (!(request ? parse_request_line(h, line, len, why) : parse_status_line(h, line, len, why)) || !parse_fields(h, p, why) ||
        !read_framing(h, why) || !read_connection(h, why))
        return false;
    if (!h1_second_agrees(&second, h, request))
        return bad(why, "The head can be read in two ways");
    return true;
}

bool h1_head_parse_request(struct h1_head *h, struct httpx_refusal *why) {
    return parse_lines(h, true, why);
}

bool h1_head_parse_response(struct h1_head *h, struct httpx_refusal *why) {
    return parse_lines(h, false, why);
}

bool h1_head_parse_trailers(struct h1_head *h, struct httpx_refusal *why) {
    if (memchr(h->raw.data, 0, h->raw.len))
        return bad(why, "A trailer has a NUL in it");
    if (!parse_fields(h, h->raw.data, why))
        return false;
    http_head_strip_trailers(&h->fields);
    return true;
}
