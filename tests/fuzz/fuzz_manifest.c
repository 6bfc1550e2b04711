/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest reader: what it accepts comes out again as the same bytes, sorted, and every path stays below its folder. */
#include "base/str.h"
#include "workspace/copy/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *path) {
    if (path[0] == '/' || path[0] == 0 || str_eq(path, "..") || str_starts(path, "../") || strstr(path, "/../") ||
        str_ends(path, "/..") || str_ends(path, "/"))
        BUG("a path that leads out");
}

static void check_sorted(const struct manifest *m) {
    for (size_t i = 0; i < manifest_count(m); i++) {
        const struct manifest_entry *e = manifest_at(m, i);

        check_path(e->path);
        if (i > 0 && strcmp(manifest_at(m, i - 1)->path, e->path) >= 0)
            BUG("not sorted");
        if (manifest_find(m, e->path) != e)
            BUG("an entry that is not found");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(manifest_freep) struct manifest *m = NULL;
    CLEANUP(manifest_freep) struct manifest *again = NULL;
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANIFEST_FILE_MAX);
    struct err err = {0};

    if (manifest_parse((const char *)data, size, &m, &err) < 0) {
        if (err.msg[0] == 0)
            BUG("a failure without a message");
        return 0;
    }
    check_sorted(m);
    manifest_format(m, &b);
    if (!buf_ok(&b) || b.len != size || manifest_parse(b.data, b.len, &again, &err) < 0)
        BUG("what was written cannot be read");
    while (manifest_count(again) > 0) {
        manifest_drop(again, manifest_at(again, manifest_count(again) / 2)->path);
        if (manifest_count(again) > 0 && !manifest_find(again, manifest_at(again, 0)->path))
            BUG("dropping one lost another");
    }
    return 0;
}
