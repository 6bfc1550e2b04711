/* SPDX-License-Identifier: Apache-2.0 */
/* Splits and decodes targets of requests. */
#include "service/front/front_uri.h"

#include <errno.h>
#include <string.h>

#include "base/hex.h"
#include "base/str.h"

void uri_done(struct uri *u) {
    free(u->own);
    *u = (struct uri){0};
}

/* In place; it only gets shorter. */
static int decode_text(char *text, bool plus, struct uri_text *ret) {
    size_t len = strlen(text), n = 0;

    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)text[i];

        if (c == '%') {
            c = hex_percent(text + i, len - i);
            if (c <= 0)
                return -EINVAL;
            i += 2;
        } else if (c < 0x21 || c == 0x7f) {
            return -EINVAL;
        } else if (plus && c == '+') {
            c = ' ';
        }
        text[n++] = (char)c;
    }
    text[n] = 0;
    if (!str_is_utf8(text))
        return -EINVAL;
    *ret = (struct uri_text){text, n};
    return 0;
}

static int split_path(char *path, struct uri *u) {
    char *next = path + 1; /* behind the first slash */

    while (next) {
        char *text = strsep(&next, "/");
        int r;

        if (u->n_segments >= URI_SEGMENTS_MAX)
            return -E2BIG;
        r = decode_text(text, false, &u->segment[u->n_segments++]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int split_query(char *query, struct uri *u) {
    while (query) {
        char *value = strsep(&query, "&"), *name = strsep(&value, "=");
        int r;

        if (!*name && !value)
            continue;
        if (u->n_query >= URI_QUERY_MAX)
            return -E2BIG;
        r = decode_text(name, true, &u->query[u->n_query].name);
        u->query[u->n_query].value = (struct uri_text){"", 0};
        if (r == 0 && value)
            r = decode_text(value, true, &u->query[u->n_query].value);
        if (r < 0)
            return r;
        u->n_query++;
    }
    return 0;
}

int uri_parse(const char *raw, struct uri *ret) {
    CLEANUP(uri_done) struct uri u = {0};
    char *query;
    int r;

    if (raw[0] != '/' || strchr(raw, '#'))
        return -EINVAL;
    if (strlen(raw) > URI_MAX)
        return -E2BIG;
    u.own = strdup(raw);
    if (!u.own)
        return -ENOMEM;
    query = u.own;
    strsep(&query, "?");
    r = split_path(u.own, &u);
    r = r < 0 ? r : split_query(query, &u);
    if (r < 0)
        return r;
    *ret = u;
    u = (struct uri){0};
    return 0;
}
