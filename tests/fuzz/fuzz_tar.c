/* SPDX-License-Identifier: Apache-2.0 */
/* Archives: the same entries and bytes, however the stream is cut; nothing beyond the ceilings. */
#include <string.h>

#include "base/err.h"
#include "base/sha256.h"
#include "proto/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct pieces_source {
    const uint8_t *data;
    size_t len, step;
    uint8_t *copy; /* of exactly the size that is handed out */
};

static ssize_t give(void *arg, const unsigned char **ret, struct err *err UNUSED) {
    struct pieces_source *s = arg;
    size_t n = MIN_OF(s->step, s->len);

    free(s->copy);
    s->copy = malloc(n ? n : 1);
    if (!s->copy)
        return 0;
    memcpy(s->copy, s->data, n);
    s->data += n;
    s->len -= n;
    *ret = s->copy;
    return (ssize_t)n;
}

static void check_entry(const struct tar_entry *e) {
    if (memchr(e->path, 0, sizeof e->path) == NULL || memchr(e->target, 0, sizeof e->target) == NULL || !e->path[0])
        BUG("a name without an end");
    if (e->mode > 07777 || e->n_xattrs > TAR_XATTRS_MAX || e->n_pieces > TAR_SPARSE_MAX || e->mtime_ns > 999999999)
        BUG("an entry without its ceilings");
    for (size_t i = 0; i < e->n_xattrs; i++)
        if (strlen(e->xattrs[i].name) > TAR_EXTENDED_MAX)
            BUG("an attribute without an end");
}

static void read_all(const uint8_t *data, size_t size, size_t step, unsigned char out[static SHA256_LEN]) {
    struct pieces_source s = {data, size, step, NULL};
    struct tar t = {.more = give, .arg = &s};
    struct sha256 h;
    struct err err = {0};
    const unsigned char *p;
    ssize_t n;
    int r;

    sha256_init(&h);
    while ((r = tar_next(&t, &err)) > 0) {
        uint64_t got = 0;

        check_entry(&t.entry);
        sha256_add(&h, t.entry.path, strlen(t.entry.path) + 1);
        sha256_add(&h, t.entry.target, strlen(t.entry.target) + 1);
        sha256_add(&h, &t.entry.size, sizeof t.entry.size);
        sha256_add(&h, &t.entry.mtime, sizeof t.entry.mtime);
        while ((n = tar_data(&t, &p, &err)) > 0) {
            got += (uint64_t)n;
            sha256_add(&h, p, (size_t)n);
        }
        if (n == 0 && got != t.entry.packed)
            BUG("data of another length");
    }
    sha256_add(&h, &r, sizeof r);
    sha256_end(&h, out);
    tar_done(&t);
    free(s.copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char whole[SHA256_LEN], cut[SHA256_LEN];

    read_all(data, size, size ? size : 1, whole);
    read_all(data, size, 77, cut);
    if (memcmp(whole, cut, sizeof whole) != 0)
        BUG("an archive that depends on how it is cut");
    return 0;
}
