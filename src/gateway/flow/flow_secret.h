/* SPDX-License-Identifier: Apache-2.0 */
/* What flow_secret.c, flow_cover.c and flow_token.c share: what a request has to do with credentials. */
#pragma once

#include "base/secret.h"
#include "base/sha256.h"
#include "gateway/flow/flow_http.h"
#include "gateway/secret/cover_ends.h"
#include "gateway/secret/injection.h"
#include "gateway/secret/sigv4.h"
#include "gateway/secret/token_cover.h"

struct broker_call;

enum { TOKEN_REQUEST_MAX = 64 * 1024 };

/* What a request has to do with logins (OAuth). */
struct flow_token {
    bool watched; /* tokens in the answer are covered */
    bool on;      /* to a token or device endpoint: answered or refused here, and never sent on */
    bool reported;
    uint32_t index; /* of the grant whose placeholder is redeemed; UINT32_MAX: of none */
    char name[CREDENTIAL_NAME_MAX + 1];
    struct token_cover cover;
};

struct flow_secret {
    struct placeholders *placeholders;
    struct cred_plan plan;
    uint32_t
        extra[GRANTS_MAX]; /* grants that belong to this host and do not go into the request: their values are covered, too */
    size_t n_extra;
    size_t at; /* of plan, then of extra: the next one */
    struct broker_call *call;
    struct cred_body body;
    bool collecting;
    char *canonical; /* SigV4 */
    bool needs_hash; /* of the body, behind it */
    char hash[SHA256_HEX_SIZE];
    struct flow_token token;
    bool whole_only;     /* a part of a body would cut values: no Range, no 206 */
    struct cover *cover; /* the values; NULL: there is none */
    struct cover_stream back;
    struct cover_ends ends;
    bool is_websocket, fresh; /* fresh: bytes came since the last flow_secret_pause() */
    struct cover_ws websocket;
};

/* flow_cover.c: asks the server for what can be searched: nothing packed, nothing cut. -ENOMEM */
int flow_secret_want_plain(struct flow_secret *s, struct http_head *head);
/* Values of grants that do not go into the request, as the broker gives them. -errno */
int flow_secret_cover(struct flow_secret *s, const uint8_t *data, size_t len);
/* The broker's answer, into the request; its values are covered in the answer from now on. -errno */
int flow_secret_put(struct flow_request *q, const struct cred_put *put, const uint8_t *data, size_t len);

/* flow_secret.c: the value is not available, status says why. */
void flow_secret_unavailable(struct flow_request *q, const char *name, int status, struct policy_verdict *ret);

/* flow_token.c */
void flow_token_begin(struct flow_request *q, const struct httpx_request *req);
void flow_token_collected(struct flow_request *q, const uint8_t *body, size_t len);
/* A request that is `on`: its answer follows. False: *ret says why it is refused. */
bool flow_token_ask(struct flow_request *q, struct policy_verdict *ret);
void flow_token_head(struct flow_request *q, struct http_head *head);
/* Of one that is `watched`: what goes on. */
void flow_token_receiving(struct flow_request *q, const uint8_t *data, size_t len, bool end, struct buf *out);
