/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of the dashboard, as far as HTTP is concerned: a cookie, and proof that the request is the dashboard's own.
 *
 * A browser sends the cookie with what any page makes it ask for, so a cookie without this proof is refused: `Origin` must be ours (and be
 * there at all, but for GET), `Sec-Fetch-Site` must not say otherwise, and the second secret of the session must be in a header that a page of
 * another origin cannot set without asking us first. A WebSocket has no such header; there it is in the list of protocols.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "service/front/front.h"

#define COOKIE_PLAIN "bawn_session"
#define COOKIE_TLS "__Host-bawn_session" /* only over TLS, and of no other host */
#define CSRF_PROTOCOL "bawn.csrf."
enum { PROTOCOLS_MAX = 512 };

static const char *field_of(struct front_exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, name);
}

static bool is_tls(const struct front_exchange *x) {
    return x->conn->daemon == x->front->tls;
}

static bool secret_ok(const char *text, size_t len) {
    return len > 0 && len <= API_BEARER_MAX && api_check_is(API_CHECK_PRINTABLE, text, len);
}

/* The item of "a, b, c" that begins with `prefix`; NULL: none. */
static const char *protocol_with(struct front_exchange *x, const char *prefix, size_t *ret_len) {
    const char *at = field_of(x, "Sec-WebSocket-Protocol");

    for (at = at && strlen(at) <= PROTOCOLS_MAX ? at : ""; *at;) {
        size_t len;

        at += strspn(at, " \t,");
        len = strcspn(at, " \t,");
        if (str_starts(at, prefix)) {
            *ret_len = len;
            return at;
        }
        at += len;
    }
    return NULL;
}

bool front_session_offered(struct front_exchange *x) {
    size_t len = 0;

    return protocol_with(x, FRONT_PROTOCOL, &len) && len == strlen(FRONT_PROTOCOL);
}

static bool origin_is_ours(struct front_exchange *x, const char *method) {
    const char *origin = field_of(x, MHD_HTTP_HEADER_ORIGIN), *host = field_of(x, MHD_HTTP_HEADER_HOST),
               *site = field_of(x, "Sec-Fetch-Site");
    const char *scheme = is_tls(x) ? "https://" : "http://";
    bool reads = (str_eq(method, "GET") || str_eq(method, "HEAD")) && x->route->answer != API_ANSWER_WEBSOCKET;

    if (site && !str_eq(site, "same-origin"))
        return false;
    if (!origin)
        return reads;
    return host && strncasecmp(origin, scheme, strlen(scheme)) == 0 && strcasecmp(origin + strlen(scheme), host) == 0;
}

static const char *csrf_of(struct front_exchange *x, size_t *ret_len) {
    const char *text = field_of(x, "Bawn-Csrf");

    if (x->route->answer == API_ANSWER_WEBSOCKET && !text) {
        text = protocol_with(x, CSRF_PROTOCOL, ret_len);
        *ret_len -= text ? strlen(CSRF_PROTOCOL) : 0;
        return text ? text + strlen(CSRF_PROTOCOL) : NULL;
    }
    *ret_len = text ? strlen(text) : 0;
    return text;
}

int front_session_take(struct front_exchange *x, const char *method, struct front_fault *fault) {
    const char *cookie = MHD_lookup_connection_value(x->conn->mhd, MHD_COOKIE_KIND, is_tls(x) ? COOKIE_TLS : COOKIE_PLAIN), *csrf;
    size_t len = 0;
    int r;

    if (!cookie || x->conn->peer || x->route->scope == API_SCOPE_ANY)
        return 0;
    csrf = csrf_of(x, &len);
    if (!origin_is_ours(x, method) || !csrf || !secret_ok(csrf, len) || !secret_ok(cookie, strlen(cookie)))
        return fault_set(fault, 403, API_PROBLEM_FORBIDDEN, "a session is only for the dashboard's own page");
    r = api_fields_adds(&x->fields, API_FIELD_SESSION, cookie);
    r = r < 0 ? r : api_fields_add(&x->fields, API_FIELD_CSRF, csrf, len);
    return r < 0 ? r : 1;
}

static void set_cookie(struct front_exchange *x, unsigned status, struct MHD_Response *r, const char *value, const char *age) {
    char text[API_BEARER_MAX + 160];
    const char *const other[] = {MHD_HTTP_HEADER_SET_COOKIE, text, NULL};

    snprintf(text, sizeof text, "%s=%s; Path=/; HttpOnly; SameSite=Strict%s%s", is_tls(x) ? COOKIE_TLS : COOKIE_PLAIN, value,
             is_tls(x) ? "; Secure" : "", age);
    front_answer_with(x, status, r, status == 204 ? NULL : "application/json", other);
    explicit_bzero(text, sizeof text);
}

void front_session_begin(struct front_exchange *x, unsigned status, struct api_msg *m) {
    const char *cookie = api_msg_text(m, 0), *json = api_msg_text(m, 1);

    set_cookie(x, status, MHD_create_response_from_buffer(strlen(json), (void *)(uintptr_t)json, MHD_RESPMEM_MUST_COPY), cookie,
               "");
    front_answer_ready(x);
}

void front_session_end(struct front_exchange *x) {
    set_cookie(x, 204, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT), "", "; Max-Age=0");
    front_answer_ready(x);
}
