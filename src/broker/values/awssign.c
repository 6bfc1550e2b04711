/* SPDX-License-Identifier: Apache-2.0 */
/* Signs requests for AWS. */
#include "broker/values/awssign.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/hex.h"
#include "broker/values/render.h"

enum { DIGEST = 32, HEX = 2 * DIGEST, DAY = 8, SCOPE_MAX = 256 };

static const char algorithm[] = "AWS4-HMAC-SHA256", token_name[] = "x-amz-security-token";

/* What the value is made of. */
struct keys {
    struct broker_part id, secret, token;
};

static int split(const struct secret *value, struct keys *ret) {
    const char *end = value->p + value->len, *first = memchr(value->p, ':', value->len), *second;

    if (!first)
        return -EINVAL;
    second = memchr(first + 1, ':', (size_t)(end - first - 1));
    *ret = (struct keys){
        .id = {value->p, (size_t)(first - value->p)},
        .secret = {first + 1, (size_t)((second ? second : end) - first - 1)},
        .token = {second ? second + 1 : end, second ? (size_t)(end - second - 1) : 0},
    };
    return 0;
}

/* Where our header goes among the sorted ones; behind all of them if there is none. */
static size_t token_place(const struct aws_request *q, const struct keys *k) {
    size_t i = 0, len = sizeof token_name - 1;

    if (!k->token.len)
        return q->n_headers;
    for (; i < q->n_headers; i++) {
        const struct broker_part *name = &q->headers[i].name;
        int r = memcmp(name->p, token_name, MIN_OF(name->len, len));

        if (r > 0 || (r == 0 && name->len > len))
            break;
    }
    return i;
}

static bool feed(EVP_MD_CTX *md, const struct broker_part *p, char after) {
    return EVP_DigestUpdate(md, p->p, p->len) == 1 && (!after || EVP_DigestUpdate(md, &after, 1) == 1);
}

static bool feed_header(EVP_MD_CTX *md, const struct broker_part *name, const struct broker_part *value) {
    return feed(md, name, ':') && feed(md, value, '\n');
}

static bool feed_headers(EVP_MD_CTX *md, const struct aws_request *q, const struct keys *k) {
    const struct broker_part name = {token_name, sizeof token_name - 1};
    size_t place = token_place(q, k);
    bool ok = true;

    for (size_t i = 0; i <= q->n_headers && ok; i++) {
        if (i == place && k->token.len)
            ok = feed_header(md, &name, &k->token);
        if (ok && i < q->n_headers)
            ok = feed_header(md, &q->headers[i].name, &q->headers[i].value);
    }
    return ok && EVP_DigestUpdate(md, "\n", 1) == 1;
}

static bool put_names(struct secret *work, const struct aws_request *q, const struct keys *k) {
    size_t place = token_place(q, k);
    bool ok = true, first = true;

    for (size_t i = 0; i <= q->n_headers && ok; i++) {
        if (i == place && k->token.len) {
            ok = (first || render_put(work, ";", 1)) && render_put(work, token_name, sizeof token_name - 1);
            first = false;
        }
        if (ok && i < q->n_headers) {
            ok = (first || render_put(work, ";", 1)) && render_put(work, q->headers[i].name.p, q->headers[i].name.len);
            first = false;
        }
    }
    return ok;
}

/* The request's hash, with our header in it. names: as they will stand in Authorization. */
static bool digest(const struct aws_request *q, const struct keys *k, const struct broker_part *names, char out[static HEX + 1]) {
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    uint8_t hash[DIGEST];
    bool ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 && feed(md, &q->method, '\n') && feed(md, &q->path, '\n') &&
              feed(md, &q->query, '\n') && feed_headers(md, q, k) && feed(md, names, '\n') && feed(md, &q->hash, 0) &&
              EVP_DigestFinal_ex(md, hash, NULL) == 1;

    EVP_MD_CTX_free(md);
    if (ok)
        hex_encode(hash, sizeof hash, out);
    return ok;
}

static bool mac(const void *key, size_t key_len, const void *data, size_t len, uint8_t out[static DIGEST]) {
    return HMAC(EVP_sha256(), key, (int)key_len, data, len, out, NULL) != NULL;
}

/* A key for this day, region and service; each step's result is the next one's key. */
static bool derive(const struct credential *c, const struct keys *k, const char *day, struct secret *work,
                   uint8_t out[static DIGEST]) {
    size_t begin = work->len;

    return render_put(work, "AWS4", 4) && render_put(work, k->secret.p, k->secret.len) &&
           mac(work->p + begin, work->len - begin, day, DAY, out) && mac(out, DIGEST, c->region, strlen(c->region), out) &&
           mac(out, DIGEST, c->service, strlen(c->service), out) && mac(out, DIGEST, "aws4_request", strlen("aws4_request"), out);
}

static bool sign(const struct credential *c, const struct aws_request *q, const struct keys *k, const char *scope,
                 const char hash[static HEX + 1], struct secret *work, char out[static HEX + 1]) {
    uint8_t key[DIGEST], signature[DIGEST];
    char text[sizeof algorithm + AWSSIGN_DATE + SCOPE_MAX + HEX + 8];
    int n = snprintf(text, sizeof text, "%s\n%.*s\n%s\n%.*s", algorithm, AWSSIGN_DATE, q->date.p, scope, (int)HEX, hash);
    bool ok =
        n > 0 && (size_t)n < sizeof text && derive(c, k, q->date.p, work, key) && mac(key, DIGEST, text, (size_t)n, signature);

    explicit_bzero(key, sizeof key);
    if (ok)
        hex_encode(signature, sizeof signature, out);
    return ok;
}

static bool put_text(struct secret *work, const char *s) {
    return render_put(work, s, strlen(s));
}

int awssign_secrets(const struct secret *value, struct broker_part parts[static 3]) {
    struct keys k;
    int r = split(value, &k);

    if (r < 0)
        return r;
    parts[0] = k.secret;
    parts[1] = k.token;
    parts[2] = k.id;
    return 0;
}

int awssign_make(const struct credential *c, const struct aws_request *q, const struct secret *value, struct secret *work,
                 struct broker_part parts[static AWSSIGN_PARTS]) {
    char scope[SCOPE_MAX], hash[HEX + 1], signature[HEX + 1];
    struct broker_part names;
    struct keys k;
    size_t begin;
    int n, r = split(value, &k);

    if (r < 0)
        return r;
    n = snprintf(scope, sizeof scope, "%.*s/%s/%s/aws4_request", DAY, q->date.p, c->region, c->service);
    if (n < 0 || (size_t)n >= sizeof scope || !put_names(work, q, &k))
        return -E2BIG;
    names = (struct broker_part){work->p, work->len};
    if (!digest(q, &k, &names, hash) || !sign(c, q, &k, scope, hash, work, signature))
        return -ENOMEM;
    begin = work->len;
    if (!put_text(work, algorithm) || !put_text(work, " Credential=") || !render_put(work, k.id.p, k.id.len) ||
        !put_text(work, "/") || !put_text(work, scope) || !put_text(work, ", SignedHeaders=") ||
        !render_put(work, names.p, names.len) || !put_text(work, ", Signature=") || !render_put(work, signature, HEX))
        return -E2BIG;
    parts[0] = (struct broker_part){work->p + begin, work->len - begin};
    parts[1] = k.token;
    parts[2] = k.id;
    parts[3] = k.secret;
    return 0;
}
