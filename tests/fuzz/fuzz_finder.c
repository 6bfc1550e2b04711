/* SPDX-License-Identifier: Apache-2.0 */
/* Strings in bytes that pass: the same as a search that looks everywhere, however the bytes are cut. */
#include "base/err.h"
#include "gateway/secret/finder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATTERNS = 8 };

struct plain {
    const uint8_t *p[PATTERNS];
    size_t len[PATTERNS], n;
};

/* The longest pattern at this place; 0: none. */
static size_t naive_at(const struct plain *s, const uint8_t *text, size_t left) {
    size_t longest = 0;

    for (size_t i = 0; i < s->n; i++)
        if (s->len[i] <= left && s->len[i] > longest && memcmp(text, s->p[i], s->len[i]) == 0)
            longest = s->len[i];
    return longest;
}

static bool naive_ends_in(const struct plain *s, const uint8_t *text, size_t from, size_t to) {
    for (size_t i = 0; i < s->n; i++)
        for (size_t at = 0; at + s->len[i] <= to; at++)
            if (at + s->len[i] > from && memcmp(text + at, s->p[i], s->len[i]) == 0)
                return true;
    return false;
}

static void check_find(const struct finder *f, const struct plain *s, const uint8_t *text, size_t len) {
    struct finder_match m = {0};
    size_t at = 0;
    bool found = finder_find(f, text, len, &m);

    while (at < len && !naive_at(s, text + at, len - at))
        at++;
    if (found != (at < len) || (found && (m.at != at || m.len != naive_at(s, text + at, len - at))))
        BUG("another first match");
}

static void check_streams(const struct finder *f, const struct plain *s, const uint8_t *text, size_t len, size_t step) {
    struct finder_stream up = {0};
    uint32_t tag;

    for (size_t at = 0; at < len; at += step) {
        size_t n = MIN_OF(step, len - at);

        if (finder_watch(f, &up, text + at, n, &tag) != naive_ends_in(s, text, at, at + n))
            BUG("a match was not seen, or none was");
    }
    finder_stream_done(&up);
}

/* How many patterns, how long each piece is; then each pattern with its length; the rest is the text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct plain s = {.n = 0};
    struct finder *f = NULL;
    size_t many, step;

    if (size < 2 || finder_new(&f) < 0)
        return 0;
    many = data[0] % (PATTERNS + 1);
    step = 1 + data[1];
    data += 2;
    size -= 2;
    for (size_t i = 0; i < many && size; i++) {
        size_t n = MIN_OF((size_t)data[0], size - 1);

        if (finder_add(f, (const char *)data + 1, n, (uint32_t)i) < 0)
            BUG("a pattern was not taken");
        if (n >= FINDER_MIN) {
            s.p[s.n] = data + 1;
            s.len[s.n++] = n;
        }
        data += 1 + n;
        size -= 1 + n;
    }
    if (finder_build(f) < 0)
        BUG("not built");
    check_find(f, &s, data, size);
    check_streams(f, &s, data, size, step);
    finder_free(f);
    return 0;
}
