/* SPDX-License-Identifier: Apache-2.0 */
/* What bawn-init decodes: whatever is accepted must stay within its bounds, and encode to the same bytes again. */
#include "base/buf.h"
#include "proto/initmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Touches every byte that a caller would, so that AddressSanitizer sees what points outside. */
static size_t weigh_texts(const struct init_text *t, size_t n) {
    size_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += strlen(t[i].dir) + strlen(t[i].origin);
        for (size_t k = 0; k < t[i].len; k++)
            sum += t[i].data[k] != 0;
    }
    return sum;
}

static size_t weigh(const struct init_start *s) {
    size_t n = strlen(s->cwd) + strlen(s->search_path) + strlen(s->guard_root);

    for (size_t i = 0; i < s->argc; i++)
        n += strlen(s->argv[i]);
    for (size_t i = 0; i < s->envc; i++)
        n += strlen(s->envp[i]);
    for (size_t i = 0; i < s->n_rules; i++)
        n += strlen(s->rules[i].path);
    return n + weigh_texts(s->hide, s->n_hide) + weigh_texts(s->protect, s->n_protect);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf again = BUF_INIT(INIT_START_MAX);
    struct init_start s = {0};
    char *bytes = malloc(size ? size : 1); /* of exactly that size */

    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    if (init_start_decode(bytes, size, &s) == 0) {
        if ((s.argc < 1) != !!(s.flags & INIT_FLAG_RESIDENT) || s.argv[s.argc] || s.envp[s.envc] || weigh(&s) > size)
            BUG("decoded more than there was");
        if (init_start_encode(&s, &again) < 0 || again.len != size || memcmp(again.data, data, size) != 0)
            BUG("encoding does not undo decoding");
        init_start_done(&s);
    } else if (s.argv || s.envp || s.rules || s.rlimits || s.hide || s.protect || s.cwd) {
        BUG("a failure that wrote something");
    }
    free(bytes);
    return 0;
}
