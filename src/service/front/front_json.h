/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of clients: the body of a request to fields, by the rows of its route. */
#pragma once

#include "proto/api/apifield.h"
#include "service/front/front_fault.h"

enum {
    JSON_DEPTH_MAX = 16,     /* the deepest of openapi.yaml is 6 */
    JSON_VALUES_MAX = 20000, /* more than a request can have: each takes memory of its own */
};

/* 0, -EINVAL with *ret, -E2BIG: more than a request may have, -ENOMEM */
int front_json_fields(const char *data, size_t len, const struct api_route *r, struct api_fields *f, struct front_fault *ret);
