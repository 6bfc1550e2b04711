/* SPDX-License-Identifier: Apache-2.0 */
/* What keeper and bawn-init are asked to execute: whatever is accepted must stay within its bounds, make sense, and encode to the same
 * bytes again. */
#include "base/buf.h"
#include "proto/execreq.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Touches every byte that a caller would, so that AddressSanitizer sees what points outside. */
static size_t weigh(const struct exec_request *r) {
    size_t n = strlen(r->cwd);

    for (size_t i = 0; i < r->argc; i++)
        n += strlen(r->argv[i]);
    for (size_t i = 0; i < r->envc; i++)
        n += strlen(r->envp[i]);
    return n;
}

static void expect_sense(const struct exec_request *r) {
    if (r->argc < 1 || r->argv[r->argc] || r->envp[r->envc] || r->rows > UINT16_MAX || r->cols > UINT16_MAX)
        BUG("a request that makes no sense");
    if ((r->flags & ~(uint32_t)EXEC_FLAGS_ALL) || (r->cwd[0] && r->cwd[0] != '/'))
        BUG("a request that makes no sense");
    for (uint32_t tty = EXEC_TTY_STDIN; tty <= EXEC_TTY_STDERR; tty <<= 1)
        if ((r->flags & tty) && ((r->flags & tty << 3) || !(r->flags & EXEC_TTY)))
            BUG("a stream with two sources, or none");
    for (size_t i = 0; i < r->envc; i++)
        if (r->envp[i][0] == 0 || r->envp[i][0] == '=')
            BUG("a variable without a name");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf again = BUF_INIT(EXEC_REQUEST_MAX);
    struct exec_request r = {0};
    char *bytes = malloc(size ? size : 1); /* of exactly that size */

    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    if (exec_request_decode(bytes, size, &r) == 0) {
        expect_sense(&r);
        if (weigh(&r) > size)
            BUG("decoded more than there was");
        if (exec_request_encode(&r, &again) < 0 || again.len != size || memcmp(again.data, data, size) != 0)
            BUG("encoding does not undo decoding");
        exec_request_done(&r);
    } else if (r.argv || r.envp || r.cwd || r.argc) {
        BUG("a failure that wrote something");
    }
    free(bytes);
    return 0;
}
