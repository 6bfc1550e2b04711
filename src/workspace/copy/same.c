/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing two open files. */
#include "workspace/copy/same.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/xattrs.h"

enum { BLOCK = 64 * 1024 };

static int same_blocks(int a, int b, uint64_t max) {
    char x[BLOCK], y[BLOCK];

    for (uint64_t at = 0; at <= max; at += BLOCK) {
        ssize_t n = fd_pread_full(a, x, BLOCK, (off_t)at), m = fd_pread_full(b, y, BLOCK, (off_t)at);

        if (n < 0 || m < 0)
            return (int)(n < 0 ? n : m);
        if (n != m || memcmp(x, y, (size_t)n) != 0)
            return 0;
        if (n < BLOCK)
            return 1;
    }
    return 0;
}

int same_content(int a, int b, uint64_t max) {
    struct stat x, y;

    if (fstat(a, &x) < 0 || fstat(b, &y) < 0)
        return -errno;
    if (!S_ISREG(x.st_mode) || !S_ISREG(y.st_mode) || x.st_size != y.st_size || (uint64_t)x.st_size > max)
        return 0;
    return x.st_dev == y.st_dev && x.st_ino == y.st_ino ? 1 : same_blocks(a, b, max);
}

int same_xattrs(int a, int b) {
    CLEANUP(buf_done) struct buf x = BUF_INIT(XATTRS_MAX), y = BUF_INIT(XATTRS_MAX);
    int r = xattrs_read(a, &x);

    r = r < 0 ? r : xattrs_read(b, &y);
    return r < 0 ? r : x.len == y.len && memcmp(buf_str(&x), buf_str(&y), x.len) == 0;
}
