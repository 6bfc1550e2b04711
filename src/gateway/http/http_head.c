/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/http/http_head.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"

enum { FIELDS_FIRST = 32, BLOCK_MIN = 4096 - sizeof(void *) * 4 };

struct http_block {
    struct http_block *next;
    size_t used, cap;
    char bytes[];
};

enum { HOP = 1, FRAMING = 2 };

#define NAME(text, flags) \
    { text, sizeof(text) - 1, flags }

static const struct {
    const char *text;
    size_t len;
    unsigned flags;
} names[HTTP_NAMES] = {
    [HTTP_NAME_OTHER] = NAME("", 0),
    [HTTP_NAME_ACCEPT] = NAME("accept", 0),
    [HTTP_NAME_CONNECTION] = NAME("connection", HOP),
    [HTTP_NAME_CONTENT_LENGTH] = NAME("content-length", FRAMING),
    [HTTP_NAME_EXPECT] = NAME("expect", 0),
    [HTTP_NAME_HOST] = NAME("host", FRAMING),
    [HTTP_NAME_HTTP2_SETTINGS] = NAME("http2-settings", HOP),
    [HTTP_NAME_KEEP_ALIVE] = NAME("keep-alive", HOP),
    [HTTP_NAME_PROXY_AUTHENTICATE] = NAME("proxy-authenticate", HOP),
    [HTTP_NAME_PROXY_AUTHORIZATION] = NAME("proxy-authorization", HOP),
    [HTTP_NAME_PROXY_CONNECTION] = NAME("proxy-connection", HOP),
    [HTTP_NAME_TE] = NAME("te", HOP),
    [HTTP_NAME_TRANSFER_ENCODING] = NAME("transfer-encoding", FRAMING | HOP),
    [HTTP_NAME_UPGRADE] = NAME("upgrade", HOP),
};

/* RFC 9110, 6.5.1: a server that puts trailers among the headers would take these for the request that nobody judged. */
static const char *const not_in_trailers[] = {
    "authorization", "cache-control", "content-encoding", "content-range", "content-type", "cookie",
    "expect",        "max-forwards",  "pragma",           "range",         "set-cookie",   "trailer",
};

static const uint8_t token_bytes[256] = {
    ['!'] = 1, ['#'] = 1,         ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1, ['*'] = 1, ['+'] = 1,         ['-'] = 1,
    ['.'] = 1, ['0' ... '9'] = 1, ['^'] = 1, ['_'] = 1, ['`'] = 1, ['|'] = 1,  ['~'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1,
};

bool http_is_token(const char *s, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!token_bytes[(uint8_t)s[i]])
            return false;
    return len > 0;
}

bool http_is_value(const char *s, size_t len) {
    uint8_t bad = 0; /* no branch in the loop: the compiler makes vectors of it */

    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)s[i];

        bad |= (uint8_t)((c < 0x20 && c != '\t') | (c == 0x7f));
    }
    return !bad;
}

static enum http_name find_name(const char *name, size_t len) {
    for (enum http_name i = HTTP_NAME_OTHER + 1; i < HTTP_NAMES; i++)
        if (names[i].len == len && strncasecmp(names[i].text, name, len) == 0)
            return i;
    return HTTP_NAME_OTHER;
}

static void free_blocks(struct http_block *b) {
    while (b) {
        struct http_block *next = b->next;

        free(b);
        b = next;
    }
}

void http_head_wipe(struct http_head *h) {
    size_t out = 0;

    if (!h->secrets)
        return;
    for (struct http_block *b = h->secrets; b; b = b->next)
        explicit_bzero(b->bytes, b->used);
    free_blocks(TAKE_PTR(h->secrets));
    for (size_t i = 0; i < h->len; i++)
        if (!h->v[i].secret)
            h->v[out++] = h->v[i];
    h->len = out;
}

void http_head_done(struct http_head *h) {
    http_head_wipe(h);
    free_blocks(h->blocks);
    free(h->v);
    *h = (struct http_head){0};
}

void http_head_clear(struct http_head *h) {
    http_head_wipe(h);
    h->len = 0;
    if (!h->blocks)
        return;
    free_blocks(TAKE_PTR(h->blocks->next));
    h->blocks->used = 0;
}

static char *block_take(struct http_block **list, size_t len, size_t least) {
    struct http_block *b = *list;

    if (!b || b->cap - b->used < len) {
        size_t cap = MAX_OF(len, least);

        b = malloc(sizeof *b + cap);
        if (!b)
            return NULL;
        *b = (struct http_block){.next = *list, .cap = cap};
        *list = b;
    }
    b->used += len;
    return b->bytes + b->used - len;
}

static char *copy(struct http_head *h, const char *s, size_t len) {
    char *to = len > HTTPX_HEAD_MAX ? NULL : block_take(&h->blocks, len + 1, BLOCK_MIN);

    if (!to)
        return NULL;
    if (len)
        memcpy(to, s, len);
    to[len] = 0;
    return to;
}

char *http_head_keep_secret(struct http_head *h, const char *a, size_t a_len, const char *b, size_t b_len) {
    char *to = a_len > HTTPX_HEAD_MAX || b_len > HTTPX_HEAD_MAX ? NULL : block_take(&h->secrets, a_len + b_len + 1, 0);

    if (!to)
        return NULL;
    memcpy(to, a, a_len);
    memcpy(to + a_len, b, b_len);
    to[a_len + b_len] = 0;
    return to;
}

static int append_field(struct http_head *h, const struct http_header *field) {
    if (VEC_RESERVE(h->v, h->len, h->cap, FIELDS_FIRST) < 0)
        return -ENOMEM;
    h->v[h->len++] = *field;
    return 0;
}

int http_head_add_ref(struct http_head *h, char *name, size_t name_len, char *value, size_t value_len) {
    if (h->len >= HTTPX_HEADERS_MAX)
        return -E2BIG;
    return append_field(h, &(struct http_header){name, value, name_len, value_len, (uint8_t)find_name(name, name_len)});
}

int http_head_add(struct http_head *h, const char *name, size_t name_len, const char *value, size_t value_len) {
    char *n = copy(h, name, name_len), *v = n ? copy(h, value, value_len) : NULL;

    return v ? http_head_add_ref(h, n, name_len, v, value_len) : -ENOMEM;
}

static bool has_name(const struct http_header *f, const char *name, size_t len) {
    return f->name_len == len && strncasecmp(f->name, name, len) == 0;
}

const char *http_head_get(const struct http_head *h, const char *name) {
    size_t len = strlen(name);

    for (size_t i = 0; i < h->len; i++)
        if (has_name(&h->v[i], name, len))
            return h->v[i].value;
    return NULL;
}

const struct http_header *http_head_one(const struct http_head *h, enum http_name name, bool *ret_many) {
    const struct http_header *found = NULL;

    for (size_t i = 0; i < h->len; i++) {
        if (h->v[i].known != name)
            continue;
        if (found)
            *ret_many = true;
        else
            found = &h->v[i];
    }
    return found;
}

void http_head_remove(struct http_head *h, const char *name) {
    size_t len = strlen(name), out = 0;

    for (size_t i = 0; i < h->len; i++)
        if (!has_name(&h->v[i], name, len))
            h->v[out++] = h->v[i];
    h->len = out;
}

static int set(struct http_head *h, const char *name, const char *value, size_t len, bool secret) {
    size_t name_len = strlen(name);
    struct http_header f = {
        .name_len = name_len, .value_len = len, .known = (uint8_t)find_name(name, name_len), .secret = secret};

    if (!http_is_token(name, name_len) || !http_is_value(value, len))
        return -EINVAL;
    f.name = copy(h, name, name_len);
    f.value = !f.name ? NULL : secret ? http_head_keep_secret(h, value, len, "", 0) : copy(h, value, len);
    if (!f.value)
        return -ENOMEM;
    http_head_remove(h, name);
    return h->len < HTTPX_HEADERS_MAX + HTTP_HEAD_EXTRA ? append_field(h, &f) : -E2BIG;
}

int http_head_set(struct http_head *h, const char *name, const char *value, size_t len) {
    return set(h, name, value, len, false);
}

int http_head_set_secret(struct http_head *h, const char *name, const char *value, size_t len) {
    return set(h, name, value, len, true);
}

bool http_list_has(const char *list, const char *word) {
    size_t len = strlen(word);

    while (*list) {
        size_t n;

        list += strspn(list, " \t,");
        n = strcspn(list, " \t,");
        if (n == len && strncasecmp(list, word, n) == 0)
            return true;
        list += n;
    }
    return false;
}

/* Connection fields name other fields: those that name more than the two usual words. */
static size_t find_naming(const struct http_head *h, const char *ret[static HTTPX_HEADERS_MAX]) {
    size_t n = 0;

    for (size_t i = 0; i < h->len && n < HTTPX_HEADERS_MAX; i++)
        if (h->v[i].known == HTTP_NAME_CONNECTION && strcasecmp(h->v[i].value, "close") != 0 &&
            strcasecmp(h->v[i].value, "keep-alive") != 0)
            ret[n++] = h->v[i].value;
    return n;
}

static bool is_named(const char *const *lists, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (http_list_has(lists[i], name))
            return true;
    return false;
}

void http_head_strip(struct http_head *h) {
    const char *naming[HTTPX_HEADERS_MAX];
    size_t n = find_naming(h, naming), out = 0;

    for (size_t i = 0; i < h->len; i++)
        if (!names[h->v[i].known].flags && !is_named(naming, n, h->v[i].name))
            h->v[out++] = h->v[i];
    h->len = out;
}

/* Servers that read fields as variables take '_' for '-'. */
static bool is_same_name(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if ((*a == '_' ? '-' : tolower((uint8_t)*a)) != *b)
            return false;
    return *a == *b;
}

void http_head_strip_overrides(struct http_head *h) {
    static const char *const overrides[] = {"x-http-method-override", "x-http-method", "x-method-override", "x-original-method",
                                            "x-original-url",         "x-rewrite-url", "x-original-uri",    "x-rewrite-uri"};
    size_t out = 0;

    for (size_t i = 0; i < h->len; i++) {
        size_t k = 0;

        while (k < ARRAY_LEN(overrides) && !is_same_name(h->v[i].name, overrides[k]))
            k++;
        if (k == ARRAY_LEN(overrides))
            h->v[out++] = h->v[i];
    }
    h->len = out;
}

void http_head_strip_trailers(struct http_head *h) {
    http_head_strip(h);
    http_head_strip_overrides(h);
    for (size_t i = 0; i < ARRAY_LEN(not_in_trailers); i++)
        http_head_remove(h, not_in_trailers[i]);
}

void http_head_write(const struct http_head *h, struct buf *b) {
    for (size_t i = 0; i < h->len; i++) {
        const struct http_header *f = &h->v[i];

        if (names[f->known].flags)
            continue;
        buf_add(b, f->name, f->name_len);
        buf_add(b, ": ", 2);
        buf_add(b, f->value, f->value_len);
        buf_add(b, "\r\n", 2);
    }
}

size_t http_head_size(const struct http_head *h) {
    size_t n = 0;

    for (size_t i = 0; i < h->len; i++)
        n += h->v[i].name_len + h->v[i].value_len + 4;
    return n;
}
