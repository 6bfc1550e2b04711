/* SPDX-License-Identifier: Apache-2.0 */
/* Punycode (RFC 3492). */
#include "policy/host/punycode.h"

#include <errno.h>

/* The names are those of RFC 3492, section 5. */
enum { BASE = 36, TMIN = 1, TMAX = 26, SKEW = 38, DAMP = 700, INITIAL_BIAS = 72, INITIAL_N = 128, POINT_MAX = 0x10ffff };

static uint32_t adapt(uint32_t delta, uint32_t points, bool first) {
    uint32_t k = 0;

    delta = first ? delta / DAMP : delta / 2;
    delta += delta / points;
    for (; delta > (BASE - TMIN) * TMAX / 2; k += BASE)
        delta /= BASE - TMIN;
    return k + (BASE - TMIN + 1) * delta / (delta + SKEW);
}

static uint32_t threshold(uint32_t k, uint32_t bias) {
    if (k <= bias)
        return TMIN;
    return MIN_OF(k - bias, (uint32_t)TMAX);
}

static char digit(uint32_t d) {
    return (char)(d < 26 ? 'a' + d : '0' + (d - 26));
}

static uint32_t digit_value(char c) {
    if (c >= 'a' && c <= 'z')
        return (uint32_t)(c - 'a');
    if (c >= 'A' && c <= 'Z')
        return (uint32_t)(c - 'A');
    if (c >= '0' && c <= '9')
        return (uint32_t)(c - '0') + 26;
    return BASE;
}

struct punycode_out {
    char *data;
    size_t len, cap;
};

static bool put_byte(struct punycode_out *o, char c) {
    if (o->len >= o->cap)
        return false;
    o->data[o->len++] = c;
    return true;
}

static bool put_delta(struct punycode_out *o, uint32_t q, uint32_t bias) {
    for (uint32_t k = BASE;; k += BASE) {
        uint32_t t = threshold(k, bias);

        if (q < t)
            return put_byte(o, digit(q));
        if (!put_byte(o, digit(t + (q - t) % (BASE - t))))
            return false;
        q = (q - t) / (BASE - t);
    }
}

static uint32_t next_point(const uint32_t *points, size_t len, uint32_t n) {
    uint32_t m = UINT32_MAX;

    for (size_t i = 0; i < len; i++)
        if (points[i] >= n && points[i] < m)
            m = points[i];
    return m;
}

int punycode_encode(const uint32_t *points, size_t len, char *out, size_t cap) {
    uint32_t n = INITIAL_N, delta = 0, bias = INITIAL_BIAS, basic = 0, done;
    struct punycode_out o = {out, 0, cap};

    if (len > PUNYCODE_POINTS_MAX)
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        if (points[i] > POINT_MAX || (points[i] < INITIAL_N && !put_byte(&o, (char)points[i])))
            return -EINVAL;
        basic += points[i] < INITIAL_N;
    }
    if (basic && !put_byte(&o, '-'))
        return -EINVAL;
    for (done = basic; done < len; delta++, n++) {
        uint32_t m = next_point(points, len, n);

        delta += (m - n) * (done + 1); /* at most 0x10ffff * 64: no overflow */
        n = m;
        for (size_t i = 0; i < len; i++) {
            delta += points[i] < n;
            if (points[i] != n)
                continue;
            if (!put_delta(&o, delta, bias))
                return -EINVAL;
            bias = adapt(delta, done + 1, done == basic);
            delta = 0;
            done++;
        }
    }
    return (int)o.len;
}

/* One generalised variable-length integer from *at on, added to *i. */
static bool take_delta(const char *text, size_t len, size_t *at, uint32_t bias, uint32_t *i) {
    uint32_t w = 1;

    for (uint32_t k = BASE; *at < len; k += BASE) {
        uint32_t d = digit_value(text[(*at)++]), t = threshold(k, bias), add;

        if (d >= BASE || __builtin_mul_overflow(d, w, &add) || __builtin_add_overflow(*i, add, i))
            return false;
        if (d < t)
            return true;
        if (__builtin_mul_overflow(w, BASE - t, &w))
            return false;
    }
    return false;
}

int punycode_decode(const char *text, size_t len, uint32_t *out, size_t cap) {
    uint32_t n = INITIAL_N, bias = INITIAL_BIAS, i = 0;
    size_t count = 0, at = 0;

    for (size_t k = len; k > 0 && !at; k--)
        if (text[k - 1] == '-')
            at = k;
    for (size_t k = 0; at && k < at - 1; k++) {
        if ((unsigned char)text[k] >= INITIAL_N || count >= cap)
            return -EINVAL;
        out[count++] = (unsigned char)text[k];
    }
    while (at < len) {
        uint32_t old = i;

        if (!take_delta(text, len, &at, bias, &i) || count >= cap)
            return -EINVAL;
        bias = adapt(i - old, (uint32_t)count + 1, old == 0);
        if (i / (count + 1) > POINT_MAX - n)
            return -EINVAL;
        n += i / (uint32_t)(count + 1);
        i %= (uint32_t)(count + 1);
        memmove(out + i + 1, out + i, (count - i) * sizeof *out);
        out[i++] = n;
        count++;
    }
    return (int)count;
}
