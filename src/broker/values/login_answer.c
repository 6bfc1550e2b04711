/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client inside that has logged in redeems the placeholder at the token endpoint, or renews it: what it is answered with by the gate. The
 * login itself was outside, and nothing of a token that is worth anything is here: of a JWT header and payload, which say who the user is.
 */
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "broker/values/values_priv.h"

/* All of a JWT but its signature; "" of anything else: an opaque token is a secret from the first byte on. */
static struct broker_part public_part(const struct secret *token) {
    static const char begin[] = "eyJ";
    const char *last = token->len > strlen(begin) ? memrchr(token->p, '.', token->len) : NULL;
    bool is_jwt = last && memcmp(token->p, begin, strlen(begin)) == 0 && memchr(token->p, '.', (size_t)(last - token->p)) &&
                  (size_t)(token->p + token->len - last) > 1;

    return is_jwt ? (struct broker_part){token->p, (size_t)(last - token->p)} : (struct broker_part){"", 0};
}

void login_give(struct broker *b, const struct value *s, const struct broker_request *req) {
    uint64_t now = (uint64_t)time(NULL);
    char seconds[24] = "";
    struct broker_part parts[] = {public_part(&s->value), {s->identity.p ? s->identity.p : "", s->identity.len}, {seconds, 0}};

    if (s->expires > now)
        parts[2].len = (size_t)snprintf(seconds, sizeof seconds, "%llu", (unsigned long long)(s->expires - now));
    broker_answer_parts(b, req->id, parts, ARRAY_LEN(parts));
}
