/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of an agent, and results of runs: whether they are one JSON object, with jansson as the second opinion; and any bytes as a JSON string. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proto/api/jsonline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(8 * size + 16);
    char *copy = malloc(size + 1); /* exactly as long: a byte too far is found */
    json_t *v;

    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (jsonline_is_object(copy, size)) {
        json_error_t error;

        v = json_loadb(copy, size, JSON_ALLOW_NUL, &error);
        /* Numbers that jansson cannot hold and lone surrogates are JSON all the same. */
        if (!v && json_error_code(&error) == json_error_invalid_syntax && !memchr(copy, '\\', size))
            BUG("an object that is none");
        json_decref(v);
    }
    jsonline_add_text(&text, copy, size);
    v = buf_ok(&text) ? json_loadb(text.data, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    if (!json_is_string(v))
        BUG("a text that is no JSON");
    json_decref(v);
    free(copy);
    return 0;
}
