/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says how the rest is cut. Whatever the cut: same output, nothing forbidden in it, stable when refiltered. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "proto/termfilter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t run(const uint8_t *in, size_t n, size_t chunk, uint8_t *out) {
    struct termfilter f;
    size_t len = 0;

    termfilter_init(&f);
    for (size_t i = 0; i < n; i += chunk)
        len += termfilter_feed(&f, in + i, MIN_OF(chunk, n - i), out + len);
    return len + termfilter_end(&f, out + len);
}

static void check_bytes(const uint8_t *out, size_t n) {
    for (size_t i = 0; i < n;) {
        char c[5] = {0};
        size_t len = 1;

        memcpy(c, out + i, MIN_OF(n - i, (size_t)4));
        if (out[i] && (len = str_utf8_len(c)) == 0)
            abort();
        if (out[i] == 0x05 || out[i] == 0x18 || out[i] == 0x7f || (out[i] == 0xc2 && out[i + 1] < 0xa0))
            abort();
        if (out[i] == 0x1b && (i + 1 == n || strchr("P_^Xk%Z", (char)out[i + 1])))
            abort();
        i += len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *whole, *cut, *twice;
    size_t n, m, k;

    if (size < 1)
        return 0;
    whole = malloc(TERMFILTER_OUT_MAX(size));
    cut = malloc(TERMFILTER_OUT_MAX(size));
    n = run(data + 1, size - 1, size, whole);
    m = run(data + 1, size - 1, 1 + data[0] % 16, cut);
    if (n != m || memcmp(whole, cut, n) != 0)
        abort();
    check_bytes(whole, n);
    twice = malloc(TERMFILTER_OUT_MAX(n));
    k = run(whole, n, 1 + data[0] / 16, twice);
    if (k != n || memcmp(whole, twice, n) != 0)
        abort();
    free(whole);
    free(cut);
    free(twice);
    return 0;
}
