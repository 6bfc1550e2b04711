/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of commands, redacted into a line of the audit log; and lines of a log that may be anybody's work by now. */
#include <jansson.h>
#include <stdlib.h>

#include "audit/audit.h"
#include "audit/chain.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARGUMENTS = 16 };

/* Whatever the bytes are, what is written is one JSON object, in ASCII or UTF-8, without a line break. */
static void check_arguments(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf members = BUF_INIT(AUDIT_LINE_MAX), object = BUF_INIT(2 * AUDIT_LINE_MAX);
    CLEANUP(freep) char *bytes = malloc(size + 1);
    char *argv[ARGUMENTS + 1] = {0};
    size_t argc = 0;
    json_t *v;

    if (!bytes)
        return;
    memcpy(bytes, data, size);
    bytes[size] = 0;
    for (size_t at = 0; at < size && argc < ARGUMENTS; at += strlen(bytes + at) + 1)
        argv[argc++] = bytes + at;
    audit_add_argv(&members, argv, argc);
    if (!buf_ok(&members))
        BUG("arguments that do not fit into a line");
    buf_addf(&object, "{%s}", buf_str(&members));
    v = json_loads(buf_str(&object), JSON_REJECT_DUPLICATES, NULL);
    if (!v || strchr(buf_str(&object), '\n'))
        BUG("not one line of JSON");
    json_decref(v);
}

static void check_line(const uint8_t *data, size_t size) {
    struct chain_line line;
    char *copy = malloc(size ? size : 1); /* of exactly that size */

    if (!copy)
        return;
    memcpy(copy, data, size);
    if (chain_line_read(copy, size, &line) == 0 && (line.seq == 0 || strlen(line.hash) != 64 || strlen(line.prev) != 64))
        BUG("a line that is none");
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_arguments(data, size);
    check_line(data, size);
    return 0;
}
