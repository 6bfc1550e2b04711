/* SPDX-License-Identifier: Apache-2.0 */
/* git's index from a repository that somebody else wrote: no path it yields may be empty or too long, and every
 * object name lies in the file. */
#include "base/err.h"
#include "workspace/git/gitindex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t size;
};

static int each(const struct gitindex_entry *e, void *arg, struct err *err) {
    const struct input *in = arg;
    size_t len = strlen(e->path);

    if (len == 0 || len > GITINDEX_PATH_MAX)
        BUG("a path that cannot be");
    if (e->id < in->data || e->id + e->id_len > in->data + in->size)
        BUG("an object name from elsewhere");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {data, size};
    struct err err = {0};

    if (gitindex_parse(data, size, each, &in, &err) < 0 && err.msg[0] == 0)
        BUG("a failure without a message");
    return 0;
}
