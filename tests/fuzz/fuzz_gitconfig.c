/* SPDX-License-Identifier: Apache-2.0 */
/* git's configuration as an agent may have written it: no key, value or line is longer than the file. */
#include "base/err.h"
#include "workspace/git/gitconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int each(const char *key, const char *value, unsigned line, void *arg, struct err *err) {
    const size_t *size = arg;

    if (strlen(key) > *size + 2 || (value && strlen(value) > *size) || line == 0 || line > *size + 1)
        BUG("a key that cannot be");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err = {0};

    if (gitconfig_parse((const char *)data, size, each, &size, &err) < 0 && err.msg[0] == 0)
        BUG("a failure without a message");
    return 0;
}
