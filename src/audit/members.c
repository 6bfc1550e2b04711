/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "audit/audit.h"
#include "audit/chain.h"
#include "audit/redact.h"
#include "base/str.h"

/* A byte may need six in JSON, and all must fit into a line. */
enum { ARGUMENT_MAX = 256, ARGUMENTS_SHOWN = 64, ARGV_SHOWN_MAX = 24 * 1024 };

static void add_key(struct buf *b, const char *key) {
    buf_adds(b, b->len ? ",\"" : "\"");
    buf_adds(b, key);
    buf_adds(b, "\":");
}

void audit_add(struct buf *b, const char *key, const char *value) {
    if (!value)
        return;
    add_key(b, key);
    buf_add_json(b, value);
}

void audit_add_number(struct buf *b, const char *key, int64_t value) {
    add_key(b, key);
    buf_addf(b, "%" PRId64, value);
}

void audit_add_bool(struct buf *b, const char *key, bool value) {
    add_key(b, key);
    buf_adds(b, value ? "true" : "false");
}

/* Each with its NUL, so that "a b" and "a", "b" differ. */
static void add_digest(struct buf *b, char *const *argv, size_t argc) {
    char hex[SHA256_HEX_SIZE];
    struct sha256 h;

    sha256_init(&h);
    for (size_t i = 0; i < argc; i++)
        sha256_add(&h, argv[i], strlen(argv[i]) + 1);
    sha256_end_hex(&h, hex);
    audit_add(b, "argv_sha256", hex);
}

/* The cut never leaves half a character. */
static void cut(char *s) {
    size_t n = ARGUMENT_MAX;

    if (strlen(s) <= n)
        return;
    while (n && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    s[n] = 0;
}

void audit_add_argv(struct buf *b, char *const *argv, size_t argc) {
    size_t before = b->len;

    add_key(b, "argv");
    buf_addc(b, '[');
    for (size_t i = 0; i < argc && i < ARGUMENTS_SHOWN && b->len - before < ARGV_SHOWN_MAX; i++) {
        CLEANUP(freep) char *shown = redact_argument(argv, i);

        if (!shown) {
            b->failed = true;
            return;
        }
        cut(shown);
        buf_adds(b, i ? "," : "");
        buf_add_json(b, shown);
    }
    buf_addc(b, ']');
    audit_add_number(b, "argc", (int64_t)argc);
    add_digest(b, argv, argc);
}
