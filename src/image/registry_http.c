/* SPDX-License-Identifier: Apache-2.0 */
/* One request to a registry, by libcurl: what is followed, what is tried again, and what the user hears when it fails. */
#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "image/registry_client.h"

enum { CONNECT_S = 20, STALLED_S = 30, REDIRECTS_MAX = 8, RETRY_AFTER_MAX_S = 10, FIRST_PAUSE_MS = 300 };

struct http_turn {
    CURL *curl;
    struct registry_want *want;
    bool answered; /* the last status is the one whose body comes */
};

static size_t on_header(char *p, size_t size, size_t n, void *to) {
    static const char challenge[] = "www-authenticate:", retry[] = "retry-after:";
    struct registry_want *w = ((struct http_turn *)to)->want;
    size_t len = size * n, skip;
    char text[16];
    uint64_t s;

    if (len > strlen(challenge) && strncasecmp(p, challenge, strlen(challenge)) == 0) {
        skip = strlen(challenge) + (p[strlen(challenge)] == ' ');
        /* of several, the one that gives a token is taken */
        if (!w->challenge[0] || strncasecmp(p + skip, "bearer", 6) == 0)
            snprintf(w->challenge, sizeof w->challenge, "%.*s", (int)(len - skip), p + skip);
        w->challenge[strcspn(w->challenge, "\r\n")] = 0;
    }
    if (len > strlen(retry) && strncasecmp(p, retry, strlen(retry)) == 0) {
        skip = strlen(retry) + (p[strlen(retry)] == ' ');
        snprintf(text, sizeof text, "%.*s", (int)(len - skip), p + skip);
        text[strcspn(text, "\r\n")] = 0;
        if (parse_u64(text, 0, 1000000, &s, NULL) == 0)
            w->retry_after_s = (unsigned)s;
    }
    return len;
}

static size_t on_body(char *p, size_t size, size_t n, void *to) {
    struct http_turn *t = to;
    struct registry_want *w = t->want;
    long status = 0;

    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200 && status != 206)
        return size * n; /* of no use: the status says enough */
    if (!t->answered && w->from && status == 200) {
        w->sink_error = w->restart(w->arg);
        w->from = 0;
    }
    t->answered = true;
    if (w->sink_error == 0)
        w->sink_error = w->sink(w->arg, p, size * n);
    w->got += size * n;
    return w->sink_error < 0 ? 0 : size * n;
}

/* Whatever led here, a name, a redirect or a token server: what is not encrypted does not leave the machine. */
static int on_connected(void *arg, char *address, char *own UNUSED, int port UNUSED, int own_port UNUSED) {
    char *url = NULL;

    if (curl_easy_getinfo(((struct http_turn *)arg)->curl, CURLINFO_EFFECTIVE_URL, &url) != CURLE_OK || !url)
        return CURL_PREREQFUNC_ABORT;
    return strncasecmp(url, "https://", 8) == 0 || str_starts(address, "127.") || str_eq(address, "::1") ? CURL_PREREQFUNC_OK
                                                                                                         : CURL_PREREQFUNC_ABORT;
}

static void set_login(CURL *c, struct registry *g, bool token_server) {
    bool has = g->user.len || g->password.len;

    pthread_mutex_lock(&g->lock);
    if ((token_server || g->basic) && has) {
        curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        curl_easy_setopt(c, CURLOPT_USERNAME, g->user.p);
        curl_easy_setopt(c, CURLOPT_PASSWORD, g->password.p);
    } else if (!token_server && g->token.len) {
        curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, g->token.p);
    }
    pthread_mutex_unlock(&g->lock);
}

static void set_request(CURL *c, struct registry *g, struct http_turn *t, struct curl_slist *headers) {
    const struct registry_want *w = t->want;
    const char *schemes = g->local ? "http,https" : "https";
    char range[40];

    curl_easy_setopt(c, CURLOPT_URL, w->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, schemes);
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, schemes);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, w->token_server ? 0L : 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALLED_S);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "bawn/" BAWN_VERSION);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_PREREQFUNCTION, on_connected);
    curl_easy_setopt(c, CURLOPT_PREREQDATA, t);
    if (getenv("SSL_CERT_FILE"))
        curl_easy_setopt(c, CURLOPT_CAINFO, getenv("SSL_CERT_FILE"));
    if (g->local) /* in clear: not through a proxy of another machine */
        curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    if (w->from) { /* not CURLOPT_RESUME_FROM: it takes a whole answer for a failure */
        snprintf(range, sizeof range, "%llu-", (unsigned long long)w->from);
        curl_easy_setopt(c, CURLOPT_RANGE, range);
    }
    set_login(c, g, w->token_server);
}

/* One turn. 0: there is a status; 1: try again; -errno: no use. */
static int turn(struct registry *g, struct registry_want *w, struct err *err) {
    struct curl_slist *headers = NULL;
    CURL *c = curl_easy_init();
    struct http_turn t = {.curl = c, .want = w};
    CURLcode code;

    if (!c)
        return err_oom(err);
    for (size_t i = 0; w->headers && w->headers[i]; i++)
        headers = curl_slist_append(headers, w->headers[i]);
    w->status = 0;
    w->challenge[0] = 0;
    w->retry_after_s = 0;
    set_request(c, g, &t, headers);
    code = curl_easy_perform(c);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &w->status);
    curl_easy_cleanup(c);
    curl_slist_free_all(headers);
    if (w->sink_error < 0)
        return w->sink_error;
    if (code == CURLE_OK)
        return w->status == 429 || w->status >= 500 ? 1 : 0;
    w->status = 0;
    if (code == CURLE_OPERATION_TIMEDOUT)
        err_set(err, -ETIMEDOUT, "registry '%s' does not answer, or sends nothing for %d s", g->ref.host, STALLED_S);
    else
        err_set(err, -EHOSTUNREACH, "cannot get it from registry '%s': %s", g->ref.host, curl_easy_strerror(code));
    if (code == CURLE_OPERATION_TIMEDOUT && !w->got)
        return err->code; /* it had long enough to say a word */
    return code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_PEER_FAILED_VERIFICATION ||
                   code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST
               ? err->code
               : 1;
}

int registry_get(struct registry *g, struct registry_want *w, struct err *err) {
    unsigned pause_ms = FIRST_PAUSE_MS;
    int r = 1;

    for (int i = 0; r == 1 && i < REGISTRY_TRIES; i++, pause_ms *= 3) {
        if (w->got && w->resumable)
            break;
        if (w->got && (r = w->restart(w->arg)) < 0)
            return err_sys(err, r, "begin again");
        w->got = 0;
        if (i)
            usleep(1000 * MAX_OF(pause_ms, 1000 * MIN_OF(w->retry_after_s, RETRY_AFTER_MAX_S)));
        r = turn(g, w, err);
    }
    return r < 0 ? r : r == 1 && w->status == 0 ? err->code : 0;
}
