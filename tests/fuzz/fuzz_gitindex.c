/* git's index from a repository that somebody else wrote: no path it yields may be empty or too long. */
#include "base/err.h"
#include "workspace/gitindex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int each(const char *path, void *arg, struct err *err) {
    size_t len = strlen(path);

    if (len == 0 || len > GITINDEX_PATH_MAX)
        BUG("a path that cannot be");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err = {0};

    if (gitindex_parse(data, size, each, NULL, &err) < 0 && err.msg[0] == 0)
        BUG("a failure without a message");
    return 0;
}
