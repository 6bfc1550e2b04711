/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of one file. A file that grows is copied as long as it was; one that is all holes costs nothing on either side. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "os/copy.h"
#include "os/fd.h"
#include "workspace/copy/transfer.h"

enum { CHUNK = 8 * 1024 * 1024, BY_HAND = 64 * 1024 };

int transfer_pour(int from, int to, uint64_t size, uint64_t *ret_bytes) {
    char part[BY_HAND];
    uint64_t done = 0;

    while (done < size) {
        ssize_t n = fd_read_some(from, part, (size_t)MIN_OF(size - done, sizeof part));
        int r;

        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        r = fd_write_all(to, part, (size_t)n);
        if (r < 0)
            return r;
        done += (uint64_t)n;
    }
    *ret_bytes = done;
    return 0;
}

/* From *at to end, both with data at the source; *at is where it came to. */
static int copy_data(int from, int to, off_t *at, off_t end) {
    bool by_hand = false;

    while (*at < end) {
        ssize_t n = copy_piece(from, to, *at, (size_t)MIN_OF(end - *at, CHUNK), &by_hand);

        if (n <= 0)
            return (int)n;
        *at += n;
    }
    return 0;
}

/* No such call: all of it is data. -ENXIO: nothing but a hole up to the end. */
static off_t seek(int fd, off_t at, int whence, off_t otherwise) {
    off_t r = lseek(fd, at, whence);

    return r >= 0 ? r : errno == ENXIO ? -ENXIO : otherwise;
}

/* Nothing more comes: a hole up to the end, or the file has become shorter. */
static int end_at(int from, int to, off_t size) {
    off_t end = lseek(from, 0, SEEK_END);

    return end < 0 || (end < size && ftruncate(to, end) < 0) ? -errno : 0;
}

static int copy_pieces(int from, int to, off_t size) {
    off_t at = 0;

    while (at < size) {
        off_t data = seek(from, at, SEEK_DATA, at), hole, want;
        int r;

        if (data == -ENXIO)
            return end_at(from, to, size);
        if (data >= size)
            return 0;
        hole = seek(from, data, SEEK_HOLE, size);
        want = hole == -ENXIO ? size : MIN_OF(hole, size);
        at = data;
        r = copy_data(from, to, &at, want);
        if (r < 0)
            return r;
        if (at < want) /* it was cut meanwhile */
            return ftruncate(to, at) < 0 ? -errno : 0;
    }
    return 0;
}

int transfer_content(int from, int to, uint64_t size, uint64_t *ret_bytes) {
    struct stat st;
    int r;

    if (size > INT64_MAX)
        return -EFBIG;
    /* Shared blocks: what the file has become since is shared too, so it is cut to what was looked at. */
    if (size && ioctl(to, FICLONE, from) == 0)
        r = 0;
    else
        r = ftruncate(to, (off_t)size) < 0 ? -errno : copy_pieces(from, to, (off_t)size);
    if (r < 0)
        return r;
    if (fstat(to, &st) < 0 || ((uint64_t)st.st_size > size && ftruncate(to, (off_t)size) < 0))
        return -errno;
    *ret_bytes = MIN_OF((uint64_t)st.st_size, size);
    return 0;
}
