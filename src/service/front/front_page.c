/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the dashboard's own files. They are the same for everyone and hold no data, so that no session is needed; all data comes by the API.
 * The policy lets a page run and load only what is served here: no inline script or style, no other host, no frame, no form. Sinks that turn a
 * text into code take none at all (Trusted Types), so that a mistake in web/ is an error and not a way in.
 */
#include "service/front/front_page.h"

#include <string.h>

#include "base/str.h"
#include "service/front/front.h"
#include "service/front/front_uri.h"

static const char content_policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
                                     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                                     "require-trusted-types-for 'script'; trusted-types 'none'";
static const char *const page_headers[] = {"Content-Security-Policy",
                                           content_policy,
                                           "Cache-Control",
                                           "no-cache",
                                           "Cross-Origin-Opener-Policy",
                                           "same-origin",
                                           "Cross-Origin-Embedder-Policy",
                                           "require-corp",
                                           "Permissions-Policy",
                                           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
                                           NULL};

static const struct front_page *page_named(const char *path, size_t len) {
    for (size_t i = 0; i < n_front_pages; i++)
        if (strlen(front_pages[i].path) == len && memcmp(front_pages[i].path, path, len) == 0)
            return &front_pages[i];
    return NULL;
}

int front_page_find(struct front_exchange *x, const char *method, const struct uri *u, struct front_fault *fault) {
    const char *raw = x->conn->uri;

    (void)u; /* it is well-formed */
    x->page = page_named(raw, strcspn(raw, "?"));
    if (!x->page || str_eq(method, "GET") || str_eq(method, "HEAD"))
        return 0;
    x->page = NULL;
    return fault_set(fault, 405, API_PROBLEM_METHOD_NOT_ALLOWED, "this path has GET, HEAD");
}

void front_page_answer(struct front_exchange *x) {
    const struct front_page *p = x->page;
    const char *have = MHD_lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    bool same = have && str_eq(have, p->etag);
    /* libmicrohttpd does not write to it. */
    struct MHD_Response *r =
        MHD_create_response_from_buffer(same ? 0 : p->len, (void *)(uintptr_t)p->data, MHD_RESPMEM_PERSISTENT);

    front_answer_with(x, same ? 304 : 200, r, p->type, page_headers);
    if (x->response)
        MHD_add_response_header(x->response, MHD_HTTP_HEADER_ETAG, p->etag);
}
