/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of the guard's spool. Must hold: path and content lie in the input, the path is a string, and no more is used than there is. */
#include <string.h>

#include "proto/guardmsg.h"
#include "workspace/run/spool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *bytes = (const char *)data, *end = bytes + size;
    struct spool_entry e;
    size_t used;

    for (uint64_t seq = 0; (used = spool_decode(bytes, (size_t)(end - bytes), seq, &e)) > 0; seq = e.head.seq + 1) {
        if (used > (size_t)(end - bytes) || strlen(e.path) != e.head.path_len || e.head.path_len > GUARD_PATH_MAX ||
            e.content + e.head.content_len + sizeof e.head.seq != bytes + used)
            BUG("an entry that cannot be");
        bytes += used;
    }
    return 0;
}
