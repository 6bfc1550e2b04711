/* What flow_secret.c, flow_cover.c and flow_token.c share: what a request has to do with credentials. */
#pragma once

#include "base/secret.h"
#include "base/sha256.h"
#include "gateway/credential.h"
#include "gateway/flow_http.h"
#include "gateway/sigv4.h"

struct broker_call;

enum { TOKEN_ANSWER_MAX = 256 * 1024, TOKEN_REQUEST_MAX = 64 * 1024 };

/* A request to the token endpoint of a credential (OAuth). */
struct flow_token {
    bool on;
    bool refresh;  /* wants a new one for the old one's placeholder: answered here, the broker has it long since */
    bool catching; /* the answer is taken in whole: its tokens go to the broker, the client gets the placeholder */
    bool too_large;
    uint32_t index;
    char name[CREDENTIAL_NAME_MAX + 1], placeholder[PLACEHOLDER_MAX + 1];
    struct secret answer;
};

struct flow_secret {
    struct placeholders *placeholders;
    struct cred_plan plan;
    size_t at; /* of plan: the next one */
    struct broker_call *call;
    struct cred_body body;
    bool collecting;
    char *canonical; /* SigV4 */
    bool needs_hash; /* of the body, behind it */
    char hash[SHA256_HEX_SIZE];
    struct flow_token token;
    struct finder *cover; /* the values; NULL: none was put in */
    struct finder_stream back;
};

/* flow_cover.c: the broker's answer, into the request; its values are covered in the answer from now on. -errno */
int flow_secret_put(struct flow_request *q, const struct cred_put *put, const uint8_t *data, size_t len);

/* flow_token.c */
uint32_t flow_token_begin(struct flow_request *q, const struct httpx_request *req); /* the grant, or UINT32_MAX */
void flow_token_collected(struct flow_request *q, const uint8_t *body, size_t len);
bool flow_token_answer(struct flow_request *q);           /* true: it was answered here */
bool flow_token_head(struct flow_request *q, int status); /* true: the body of the answer will be another one */
/* False: not caught, goes on as it is. */
bool flow_token_receiving(struct flow_request *q, const uint8_t *data, size_t len, bool end, struct buf *out);
