#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/parse.h"
#include "broker/values.h"

enum { SECONDS_DIGITS = 10, SECONDS_MAX = 10 * 365 * 24 * 3600 };

/* "" or "0": the server does not say. */
static int read_seconds(const struct broker_part *p, uint64_t *ret) {
    char text[SECONDS_DIGITS + 1] = "0";

    if (p->len > SECONDS_DIGITS || memchr(p->p, 0, p->len))
        return -EBADMSG;
    memcpy(text, p->p, p->len);
    return parse_u64(text, 0, SECONDS_MAX, ret, NULL) < 0 ? -EBADMSG : 0;
}

static int take(struct broker *b, const struct broker_request *req, const uint8_t *data) {
    const struct credential *c;
    struct broker_part parts[3];
    uint64_t seconds;
    int r = judge_tokens(b, req);

    r = r < 0 ? r : broker_parts_read(data, req->len, parts, ARRAY_LEN(parts));
    r = r < 0 ? r : read_seconds(&parts[2], &seconds);
    if (r < 0)
        return r;
    c = &b->config.grants[req->index].c;
    if (credential_value_check(c, parts[0].p, parts[0].len, NULL) < 0 ||
        (parts[1].len && credential_value_check(c, parts[1].p, parts[1].len, NULL) < 0))
        return -EINVAL;
    return values_replace(b, req->index, &parts[0], &parts[1], seconds ? (uint64_t)time(NULL) + seconds : 0);
}

void tokens_request(struct broker *b, const struct broker_request *req, const uint8_t *data) {
    broker_answer_send(b, req->id, take(b, req, data), NULL, 0);
}
