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
static ssize_t copy_by_hand(int from, int to, off_t at, size_t len) {
    UNINITIALIZED char part[BY_HAND];
    ssize_t n = fd_pread_full(from, part, MIN_OF(len, sizeof part), at), done = 0;

    while (done < n) {
        ssize_t w = pwrite(to, part + done, (size_t)(n - done), at + done);

        if (w < 0 && errno != EINTR)
            return -errno;
        done += MAX_OF(w, 0);
    }
    return n;
}

static bool is_no_way(int e) {
    return e == EXDEV || e == ENOSYS || e == EOPNOTSUPP || e == EINVAL || e == EPERM || e == ETXTBSY;
}

ssize_t copy_piece(int from, int to, off_t at, size_t len, bool *by_hand) {
    ssize_t n = 0;

    while (!*by_hand) {
        off_t in = at, out = at;

        n = copy_file_range(from, &in, to, &out, len, 0);
        if (n > 0)
            return n;
        if (n < 0 && errno == EINTR)
            continue;
        /* 0 may also mean a file of /proc or FUSE whose size is not known: reading tells. */
        if (n < 0 && !is_no_way(errno))
            return -errno;
        *by_hand = true;
    }
    return copy_by_hand(from, to, at, len);
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

/* The first piece by hand: most files are smaller, and the kernel's copy makes a pipe for each. A short piece is the end. */
static int copy_pieces(int from, int to, uint64_t max, uint64_t *ret) {
    ssize_t n = copy_by_hand(from, to, 0, BY_HAND);
    bool by_hand = false, end = n < BY_HAND;

    for (*ret = 0; n > 0; n = end ? 0 : copy_piece(from, to, (off_t)*ret, CHUNK, &by_hand)) {
        *ret += (uint64_t)n;
        if (*ret > max)
            return -EFBIG;
    }
    return (int)n;
}

int copy_content(int from, int to, uint64_t max, uint64_t *ret_bytes) {
    uint64_t total = 0;
    int r = clone_whole(from, to, max, &total);

    if (r < 0 && r != -EFBIG)
        r = copy_pieces(from, to, max, &total);
    if (r == 0 && ret_bytes)
        *ret_bytes = total;
    return r;
}
