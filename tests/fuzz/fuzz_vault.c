/* SPDX-License-Identifier: Apache-2.0 */
/* bawn-vault: the entries of an opened store, a store's head, what a token server answers, what a store holds for OAuth. */
#include "base/err.h"
#include "vault/oauth.h"
#include "vault/sealed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct credential credential = {.name = (char *)"x", .token_url = (char *)"https://x/"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(secret_done) struct secret s = {0}, to = {0}, text = {0};
    CLEANUP(oauth_state_done) struct oauth_state state = {0};
    struct sealed_head h;
    struct err err = {0};
    const char *p;
    size_t len;

    if (size > 64 * 1024 || secret_alloc(&s, size) < 0 || oauth_state_init(&state) < 0)
        return 0;
    secret_set(&s, data, size);
    sealed_head_read((const char *)data, size, &h, &err);
    if (sealed_find(&s, "a", &p, &len) == 0 && len && (p < s.p || p + len > s.p + s.len))
        __builtin_trap();
    sealed_change(&s, "a", &s, &to);
    if (oauth_answer_read(&credential, 200, &s, 1, &state, &err) == 0 && state.access.len == 0)
        __builtin_trap();
    if (oauth_state_read(&credential, &s, &state, &err) == 0 && oauth_state_write(&state, &text, &err) == 0) {
        CLEANUP(oauth_state_done) struct oauth_state again = {0};

        /* what we have written ourselves we can read */
        if (oauth_state_init(&again) == 0 && oauth_state_read(&credential, &text, &again, &err) < 0)
            __builtin_trap();
    }
    return 0;
}
