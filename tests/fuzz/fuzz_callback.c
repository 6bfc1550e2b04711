/* SPDX-License-Identifier: Apache-2.0 */
/* What comes to the port of a login: a code comes of it only with the state, and never with a byte that a request must not have. */
#include <errno.h>

#include "base/str.h"
#include "vault/callback.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char state[] = "s%t";
    CLEANUP(secret_done) struct secret code = {0};
    CLEANUP(freep) char *copy = malloc(size + 1); /* so that a byte too far is noticed */
    int r;

    if (!copy || secret_alloc(&code, CALLBACK_CODE_MAX) < 0)
        return 0;
    memcpy(copy, data, size);
    r = callback_read(copy, size, "/cb", state, &code);
    if (r != 0 && r != -EACCES && r != -EAGAIN && r != -EINVAL)
        BUG("an unknown answer");
    if (r == 0 && (code.len == 0 || code.len > CALLBACK_CODE_MAX || !memmem(data, size, "state=s%25t", strlen("state=s%25t"))) &&
        !memmem(data, size, "%", 1))
        BUG("a code without its state");
    for (size_t i = 0; r == 0 && i < code.len; i++)
        if ((uint8_t)code.p[i] <= ' ' || code.p[i] == 0x7f)
            BUG("a code that ends a line");
    return 0;
}
