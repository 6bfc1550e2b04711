/* SPDX-License-Identifier: Apache-2.0 */
#include <llhttp.h>

#include "base/str.h"
#include "gateway/http/h1_head.h"

static int pause_there(llhttp_t *parser) {
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {.on_headers_complete = pause_there};

void h1_second_read(const struct buf *raw, bool request, struct h1_second *ret) {
    llhttp_errno_t r;
    llhttp_t p;

    llhttp_init(&p, request ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
    r = llhttp_execute(&p, buf_str(raw), raw->len);
    *ret = (struct h1_second){.ok = r == HPE_PAUSED, .unknown_method = r == HPE_INVALID_METHOD};
    if (!ret->ok)
        return;
    ret->minor = p.http_major == 1 ? p.http_minor : -1;
    ret->status = p.status_code;
    ret->method = request ? llhttp_method_name((llhttp_method_t)p.method) : NULL;
    ret->has_length = p.flags & F_CONTENT_LENGTH;
    ret->length = ret->has_length ? p.content_length : 0;
    ret->chunked = p.flags & F_CHUNKED;
}

bool h1_second_agrees(const struct h1_second *s, const struct h1_head *h, bool request) {
    if (!s->ok || s->minor != h->minor || s->has_length != h->has_length || s->length != h->length || s->chunked != h->chunked)
        return false;
    return request ? str_eq(s->method, h->method) : s->status == h->status;
}
