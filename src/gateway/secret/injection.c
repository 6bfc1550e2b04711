/* SPDX-License-Identifier: Apache-2.0 */
/* Which grants concern a host; placeholders in bodies, also packed ones. */
#include "gateway/secret/injection.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

#include "base/str.h"
#include "base/strv.h"

enum { PORT_SSH = 22, PORT_TLS = 443 };

struct placeholders {
    unsigned refs;
    struct finder *finder;
    struct strv names; /* by grant */
};

static int add_core(struct finder *f, const char *placeholder, uint32_t tag) {
    const char *core = placeholder_core(placeholder);

    return finder_add_forms(f, core, strlen(core), tag);
}

static int fill_placeholders(struct placeholders *p, const struct grant *v, size_t n) {
    int r = finder_new(&p->finder);

    for (size_t i = 0; r == 0 && i < n; i++) {
        r = strv_add(&p->names, v[i].c.name);
        r = r < 0 ? r : add_core(p->finder, v[i].placeholder, placeholder_tag(i, false));
        if (r >= 0 && v[i].placeholder2 && v[i].placeholder2[0])
            r = add_core(p->finder, v[i].placeholder2, placeholder_tag(i, true));
        r = MIN_OF(r, 0);
    }
    return r < 0 ? r : finder_build(p->finder);
}

int placeholders_new(const struct grant *v, size_t n, struct placeholders **ret) {
    struct placeholders *p = calloc(1, sizeof *p);
    int r;

    if (!p)
        return -ENOMEM;
    p->refs = 1;
    r = fill_placeholders(p, v, n);
    if (r < 0) {
        placeholders_unref(p);
        return r;
    }
    *ret = p;
    return 0;
}

struct placeholders *placeholders_ref(struct placeholders *p) {
    p->refs++;
    return p;
}

void placeholders_unref(struct placeholders *p) {
    if (!p || --p->refs)
        return;
    finder_free(p->finder);
    strv_done(&p->names);
    free(p);
}

const struct finder *placeholders_finder(const struct placeholders *p) {
    return p->finder;
}

const char *placeholders_name(const struct placeholders *p, uint32_t tag) {
    return tag / 2 < p->names.len ? p->names.v[tag / 2] : "";
}

/* port 0: any. */
static bool url_is(const char *url, const char *host, uint16_t port) {
    struct host h;
    uint16_t p = 0;

    if (!url || !str_starts(url, "https://"))
        return false;
    url += strlen("https://");
    if (host_parse_with_port(url, strcspn(url, "/?#"), &h, &p, NULL) < 0 || !str_eq(h.text, host))
        return false;
    return !port || (p ? p : PORT_TLS) == port;
}

bool cred_url_is_host(const char *url, const char *host) {
    return url_is(url, host, 0);
}

bool cred_url_is(const char *url, const char *host, uint16_t port) {
    return port && url_is(url, host, port);
}

bool cred_login_is_at(const struct credential *c, const char *host) {
    return url_is(c->token_url, host, 0) || url_is(c->device_url, host, 0) || url_is(c->authorize_url, host, 0);
}

/* Where logins are, every port could give tokens, but for that of ssh, which speaks no HTTP. */
bool cred_any_for(const struct grant *v, size_t n, const char *host, uint16_t port) {
    for (size_t i = 0; i < n; i++)
        if (credential_is_for(&v[i].c, host, port) || (port != PORT_SSH && cred_login_is_at(&v[i].c, host)))
            return true;
    return false;
}

bool cred_any_at(const struct grant *v, size_t n, const char *host) {
    for (size_t i = 0; i < n; i++)
        if (credential_next_port(&v[i].c, host, &(size_t){0}))
            return true;
    return false;
}

bool cred_is_plain(const struct http_head *head) {
    static const char *const names[] = {"content-encoding", "grpc-encoding", "sec-websocket-extensions"};

    for (size_t i = 0; i < head->len; i++)
        for (size_t k = 0; k < ARRAY_LEN(names); k++)
            if (strcasecmp(head->v[i].name, names[k]) == 0 && head->v[i].value_len &&
                strcasecmp(head->v[i].value, "identity") != 0)
                return false;
    return true;
}

static bool stays_as_it_is(uint8_t c) {
    return isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~';
}

char *cred_query_add(const char *query, const char *key, const char *value, size_t len) {
    static const char digits[] = "0123456789ABCDEF";
    size_t n = strlen(query) + strlen(key) + 2;
    char *out = malloc(n + 3 * len + 1);

    if (!out)
        return NULL;
    n = (size_t)snprintf(out, n + 1, "%s%c%s=", query, query[0] ? '&' : '?', key);
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)value[i];

        if (stays_as_it_is(c)) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = digits[c >> 4];
            out[n++] = digits[c & 15];
        }
    }
    out[n] = 0;
    return out;
}

/* What a client packs is unpacked here a second time, only to be looked at: what goes on is what came. */

enum { UNPACK_CHUNK = 32 * 1024, WINDOW_ANY = 15 + 32, WINDOW_RAW = -15 };

static const char *content_coding(const struct http_head *head) {
    const char *coding = http_head_get(head, "content-encoding");

    return coding ? coding : "";
}

int cred_body_init(struct cred_body *b, const struct http_head *head) {
    static const char *const codings[] = {"gzip", "x-gzip", "deflate"};
    const char *coding = content_coding(head);
    size_t i = 0;

    while (i < ARRAY_LEN(codings) && strcasecmp(coding, codings[i]) != 0)
        i++;
    if (i == ARRAY_LEN(codings))
        return 0;
    b->deflate = str_eq(codings[i], "deflate");
    b->z = calloc(1, sizeof *b->z);
    if (b->z && inflateInit2(b->z, WINDOW_ANY) == Z_OK)
        return 0;
    free(TAKE_PTR(b->z));
    return -ENOMEM;
}

static void stop_unpacking(struct cred_body *b) {
    if (b->z)
        inflateEnd(b->z);
    free(TAKE_PTR(b->z));
}

void cred_body_done(struct cred_body *b) {
    stop_unpacking(b);
    finder_stream_done(&b->plain);
    finder_stream_done(&b->unpacked);
}

/* "deflate" is zlib's format; some clients leave its head out. */
static bool is_raw(const struct cred_body *b, const uint8_t *data) {
    return b->deflate && ((data[0] & 0xf) != Z_DEFLATED || data[0] >> 4 > 7);
}

static int unpack_some(struct cred_body *b, const struct finder *f, bool *ret_over, uint32_t *ret_tag) {
    UNINITIALIZED uint8_t out[UNPACK_CHUNK];
    size_t n;
    int r;

    b->z->next_out = out;
    b->z->avail_out = sizeof out;
    r = inflate(b->z, Z_NO_FLUSH);
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
        return r == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
    n = sizeof out - b->z->avail_out;
    b->n_unpacked += n;
    if (b->n_unpacked > CRED_INFLATED_MAX)
        return -EFBIG;
    *ret_over = r == Z_STREAM_END || (n < sizeof out && !b->z->avail_in);
    if (r == Z_STREAM_END && b->z->avail_in && b->z->next_in[0] == 0x1f) {
        *ret_over = inflateReset(b->z) != Z_OK; /* one more member of a gzip file */
        r = Z_OK;
    }
    if (r == Z_STREAM_END)
        stop_unpacking(b);
    return n ? finder_watch(f, &b->unpacked, out, n, ret_tag) : 0;
}

static int unpack(struct cred_body *b, const struct finder *f, const uint8_t *data, size_t len, uint32_t *ret_tag) {
    bool over = false;
    int r = 0;

    if (!b->begun && is_raw(b, data) && inflateReset2(b->z, WINDOW_RAW) != Z_OK)
        return -ENOMEM;
    b->begun = true;
    b->z->next_in = (Bytef *)(uintptr_t)data;
    b->z->avail_in = (uInt)len;
    while (r == 0 && !over)
        r = unpack_some(b, f, &over, ret_tag);
    return r;
}

int cred_body_watch(struct cred_body *b, const struct finder *f, const uint8_t *data, size_t len, uint32_t *ret_tag) {
    int r;

    if (!len)
        return 0;
    if (len > UINT32_MAX)
        return -EFBIG;
    r = finder_watch(f, &b->plain, data, len, ret_tag);
    return r != 0 || !b->z ? r : unpack(b, f, data, len, ret_tag);
}
