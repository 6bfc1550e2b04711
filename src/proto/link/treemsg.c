/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a tree on a byte stream. Numbers are little-endian. */
#include "proto/link/treemsg.h"

#include <errno.h>
#include <string.h>

static void put_number(uint8_t *p, uint64_t v, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_number(const uint8_t *p, unsigned n) {
    uint64_t v = 0;

    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

/* What a record may have. */
static const struct {
    uint16_t text_min, text_max;
    bool mode;
    uint64_t value_min, value_max;
} bounds[TREE_KINDS + 1] = {
    [TREE_TAKE] = {.value_max = TREE_ONE | 0777},
    [TREE_FOLDER] = {.text_min = 1, .text_max = TREE_NAME_MAX},
    [TREE_LEAVE] = {.mode = true, .value_max = INT64_MAX},
    [TREE_FILE] = {.text_min = 1, .text_max = TREE_NAME_MAX, .mode = true, .value_max = INT64_MAX},
    [TREE_DATA] = {.value_min = 1, .value_max = TREE_DATA_MAX},
    [TREE_HOLE] = {.value_min = 1, .value_max = INT64_MAX},
    [TREE_DONE] = {.value_max = 4095},
    [TREE_LINK] = {.text_min = 3, .text_max = TREE_TEXT_MAX},
    [TREE_LEFT] = {.text_max = TREE_NAME_MAX, .value_max = TREE_REASONS - 1},
    [TREE_NOTE] = {.text_min = 1, .text_max = TREE_TEXT_MAX},
    [TREE_COUNTS] = {.text_min = 8 * TREE_COUNT, .text_max = 8 * TREE_COUNT},
    [TREE_END] = {.text_max = TREE_TEXT_MAX, .value_max = 4095},
};

void tree_record_encode(const struct tree_record *r, uint8_t out[static TREE_HEADER]) {
    put_number(out, r->kind, 2);
    put_number(out + 2, r->len, 2);
    put_number(out + 4, r->mode, 4);
    put_number(out + 8, r->value, 8);
}

int tree_record_decode(const uint8_t in[static TREE_HEADER], struct tree_record *ret) {
    uint64_t kind = get_number(in, 2);
    struct tree_record r = {
        .len = (uint16_t)get_number(in + 2, 2), .mode = (uint32_t)get_number(in + 4, 4), .value = get_number(in + 8, 8)};

    if (kind < TREE_SEND || kind > TREE_KINDS || r.len < bounds[kind].text_min || r.len > bounds[kind].text_max ||
        r.mode > (bounds[kind].mode ? 0777 : 0) || r.value < bounds[kind].value_min || r.value > bounds[kind].value_max)
        return -EBADMSG;
    r.kind = (enum tree_kind)kind;
    *ret = r;
    return 0;
}

bool tree_name_ok(const char *name, size_t len) {
    if (len == 0 || len > TREE_NAME_MAX || memchr(name, 0, len) || memchr(name, '/', len))
        return false;
    return !(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

void tree_counts_encode(const uint64_t n[static TREE_COUNT], uint8_t out[static 8 * TREE_COUNT]) {
    for (size_t i = 0; i < TREE_COUNT; i++)
        put_number(out + 8 * i, n[i], 8);
}

void tree_counts_decode(const uint8_t in[static 8 * TREE_COUNT], uint64_t ret[static TREE_COUNT]) {
    for (size_t i = 0; i < TREE_COUNT; i++)
        ret[i] = get_number(in + 8 * i, 8);
}
