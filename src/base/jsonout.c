/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON. */
#include "base/jsonout.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/strv.h"

/* After white space the comma is there already (jsonout_break(), or the one before a member). */
static bool wants_comma(const struct buf *b) {
    return b->len && !strchr("{[ \n:", b->data[b->len - 1]);
}

void jsonout_key(struct jsonout *j, const char *key) {
    if (wants_comma(j->to))
        buf_adds(j->to, j->compact ? "," : ", ");
    if (!key)
        return;
    buf_addc(j->to, '"'); /* one by one: buf_addf() takes longer, and the network log has a dozen keys for each request */
    buf_adds(j->to, key);
    buf_adds(j->to, j->compact ? "\":" : "\": ");
}

void jsonout_break(struct jsonout *j, const char *space) {
    buf_adds(j->to, wants_comma(j->to) ? "," : "");
    buf_adds(j->to, space);
}

void jsonout_open(struct jsonout *j, const char *key, char bracket) {
    jsonout_key(j, key);
    buf_addc(j->to, bracket);
}

void jsonout_close(struct jsonout *j, char bracket) {
    buf_addc(j->to, bracket);
}

void jsonout_text(struct jsonout *j, const char *key, const char *value) {
    jsonout_key(j, key);
    if (value)
        buf_add_json(j->to, value);
    else
        buf_adds(j->to, "null");
}

void jsonout_u64(struct jsonout *j, const char *key, uint64_t value) {
    jsonout_key(j, key);
    buf_addf(j->to, "%" PRIu64, value);
}

void jsonout_int(struct jsonout *j, const char *key, int64_t value) {
    jsonout_key(j, key);
    buf_addf(j->to, "%" PRIi64, value);
}

void jsonout_bool(struct jsonout *j, const char *key, bool value) {
    jsonout_key(j, key);
    buf_adds(j->to, value ? "true" : "false");
}

void jsonout_null(struct jsonout *j, const char *key) {
    jsonout_text(j, key, NULL);
}

void jsonout_u64_if(struct jsonout *j, const char *key, bool known, uint64_t value) {
    if (known)
        jsonout_u64(j, key, value);
    else
        jsonout_null(j, key);
}

void jsonout_strings(struct jsonout *j, const char *key, char *const *v, size_t n) {
    jsonout_open(j, key, '[');
    for (size_t i = 0; i < n; i++)
        jsonout_text(j, NULL, v[i]);
    jsonout_close(j, ']');
}

void jsonout_list(struct jsonout *j, const char *key, const struct strv *list) {
    jsonout_strings(j, key, list->v, list->len);
}

void jsonout_time(struct jsonout *j, const char *key, uint64_t ns) {
    char text[24];

    format_time(ns, text);
    jsonout_text(j, key, text[0] ? text : NULL);
}
