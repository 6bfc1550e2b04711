/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of OAuth, by libcurl. */
#include "vault/http.h"

#include <curl/curl.h>
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "vault/vault.h"

void http_reply_done(struct http_reply *r) {
    secret_done(&r->body);
}

static bool is_unreserved(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c));
}

static int encode_text(struct secret *form, const char *p, size_t len) {
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < len; i++) {
        if (form->len + 3 > HTTP_FORM_MAX)
            return -E2BIG;
        if (is_unreserved(p[i])) {
            form->p[form->len++] = p[i];
            continue;
        }
        form->p[form->len++] = '%';
        form->p[form->len++] = digits[(unsigned char)p[i] >> 4];
        form->p[form->len++] = digits[p[i] & 15];
    }
    return 0;
}

int http_form_add(struct secret *form, const char *key, const char *value, size_t len) {
    int r;

    if (form->len + 2 > HTTP_FORM_MAX)
        return -E2BIG;
    if (form->len)
        form->p[form->len++] = '&';
    r = encode_text(form, key, strlen(key));
    if (r < 0 || form->len + 1 > HTTP_FORM_MAX)
        return -E2BIG;
    form->p[form->len++] = '=';
    return encode_text(form, value, len);
}

int http_form_make(const struct http_field *fields, size_t n, struct secret *form, struct err *err) {
    int r = secret_alloc(form, HTTP_FORM_MAX);

    if (r < 0)
        return err_oom(err);
    for (size_t i = 0; r == 0 && i < n; i++)
        if (fields[i].value)
            r = http_form_add(form, fields[i].key, fields[i].value, fields[i].len ? fields[i].len : strlen(fields[i].value));
    return r < 0 ? err_set(err, r, "the request for a login or a token is too long") : 0;
}

struct target {
    char *scheme, *host;
    bool loopback;
};

static void target_done(struct target *t) {
    curl_free(t->scheme);
    curl_free(t->host);
}

static int target_read(const char *url, struct target *t, struct err *err) {
    CURLU *u = curl_url();
    bool ok = u && curl_url_set(u, CURLUPART_URL, url, CURLU_DISALLOW_USER) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_SCHEME, &t->scheme, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_HOST, &t->host, 0) == CURLUE_OK;

    curl_url_cleanup(u);
    if (!ok)
        return err_usage(err, "an OAuth address is not a URL, or has a user in it");
    /* curl resolves "localhost" itself, to this machine (since 7.78). */
    t->loopback = str_eq(t->host, "127.0.0.1") || str_eq(t->host, "localhost") || str_eq(t->host, "[::1]");
    if (!str_eq(t->scheme, "https") && !(t->loopback && str_eq(t->scheme, "http")))
        return err_usage(err, "an OAuth address must begin with https:// (host '%s')", t->host);
    return 0;
}

static size_t on_body(char *p, size_t size, size_t n, void *to) {
    struct secret *body = to;

    if (size * n > HTTP_BODY_MAX - body->len)
        return 0; /* curl stops with CURLE_WRITE_ERROR */
    memcpy(body->p + body->len, p, size * n);
    body->len += size * n;
    return size * n;
}

static void set_trust(CURL *c, const struct vault *v) {
    const char *file = vault_getenv(v, "SSL_CERT_FILE"), *dir = vault_getenv(v, "SSL_CERT_DIR");

    if (file)
        curl_easy_setopt(c, CURLOPT_CAINFO, file);
    if (dir)
        curl_easy_setopt(c, CURLOPT_CAPATH, dir);
}

static int set_login(CURL *c, const struct http_login *login) {
    CLEANUP(secret_done) struct secret text = {0};

    if (!login)
        return 0;
    if (secret_alloc(&text, HTTP_FORM_MAX + 2) < 0)
        return -ENOMEM;
    if (encode_text(&text, login->user, strlen(login->user)) < 0)
        return -E2BIG;
    text.p[text.len] = 0;
    curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
    curl_easy_setopt(c, CURLOPT_USERNAME, text.p);
    secret_clear(&text);
    if (encode_text(&text, login->password->p, login->password->len) < 0)
        return -E2BIG;
    text.p[text.len] = 0;
    curl_easy_setopt(c, CURLOPT_PASSWORD, text.p);
    return 0;
}

static int http_failure(CURLcode code, const struct target *t, struct err *err) {
    if (code == CURLE_OPERATION_TIMEDOUT)
        return err_set(err, -ETIMEDOUT, "'%s' did not answer within %d s", t->host, VAULT_HTTP_TIMEOUT_MS / 1000);
    if (code == CURLE_WRITE_ERROR)
        return err_set(err, -ENOKEY, "'%s' answers with more than %d bytes", t->host, HTTP_BODY_MAX);
    return err_set(err, -ENOKEY, "ask '%s' for a token: %s", t->host, curl_easy_strerror(code));
}

static void set_request(CURL *c, const char *url, const struct secret *form, const struct target *t, struct curl_slist *headers,
                        struct http_reply *reply) {
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, t->scheme);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)VAULT_HTTP_TIMEOUT_MS);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "bawn/" BAWN_VERSION);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)form->len);
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, form->p);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, &reply->body);
    if (t->loopback) /* in clear: not through a proxy of another machine */
        curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
}

static int perform(CURL *c, const struct target *t, struct http_reply *reply, struct err *err) {
    CURLcode code = curl_easy_perform(c);

    if (code != CURLE_OK)
        return http_failure(code, t, err);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &reply->status);
    if (reply->status >= 300 && reply->status < 400)
        return err_set(err, -ENOKEY, "'%s' answers with a redirect (%ld), which is not followed with a token", t->host,
                       reply->status);
    return 0;
}

int http_post(const struct vault *v, const char *url, const struct secret *form, const struct http_login *login,
              struct http_reply *ret, struct err *err) {
    CLEANUP(http_reply_done) struct http_reply reply = {0};
    CLEANUP(target_done) struct target t = {0};
    struct curl_slist *headers = NULL;
    CURL *c;
    int r = target_read(url, &t, err);

    if (r < 0)
        return r;
    c = curl_easy_init();
    headers = curl_slist_append(NULL, "Accept: application/json");
    if (!c || !headers || secret_alloc(&reply.body, HTTP_BODY_MAX) < 0) {
        r = err_oom(err);
    } else {
        set_request(c, url, form, &t, headers, &reply);
        set_trust(c, v);
        r = set_login(c, login) < 0 ? err_set(err, -E2BIG, "the client's secret is too long") : perform(c, &t, &reply, err);
    }
    curl_easy_cleanup(c);
    curl_slist_free_all(headers);
    if (r < 0)
        return r;
    *ret = TAKE(reply, (struct http_reply){0});
    return 0;
}
