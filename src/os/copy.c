/* SPDX-License-Identifier: Apache-2.0 */
/* Copies content, sharing blocks where the file system can. */
#include "os/copy.h"

#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/fd.h"

enum { CHUNK = 1 << 20, BY_HAND = 64 * 1024 };

/* By reading and writing: for file systems whose files cannot be copied in the kernel. */
static ssize_t copy_by_hand(int from, int to) {
    char buf[BY_HAND];
    ssize_t n = fd_read_some(from, buf, sizeof buf);
    int r;

    if (n <= 0)
        return n;
    r = fd_write_all(to, buf, (size_t)n);
    return r < 0 ? r : n;
}

static bool is_no_way(int e) {
    return e == EXDEV || e == ENOSYS || e == EOPNOTSUPP || e == EINVAL || e == EPERM || e == ETXTBSY;
}

/* One piece at the current positions of both. *by_hand remembers that the kernel cannot do it. */
static ssize_t copy_piece(int from, int to, bool *by_hand) {
    ssize_t n;

    if (*by_hand)
        return copy_by_hand(from, to);
    do
        n = copy_file_range(from, NULL, to, NULL, CHUNK, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return n;
    /* 0 may also mean a file of /proc or FUSE whose size is not known: reading tells. */
    if (n < 0 && !is_no_way(errno))
        return -errno;
    *by_hand = true;
    return copy_by_hand(from, to);
}

static int clone_whole(int from, int to, uint64_t max, uint64_t *ret) {
    struct stat st;

    if (ioctl(to, FICLONE, from) < 0)
        return -errno;
    if (fstat(to, &st) < 0)
        return -errno;
    *ret = (uint64_t)st.st_size;
    return *ret > max ? -EFBIG : 0;
}

int copy_content(int from, int to, uint64_t max, uint64_t *ret_bytes) {
    bool by_hand = false;
    uint64_t total = 0;
    int r = clone_whole(from, to, max, &total);

    if (r == 0 || r == -EFBIG)
        goto done;
    if (lseek(from, 0, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        ssize_t n = copy_piece(from, to, &by_hand);

        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        total += (uint64_t)n;
        if (total > max)
            return -EFBIG;
    }
    r = 0;
done:
    if (r == 0 && ret_bytes)
        *ret_bytes = total;
    return r;
}
