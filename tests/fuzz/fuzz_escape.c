/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of an agent's, shown: no control character, nothing deceptive and nothing but UTF-8 may come out; JSON must be JSON. */
#include <jansson.h>

#include "base/str.h"
#include "review/report/escape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_MAX = 64 * 1024 * 1024 };

static void check_plain(const struct buf *b) {
    const char *s = buf_str(b);

    if (strlen(s) != b->len || !str_is_utf8(s))
        BUG("not UTF-8");
    for (size_t i = 0; i < b->len; i++)
        if ((unsigned char)s[i] < 0x20 && s[i] != '\t')
            BUG("a control character");
    if (strstr(s, "\xe2\x80\xae") || strstr(s, "\xe2\x80\x8b") || strstr(s, "\xc2\x9b"))
        BUG("a deceptive character");
}

static void check_json(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUT_MAX);
    json_error_t error;
    json_t *value;

    escape_json(&b, (const char *)data, size);
    check_plain(&b);
    value = json_loads(buf_str(&b), JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!value)
        BUG("not JSON");
    json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUT_MAX), name = BUF_INIT(OUT_MAX), uri = BUF_INIT(OUT_MAX);
    CLEANUP(freep) char *string = strndup((const char *)data, size);

    escape_content(&b, (const char *)data, size, false);
    check_plain(&b);
    check_json(data, size);
    escape_git_name(&name, "a/", string);
    check_plain(&name);
    escape_uri(&uri, string);
    check_plain(&uri);
    return 0;
}
