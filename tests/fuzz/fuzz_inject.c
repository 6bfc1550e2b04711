/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of a sandbox with credentials: lines "path", "query", "name: value" ..., an empty line, the body. A plan that is made must leave
 * no placeholder in what goes on, and a body with one must be noticed, however it is cut. What is signed must be whole lines.
 */
#include <errno.h>
#include <strings.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/http/http_head.h"
#include "gateway/secret/injection.h"
#include "gateway/secret/sigv4.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CORE_A "AAAABBBBCCCCDDDDEEEEFFFF"
#define CORE_K "ABCDEFGHIJKLMNOP"
#define CORE_S "SSSSTTTTUUUUVVVVWWWWXXXX"
#define CORE_Q "QQQQRRRRSSSSTTTTUUUUVVVV"

static char *host_a[] = {"a.test", NULL};
static const struct grant grants[] = {
    {.c = {.name = "a", .hosts = {host_a, 1, 2}, .place = PLACE_HEADER, .header = "x-key", .format = "{}"},
     .placeholder = CORE_A},
    {.c = {.name = "s", .hosts = {host_a, 1, 2}, .place = PLACE_SIGV4, .region = "r", .service = "s3"},
     .placeholder = "AKIA" CORE_K,
     .placeholder2 = CORE_S},
    {.c = {.name = "q", .hosts = {host_a, 1, 2}, .place = PLACE_QUERY, .query = "key"}, .placeholder = CORE_Q},
};

static bool has_core(const char *text) {
    return strstr(text, CORE_A) || strstr(text, CORE_K) || strstr(text, CORE_S) || strstr(text, CORE_Q);
}

static bool is_put(const struct cred_plan *plan, const char *name) {
    for (size_t i = 0; i < plan->n; i++)
        if (plan->puts[i].place != PLACE_QUERY && strcasecmp(plan->puts[i].slot, name) == 0)
            return true;
    return false;
}

static void check_plan(const struct httpx_request *http, const struct cred_plan *plan) {
    if (has_core(http->path.text) || has_core(plan->query ? plan->query : http->query))
        BUG("a placeholder in the target");
    for (size_t i = 0; i < http->head->len; i++)
        if (has_core(http->head->v[i].name) || (has_core(http->head->v[i].value) && !is_put(plan, http->head->v[i].name)))
            BUG("a placeholder in a field");
}

static void check_signed(const struct httpx_request *http) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);
    struct host host;
    bool needs_hash;
    size_t lines = 0;

    host_parse("a.test", 6, &host, NULL);
    if (sigv4_canonical(&(struct sigv4_request){http, &host, 443, "s3"}, &b, &needs_hash, NULL) < 0)
        return;
    for (const char *p = buf_str(&b); *p; p++)
        lines += *p == '\n';
    if (lines < 7 || strlen(buf_str(&b)) != b.len || !strstr(buf_str(&b), "\nhost:a.test\n"))
        BUG("a canonical request that is none");
}

static void check_body(struct placeholders *p, const struct http_head *head, const uint8_t *data, size_t len, size_t piece) {
    struct cred_body b = {.begun = false};
    uint32_t tag;
    int r = 0;

    if (cred_body_init(&b, head) < 0)
        BUG("no memory");
    for (size_t at = 0; r == 0 && at < len; at += piece)
        r = cred_body_watch(&b, placeholders_finder(p), data + at, MIN_OF(piece, len - at), &tag);
    if (r == 0 && memmem(data, len, CORE_A, strlen(CORE_A)))
        BUG("a placeholder in the body");
    cred_body_done(&b);
}

static const char *take_line(const char **at, const char *end, size_t *ret_len) {
    const char *from = *at, *stop = from < end ? memchr(from, '\n', (size_t)(end - from)) : NULL;

    stop = stop ? stop : end;
    *ret_len = (size_t)(stop - from);
    *at = stop < end ? stop + 1 : end;
    return from;
}

static bool is_plain(const char *p, size_t len) {
    for (size_t i = 0; i < len; i++)
        if ((uint8_t)p[i] <= ' ' || (uint8_t)p[i] >= 0x7f || p[i] == '#')
            return false;
    return true;
}

/* As httpx lets them through. */
static bool take_fields(const char **at, const char *end, struct http_head *head) {
    size_t len;
    const char *line;

    while ((line = take_line(at, end, &len)), len) {
        const char *colon = memchr(line, ':', len);
        size_t name = colon ? (size_t)(colon - line) : 0;

        if (!colon || !http_is_token(line, name) || !http_is_value(colon + 1, len - name - 1) ||
            http_head_add(head, line, name, colon + 1, len - name - 1) < 0)
            return false;
    }
    return true;
}

static void run(struct placeholders *p, const char *at, const char *end) {
    CLEANUP(http_head_done) struct http_head head = {0};
    CLEANUP(freep) char *query = NULL;
    struct httpx_request *http = calloc(1, sizeof *http);
    struct cred_plan plan = {.n = 0};
    size_t len;
    const char *line = take_line(&at, end, &len), *where;
    bool ok = is_plain(line, len) && http_path_parse(line, len, &http->path, NULL) == 0;
    uint32_t tag;

    line = take_line(&at, end, &len);
    query = strndup(line, len);
    ok = ok && is_plain(query, len) && (!len || query[0] == '?') && take_fields(&at, end, &head);
    http->method = "POST";
    http->query = query;
    http->head = &head;
    http->has_body = at < end;
    http->body_len = (uint64_t)(end - at);
    if (ok && cred_plan(&(struct cred_request){.grants = grants,
                                               .n_grants = ARRAY_LEN(grants),
                                               .placeholders = p,
                                               .host = "a.test",
                                               .port = 443,
                                               .tls = true,
                                               .http = http},
                        &plan, &tag, &where) == 0)
        check_plan(http, &plan);
    if (ok)
        check_signed(http);
    cred_plan_done(&plan);
    check_body(p, &head, (const uint8_t *)at, (size_t)(end - at), 1 + (size_t)(end - at) % 7);
    free(http);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct placeholders *p;

    if (placeholders_new(grants, ARRAY_LEN(grants), &p) < 0)
        BUG("no memory");
    run(p, (const char *)data, (const char *)data + size);
    placeholders_unref(p);
    return 0;
}
