/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON file that still knows where its values stand. jansson tells a line and column only for broken syntax; for a value that is
 * well-formed but wrong the text is walked again, by the number of each member or element on the way (jansson keeps their order).
 */
#pragma once

#include <jansson.h>

#include "base/macros.h"

struct err;

enum { JSON_TEXT_DEPTH_MAX = 8 };

struct json_text {
    const char *name, *data; /* the caller's */
    size_t len;
    json_t *root; /* an object */
};

/* Fails with exit status 64 and "name:line:column: what is wrong". */
int json_text_parse(const char *name, const char *data, size_t len, size_t max, struct json_text *ret, struct err *err);
void json_text_done(struct json_text *t);

/* Which value: the way down from the root, and what to call it. */
struct json_at {
    const struct json_text *text;
    size_t steps[JSON_TEXT_DEPTH_MAX];
    const char *keys[JSON_TEXT_DEPTH_MAX]; /* NULL for an element of an array */
    size_t depth;
};

void json_enter(struct json_at *at, size_t index, const char *key);
void json_leave(struct json_at *at);
/* "policy.json:3:12: rules[0].host: <text>", exit status 64, -EINVAL. The second points at the key and says its name first. */
int json_fail(const struct json_at *at, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
int json_fail_key(const struct json_at *at, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same place in front of the message that err has already, if r is -EINVAL. */
int json_ctx(const struct json_at *at, int r, struct err *err);
