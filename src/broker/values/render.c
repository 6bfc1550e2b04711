/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a value as a request needs it. */
#include "broker/values/render.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "broker/values/awssign.h"

bool render_put(struct secret *work, const void *p, size_t len) {
    if (len > work->cap - work->len)
        return false;
    if (len)
        memcpy(work->p + work->len, p, len);
    work->len += len;
    return true;
}

static int render_header(const struct credential *c, const struct secret *value, struct secret *work, struct broker_part *ret) {
    const char *hole = strstr(c->format, "{}");
    size_t begin = work->len;

    if (!hole)
        return -EINVAL;
    if (!render_put(work, c->format, (size_t)(hole - c->format)) || !render_put(work, value->p, value->len) ||
        !render_put(work, hole + 2, strlen(hole + 2)))
        return -E2BIG;
    *ret = (struct broker_part){work->p + begin, work->len - begin};
    return 0;
}

static int render_basic(const struct credential *c, const struct secret *value, struct secret *work, struct broker_part *ret) {
    static const char word[] = "Basic ";
    size_t plain = work->len, plain_len, begin;

    if (!render_put(work, c->user, strlen(c->user)) || !render_put(work, ":", 1) || !render_put(work, value->p, value->len))
        return -E2BIG;
    plain_len = work->len - plain;
    begin = work->len;
    if (!render_put(work, word, sizeof word - 1) || work->cap - work->len < (plain_len + 2) / 3 * 4 + 1)
        return -E2BIG;
    work->len += (size_t)EVP_EncodeBlock((uint8_t *)work->p + work->len, (const uint8_t *)work->p + plain, (int)plain_len);
    *ret = (struct broker_part){work->p + begin, work->len - begin};
    return 0;
}

/* As it is: the gate encodes it. */
static int render_query(const struct credential *c UNUSED, const struct secret *value, struct secret *work UNUSED,
                        struct broker_part *ret) {
    *ret = (struct broker_part){value->p, value->len};
    return 0;
}

static int (*const places[CREDENTIAL_PLACES])(const struct credential *c, const struct secret *value, struct secret *work,
                                              struct broker_part *ret) = {
    [PLACE_HEADER] = render_header, [PLACE_BASIC] = render_basic, [PLACE_QUERY] = render_query};

/* What must not be readable inside. */
static int render_cover(const struct credential *c, const struct secret *value, struct secret *work, struct broker_part *parts) {
    int r;

    parts[2] = (struct broker_part){"", 0};
    if (c->place == PLACE_SIGV4)
        r = awssign_secrets(value, parts);
    else
        r = places[c->place](c, value, work, &parts[1]);
    if (c->place != PLACE_SIGV4)
        parts[0] = (struct broker_part){value->p, value->len};
    return r < 0 ? r : RENDER_COVER_PARTS;
}

int render_answer(const struct credential *c, const struct broker_request *req, const uint8_t *data, const struct secret *value,
                  struct secret *work, struct broker_part parts[static RENDER_PARTS_MAX]) {
    struct aws_request aws;
    int r;

    secret_drop(work);
    if (c->place >= CREDENTIAL_PLACES)
        return -EINVAL;
    if (req->type == BROKER_COVER)
        return render_cover(c, value, work, parts);
    if (c->place == PLACE_SIGV4) {
        r = awssign_parse((const char *)data, req->len, &aws);
        r = r < 0 ? r : awssign_make(c, &aws, value, work, parts);
        return r < 0 ? r : AWSSIGN_PARTS;
    }
    r = places[c->place](c, value, work, &parts[0]);
    parts[1] = (struct broker_part){value->p, value->len};
    return r < 0 ? r : 2;
}

int render_path(const struct credential *c, const struct broker_request *req, const uint8_t *data,
                char out[static BROKER_DATA_MAX], size_t *ret_len) {
    if ((c->place == PLACE_SIGV4) != (req->type == BROKER_SIGV4))
        return -EBADMSG;
    if (req->type == BROKER_SIGV4)
        return awssign_path(c, req, (const char *)data, out, ret_len);
    memcpy(out, data, req->len);
    *ret_len = req->len;
    return 0;
}
