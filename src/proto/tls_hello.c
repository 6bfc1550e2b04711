/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a ClientHello. */
#include "proto/tls_hello.h"

enum { RECORD_HEAD = 5, RECORD_MAX = 16384, RECORD_HANDSHAKE = 22, RECORD_ALERT = 21, MESSAGE_HEAD = 4, MESSAGE_HELLO = 1 };
enum { RANDOM_LEN = 32, SESSION_MAX = 32, NAME_TYPE_HOST = 0, ALERT_FATAL = 2 };
enum { EXT_SERVER_NAME = 0, EXT_ALPN = 16, EXT_ECH = 0xfe0d, EXT_ESNI = 0xffce /* what ECH was called in drafts */ };

/* What is left to read. */
struct hello_span {
    const uint8_t *p;
    size_t left;
};

static bool take_span(struct hello_span *s, size_t len, struct hello_span *ret) {
    if (s->left < len)
        return false;
    *ret = (struct hello_span){s->p, len};
    s->p += len;
    s->left -= len;
    return true;
}

static bool take_number(struct hello_span *s, size_t bytes, size_t *ret) {
    struct hello_span n;
    size_t value = 0;

    if (!take_span(s, bytes, &n))
        return false;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | n.p[i];
    *ret = value;
    return true;
}

/* A vector with its length in front, as TLS has them everywhere. */
static bool take_vector(struct hello_span *s, size_t length_bytes, struct hello_span *ret) {
    size_t len;

    return take_number(s, length_bytes, &len) && take_span(s, len, ret);
}

/* Exactly one name of the kind that exists. Several would be several readings: who answers may take another one than we do. */
static bool read_sni(struct hello_span ext, struct tls_hello *h) {
    struct hello_span list, name;
    size_t type;

    if (h->has_sni || !take_vector(&ext, 2, &list) || ext.left)
        return false;
    if (!take_number(&list, 1, &type) || type != NAME_TYPE_HOST || !take_vector(&list, 2, &name) || list.left)
        return false;
    if (name.left == 0 || name.left > TLS_SNI_MAX || memchr(name.p, 0, name.left))
        return false;
    memcpy(h->sni, name.p, name.left);
    h->sni[name.left] = 0;
    h->sni_len = name.left;
    h->has_sni = true;
    return true;
}

static bool read_alpn(struct hello_span ext, struct tls_hello *h) {
    struct hello_span list, name;

    if (h->has_alpn || !take_vector(&ext, 2, &list) || ext.left || !list.left)
        return false;
    h->has_alpn = true;
    while (list.left) {
        if (!take_vector(&list, 1, &name) || name.left == 0)
            return false;
        /* One with a NUL would look like another, shorter one to us. */
        if (h->n_alpn == TLS_ALPN_MAX || name.left > TLS_ALPN_NAME_MAX || memchr(name.p, 0, name.left))
            continue;
        memcpy(h->alpn[h->n_alpn], name.p, name.left);
        h->alpn[h->n_alpn++][name.left] = 0;
    }
    return true;
}

static bool read_ech(struct hello_span ext UNUSED, struct tls_hello *h) {
    h->has_ech = true;
    return true;
}

static const struct {
    size_t type;
    bool (*read)(struct hello_span ext, struct tls_hello *h);
} extensions[] = {{EXT_SERVER_NAME, read_sni}, {EXT_ALPN, read_alpn}, {EXT_ECH, read_ech}, {EXT_ESNI, read_ech}};

static bool read_extension(size_t type, struct hello_span ext, struct tls_hello *h) {
    for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
        if (extensions[i].type == type)
            return extensions[i].read(ext, h);
    return true;
}

static bool read_extensions(struct hello_span body, struct tls_hello *h) {
    struct hello_span all, ext;
    size_t type;

    if (!body.left) /* TLS 1.0 clients may have none */
        return true;
    if (!take_vector(&body, 2, &all) || body.left)
        return false;
    while (all.left)
        if (!take_number(&all, 2, &type) || !take_vector(&all, 2, &ext) || !read_extension(type, ext, h))
            return false;
    return true;
}

static bool read_body(struct hello_span body, struct tls_hello *h) {
    struct hello_span random, session, suites, compressions;
    size_t version;

    if (!take_number(&body, 2, &version) || version < 0x0301 || version > 0x0304 || !take_span(&body, RANDOM_LEN, &random))
        return false;
    if (!take_vector(&body, 1, &session) || session.left > SESSION_MAX)
        return false;
    if (!take_vector(&body, 2, &suites) || suites.left < 2 || suites.left % 2)
        return false;
    if (!take_vector(&body, 1, &compressions) || !compressions.left)
        return false;
    return read_extensions(body, h);
}

/* The message, put together from its records. */
struct hello_message {
    size_t len, want; /* want: 0 until its own head is there */
    uint8_t bytes[TLS_HELLO_MAX];
};

/* False: no ClientHello. */
static bool message_add(struct hello_message *m, struct hello_span part) {
    if (part.left > sizeof m->bytes - m->len)
        return false;
    memcpy(m->bytes + m->len, part.p, part.left);
    m->len += part.left;
    if (m->len && m->bytes[0] != MESSAGE_HELLO)
        return false;
    if (m->len >= MESSAGE_HEAD)
        m->want = MESSAGE_HEAD + ((size_t)m->bytes[1] << 16 | (size_t)m->bytes[2] << 8 | m->bytes[3]);
    return m->want <= sizeof m->bytes;
}

/* One record, or the part of it that is there; takes all bytes or decides. */
static enum tls_hello_result read_record(struct hello_span *in, struct hello_message *m) {
    struct hello_span head = {0}, part = {0};
    size_t len;

    if (!tls_hello_could_be(in->p, MIN_OF(in->left, (size_t)3)))
        return TLS_HELLO_NOT_TLS;
    if (!take_span(in, RECORD_HEAD, &head)) {
        in->left = 0;
        return TLS_HELLO_MORE;
    }
    len = (size_t)head.p[3] << 8 | head.p[4];
    if (len == 0 || len > RECORD_MAX)
        return TLS_HELLO_NOT_TLS;
    take_span(in, MIN_OF(in->left, len), &part);
    if (!message_add(m, part))
        return TLS_HELLO_NOT_TLS;
    if (m->want && m->len - part.left + len > m->want) /* something else after it in the same record */
        return TLS_HELLO_NOT_TLS;
    return part.left < len || m->len < MESSAGE_HEAD || m->len < m->want ? TLS_HELLO_MORE : TLS_HELLO_OK;
}

enum tls_hello_result tls_hello_parse(const uint8_t *data, size_t len, struct tls_hello *ret) {
    struct hello_span in = {data, MIN_OF(len, (size_t)TLS_HELLO_MAX)};
    enum tls_hello_result r = TLS_HELLO_MORE;
    struct tls_hello h = {0};
    struct hello_message m;

    m.len = m.want = 0;
    while (in.left && r == TLS_HELLO_MORE)
        r = read_record(&in, &m);
    if (r == TLS_HELLO_MORE && len >= TLS_HELLO_MAX)
        return TLS_HELLO_NOT_TLS;
    if (r != TLS_HELLO_OK)
        return r;
    if (!read_body((struct hello_span){m.bytes + MESSAGE_HEAD, m.want - MESSAGE_HEAD}, &h))
        return TLS_HELLO_NOT_TLS;
    h.len = (size_t)(in.p - data);
    *ret = h;
    return TLS_HELLO_OK;
}

bool tls_hello_could_be(const uint8_t *data, size_t len) {
    if (len > 0 && data[0] != RECORD_HANDSHAKE)
        return false;
    if (len > 1 && data[1] != 3)
        return false;
    if (len > 2 && data[2] > 4) /* the record's version is to be ignored, but never was another one */
        return false;
    return len <= RECORD_HEAD || data[RECORD_HEAD] == MESSAGE_HELLO;
}

void tls_alert_write(uint8_t description, uint8_t out[static TLS_ALERT_LEN]) {
    const uint8_t alert[TLS_ALERT_LEN] = {RECORD_ALERT, 3, 3, 0, 2, ALERT_FATAL, description};

    memcpy(out, alert, sizeof alert);
}
