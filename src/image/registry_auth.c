/* SPDX-License-Identifier: Apache-2.0 */
/* What a registry wants to know of the user: the challenge of a 401, and the token that a token server gives for it. */
#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "image/registry_client.h"
#include "os/fd.h"

enum { ANSWER_MAX = 64 * 1024, SECRET_MAX = 64 * 1024, URL_MAX = 8 * 1024 };

/* "user NUL secret", by bawn-vault; nothing: there is no credential. */
int registry_read_secret(struct registry *g, int fd, struct err *err) {
    CLEANUP(secret_done) struct secret all = {0};
    const char *nul;
    ssize_t n;

    if (secret_alloc(&all, SECRET_MAX) < 0)
        return err_oom(err);
    n = fd_read_full(fd, all.p, SECRET_MAX - 1);
    if (n <= 0)
        return 0;
    all.p[n] = 0;
    nul = memchr(all.p, 0, (size_t)n);
    if (!nul || secret_alloc(&g->user, (size_t)(nul - all.p) + 1) < 0 || secret_alloc(&g->password, (size_t)n + 1) < 0)
        return err_set(err, -EBADMSG, "the credential of registry '%s' is none", g->ref.host);
    memcpy(g->user.p, all.p, (size_t)(nul - all.p) + 1);
    g->user.len = (size_t)(nul - all.p);
    g->password.len = (size_t)(all.p + n - nul) - 1;
    memcpy(g->password.p, nul + 1, g->password.len + 1);
    return 0;
}

/* key="value" of a challenge, without the quotes. */
static bool challenge_value(const char *text, const char *key, char *ret, size_t size) {
    size_t n = strlen(key);

    for (const char *p = text; (p = strcasestr(p, key)); p += n)
        if (p > text && strchr(" ,", p[-1]) && p[n] == '=') {
            bool quoted = p[n + 1] == '"';
            const char *from = p + n + 1 + quoted;

            snprintf(ret, size, "%.*s", (int)strcspn(from, quoted ? "\"" : ", "), from);
            return true;
        }
    ret[0] = 0;
    return false;
}

static void add_query(struct buf *url, CURL *c, const char *key, const char *value) {
    char *text = value[0] ? curl_easy_escape(c, value, 0) : NULL;

    if (text)
        buf_addf(url, "%c%s=%s", memchr(buf_str(url), '?', url->len) ? '&' : '?', key, text);
    curl_free(text);
}

/* As strict about where it is as about the registry: the credential goes there. */
static int check_realm(const struct registry *g, const char *realm, struct err *err) {
    bool local = str_starts(realm, "http://") && g->local;
    char host[OCI_HOST_MAX + 1];

    if (local) {
        snprintf(host, sizeof host, "%.*s", (int)MIN_OF(strcspn(realm + 7, "/?#\\"), sizeof host - 1), realm + 7);
        local = oci_host_is_local(host);
    }
    if (!local && !str_starts(realm, "https://"))
        return err_set(err, -EPROTO, "registry '%s' names a token server without TLS ('%.100s')", g->ref.host, realm);
    return 0;
}

static int token_url(const struct registry *g, const char *challenge, struct buf *url, struct err *err) {
    char realm[REGISTRY_TEXT_MAX], service[REGISTRY_TEXT_MAX], scope[REGISTRY_TEXT_MAX];
    CURL *c;
    int r;

    challenge_value(challenge, "realm", realm, sizeof realm);
    challenge_value(challenge, "service", service, sizeof service);
    if (!challenge_value(challenge, "scope", scope, sizeof scope))
        snprintf(scope, sizeof scope, "repository:%s:pull", g->ref.path);
    r = check_realm(g, realm, err);
    c = r < 0 ? NULL : curl_easy_init();
    if (!c)
        return r < 0 ? r : err_oom(err);
    buf_adds(url, realm);
    add_query(url, c, "service", service);
    add_query(url, c, "scope", scope);
    curl_easy_cleanup(c);
    return buf_ok(url) ? 0 : err_oom(err);
}

static int to_secret(void *arg, const char *data, size_t len) {
    struct secret *s = arg;

    if (len > ANSWER_MAX - s->len)
        return -EFBIG;
    memcpy(s->p + s->len, data, len);
    s->len += len;
    return 0;
}

static int to_secret_again(void *arg) {
    secret_clear(arg);
    return 0;
}

static int take_token(struct registry *g, const struct secret *answer, struct err *err) {
    json_t *doc = json_loadb(answer->p, answer->len, 0, NULL);
    const char *token = json_get_text(doc, "token");
    int r = 0;

    if (!token[0])
        token = json_get_text(doc, "access_token");
    if (!token[0])
        r = err_set(err, -EPROTO, "the token server of registry '%s' gives no token", g->ref.host);
    pthread_mutex_lock(&g->lock);
    secret_done(&g->token);
    if (r == 0 && secret_alloc(&g->token, strlen(token) + 1) < 0)
        r = err_oom(err);
    if (r == 0) {
        g->token.len = strlen(token);
        memcpy(g->token.p, token, g->token.len + 1);
    }
    pthread_mutex_unlock(&g->lock);
    json_decref(doc);
    return r;
}

int registry_login(struct registry *g, const char *challenge, struct err *err) {
    CLEANUP(secret_done) struct secret answer = {0};
    CLEANUP(buf_done) struct buf url = BUF_INIT(URL_MAX);
    struct registry_want w = {.token_server = true, .sink = to_secret, .restart = to_secret_again, .arg = &answer};
    int r;

    if (strncasecmp(challenge, "basic", 5) == 0) {
        if (!g->user.len && !g->password.len)
            return err_set(err, -EACCES, "registry '%s' wants a login: use 'docker login %s' first", g->ref.host, g->ref.host);
        g->basic = true;
        return 0;
    }
    if (strncasecmp(challenge, "bearer ", 7) != 0)
        return err_set(err, -EPROTO, "registry '%s' wants a login that Bawn does not know: '%.100s'", g->ref.host, challenge);
    r = token_url(g, challenge, &url, err);
    if (r == 0 && secret_alloc(&answer, ANSWER_MAX) < 0)
        r = err_oom(err);
    w.url = buf_str(&url);
    r = r < 0 ? r : registry_get(g, &w, err);
    if (r < 0)
        return r;
    if (w.status != 200)
        return err_set(err, -EACCES,
                       "the token server of registry '%s' denies it (%ld): use 'docker login %s', or check the name", g->ref.host,
                       w.status, g->ref.host);
    return take_token(g, &answer, err);
}
