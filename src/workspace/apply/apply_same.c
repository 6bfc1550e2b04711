/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/apply/apply_same.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "workspace/apply/apply.h"
#include "workspace/copy/place.h"
#include "workspace/copy/transfer.h"
#include "workspace/copy/xattrs.h"
#include "workspace/run/journal.h"

enum { TEXT_LOOK = 8 * 1024 };

bool apply_same_link(int root, const char *path, const char *target) {
    CLEANUP(freep) char *now = place_link_target(root, path);

    return target && now && str_eq(now, target);
}

bool apply_is_text(int fd) {
    char block[TEXT_LOOK];
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > APPLY_MERGE_MAX)
        return false;
    n = fd_pread_full(fd, block, sizeof block, 0);
    return n >= 0 && !memchr(block, 0, (size_t)n);
}

bool apply_link_leads_out(const char *path, const char *target) {
    unsigned depth = 0;

    for (const char *p = path; *p; p++)
        depth += *p == '/';
    return !transfer_link_stays(target, depth);
}

bool apply_path_ok(const char *path) {
    size_t len = strlen(path);

    if (len >= JOURNAL_PATH_MAX || !journal_is_path(path, len))
        return false;
    for (const char *p = path; *p; p += *p == '/') {
        len = strcspn(p, "/");
        if (len > NAME_MAX)
            return false;
        p += len;
    }
    return true;
}

bool apply_same_xattrs(int fd, const char *block, size_t len) {
    CLEANUP(buf_done) struct buf now = BUF_INIT(2 * XATTRS_MAX);

    return xattrs_read(fd, &now) == 0 && now.len == len && (len == 0 || memcmp(now.data, block, len) == 0);
}
