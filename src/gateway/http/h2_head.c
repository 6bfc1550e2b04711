/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "gateway/http/h2_priv.h"

static const char *const pseudo_names[H2_PSEUDOS] = {
    [H2_METHOD] = ":method", [H2_SCHEME] = ":scheme", [H2_AUTHORITY] = ":authority", [H2_PATH] = ":path", [H2_STATUS] = ":status",
};

enum { FIELD_COST = 32 }; /* RFC 9113, 6.5.2 */

void h2_head_begin(struct h2_pipe *p, bool trailers) {
    p->in_trailers = trailers;
    if (trailers)
        return;
    http_head_clear(&p->head); /* an interim answer may have stood here */
    memset(p->pseudo, 0, sizeof p->pseudo);
    p->head_bytes = 0;
}

static void add_pseudo(struct h2_pipe *p, const char *name, size_t name_len, const char *value, size_t value_len) {
    for (size_t i = 0; i < H2_PSEUDOS; i++) {
        if (strlen(pseudo_names[i]) != name_len || memcmp(pseudo_names[i], name, name_len) != 0)
            continue;
        if (http_head_add(&p->head, name, name_len, value, value_len) < 0)
            p->too_large = true;
        else
            p->pseudo[i] = p->head.v[--p->head.len].value; /* only its memory is wanted */
        return;
    }
    p->too_large = true; /* :protocol, which nghttp2 refuses before */
}

void h2_head_add(struct h2_pipe *p, const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len) {
    struct http_head *head = p->in_trailers ? &p->trailers : &p->head;

    p->head_bytes += name_len + value_len + FIELD_COST;
    if (p->head_bytes > HTTPX_HEAD_MAX)
        p->too_large = true;
    if (p->too_large)
        return;
    if (name_len && name[0] == ':')
        add_pseudo(p, (const char *)name, name_len, (const char *)value, value_len);
    else if (http_head_add(head, (const char *)name, name_len, (const char *)value, value_len) < 0)
        p->too_large = true;
}

/* A secret is never in a table that both ends keep for the connection, nor copied: h2_request_forget() has the only one. */
enum { SECRET = NGHTTP2_NV_FLAG_NO_INDEX | NGHTTP2_NV_FLAG_NO_COPY_VALUE };

static void add(struct h2_fields *f, char *name, size_t name_len, char *value, size_t value_len, uint8_t flags) {
    if (f->len == ARRAY_LEN(f->v))
        BUG("more fields than a head can have");
    f->v[f->len++] = (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, name_len, value_len, flags};
}

void h2_fields_add(struct h2_fields *f, const char *name, const char *value) {
    add(f, (char *)name, strlen(name), (char *)value, strlen(value), NGHTTP2_NV_FLAG_NONE);
}

void h2_fields_add_secret(struct h2_fields *f, const char *name, const char *value) {
    add(f, (char *)name, strlen(name), (char *)value, strlen(value), SECRET);
}

static bool goes_on(const struct http_header *f) {
    switch ((enum http_name)f->known) {
    case HTTP_NAME_OTHER:
    case HTTP_NAME_ACCEPT:
    case HTTP_NAME_EXPECT:
    case HTTP_NAME_CONTENT_LENGTH:
    case HTTP_NAME_TE: /* "trailers", or nghttp2 had refused it: gRPC insists on it */
        return true;
    case HTTP_NAME_HOST: /* is in :authority */
    case HTTP_NAME_CONNECTION:
    case HTTP_NAME_HTTP2_SETTINGS:
    case HTTP_NAME_KEEP_ALIVE:
    case HTTP_NAME_PROXY_AUTHENTICATE:
    case HTTP_NAME_PROXY_AUTHORIZATION:
    case HTTP_NAME_PROXY_CONNECTION:
    case HTTP_NAME_TRANSFER_ENCODING:
    case HTTP_NAME_UPGRADE:
    case HTTP_NAMES:
        return false;
    }
    return false;
}

void h2_fields_add_head(struct h2_fields *f, const struct http_head *head) {
    for (size_t i = 0; i < head->len && f->len < ARRAY_LEN(f->v); i++) {
        const struct http_header *v = &head->v[i];

        if (goes_on(v))
            add(f, v->name, v->name_len, v->value, v->value_len, v->secret ? SECRET : NGHTTP2_NV_FLAG_NONE);
    }
}
