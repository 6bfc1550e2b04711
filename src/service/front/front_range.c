/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of answers. */
#include "service/front/front_range.h"

#include <errno.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"

enum { NUMBER_MAX = 20 };

/* "" is no number: *ret_is. */
static bool take_number(const char *from, const char *to, bool *ret_is, uint64_t *ret) {
    char text[NUMBER_MAX] = "";
    size_t len = (size_t)(to - from);

    *ret_is = len > 0;
    if (len >= sizeof text)
        return false;
    memcpy(text, from, len);
    return len == 0 || parse_u64(text, 0, INT64_MAX, ret, NULL) == 0;
}

int range_parse(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_len) {
    const char *dash = str_starts(header, "bytes=") ? strchr(header, '-') : NULL;
    uint64_t first = 0, last = 0;
    bool has_first, has_last;

    header += 6;
    if (!dash || !take_number(header, dash, &has_first, &first) || !take_number(dash + 1, dash + strlen(dash), &has_last, &last))
        return 0;
    if (!has_first && !has_last)
        return 0;
    if (!has_first) { /* the last so many */
        if (last == 0 || size == 0)
            return -ERANGE;
        first = last < size ? size - last : 0;
        last = size - 1;
    } else if (has_last && last < first) {
        return 0;
    } else if (!has_last || last >= size) {
        last = size ? size - 1 : 0;
    }
    if (first >= size)
        return -ERANGE;
    *ret_first = first;
    *ret_len = last - first + 1;
    return 1;
}
