/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/secret/cover_ends.h"

#include <string.h>
#include <strings.h>

enum { GRPC_HEAD = 5 };

static bool type_is(const char *type, size_t len, const char *want) {
    return strlen(want) == len && strncasecmp(type, want, len) == 0;
}

static bool type_ends(const char *type, size_t len, const char *end) {
    size_t n = strlen(end);

    return len > n && strncasecmp(type + len - n, end, n) == 0;
}

void cover_ends_init(struct cover_ends *e, const char *type) {
    static const struct {
        const char *type;
        enum cover_ends_kind kind;
    } types[] = {
        {"text/event-stream", ENDS_EVENT},    {"application/json", ENDS_LINE},     {"application/x-ndjson", ENDS_LINE},
        {"application/ndjson", ENDS_LINE},    {"application/jsonl", ENDS_LINE},    {"application/x-jsonlines", ENDS_LINE},
        {"application/jsonlines", ENDS_LINE}, {"application/json-seq", ENDS_LINE}, {"application/grpc", ENDS_GRPC},
    };
    size_t len = type ? strcspn(type, "; \t") : 0;

    *e = (struct cover_ends){.kind = type_ends(type ? type : "", len, "+json") ? ENDS_LINE : ENDS_NONE};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (type_is(type ? type : "", len, types[i].type))
            e->kind = types[i].kind;
    if (len > strlen("application/grpc+") && strncasecmp(type, "application/grpc+", strlen("application/grpc+")) == 0)
        e->kind = ENDS_GRPC;
}

static size_t take_events(struct cover_ends *e, const uint8_t *data, size_t len) {
    size_t end = COVER_HOLD;

    for (size_t i = 0; i < len; i++) {
        bool line_end = data[i] == '\n' || data[i] == '\r';

        if (data[i] == '\n' && e->after_cr) {
            e->after_cr = false;
            end = e->ended ? i + 1 : end; /* belongs to what has ended */
            continue;
        }
        e->after_cr = data[i] == '\r';
        e->ended = line_end && !e->in_line;
        end = e->ended ? i + 1 : end;
        e->in_line = !line_end;
    }
    return end;
}

static size_t take_lines(const uint8_t *data, size_t len) {
    const uint8_t *last = len ? memrchr(data, '\n', len) : NULL;

    return last ? (size_t)(last - data) + 1 : COVER_HOLD;
}

static size_t take_grpc(struct cover_ends *e, const uint8_t *data, size_t len) {
    size_t end = COVER_HOLD;

    for (size_t i = 0; i < len;) {
        if (e->have < GRPC_HEAD) {
            e->left = e->have ? e->left << 8 | data[i] : 0;
            e->have++;
            i++;
        } else {
            size_t n = MIN_OF((size_t)e->left, len - i);

            e->left -= (uint32_t)n;
            i += n;
        }
        if (e->have == GRPC_HEAD && !e->left) {
            end = i;
            e->have = 0;
        }
    }
    return end;
}

size_t cover_ends_take(struct cover_ends *e, const uint8_t *data, size_t len) {
    switch (e->kind) {
    case ENDS_NONE:
        return COVER_HOLD;
    case ENDS_EVENT:
        return take_events(e, data, len);
    case ENDS_LINE:
        return take_lines(data, len);
    case ENDS_GRPC:
        return take_grpc(e, data, len);
    }
    BUG("messages of no kind");
}
