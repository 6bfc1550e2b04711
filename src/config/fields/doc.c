/* SPDX-License-Identifier: Apache-2.0 */
/* Reads configuration files from the disk. */
#include "config/fields/doc.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/err.h"
#include "os/fd.h"
#include "os/file.h"

int doc_read_fd(int fd, const char *path, struct jsonfile *ret, struct err *err) {
    CLEANUP(buf_done) struct buf bytes = BUF_INIT(DOC_SIZE_MAX);
    int r = file_read_fd(fd, 0, &bytes);

    if (r == -EINVAL)
        return err_usage(err, "%s:1:1: not a regular file", path);
    if (r == -EFBIG)
        return err_usage(err, "%s:1:1: the file has more than %d bytes", path, DOC_SIZE_MAX);
    if (r < 0)
        return err_sys(err, r, "read '%s'", path);
    return jsonfile_parse(path, buf_str(&bytes), bytes.len, DOC_SIZE_MAX, ret, err);
}

int doc_read(const char *path, struct jsonfile *ret, struct err *err) {
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int r;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0)
        return err_sys(err, -errno, "open '%s'", path);
    r = doc_read_fd(fd, path, ret, err);
    return r < 0 ? r : 1;
}
