/* SPDX-License-Identifier: Apache-2.0 */
/* Locks on bytes of secrets.lock. */
#include "vault/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "vault/vault.h"

enum { POLL_MS = 20 };

uint64_t lockfile_of_name(const char *name) {
    unsigned char digest[SHA256_LEN];

    sha256_of(name, strlen(name), digest);
    return 1 + ((uint64_t)digest[0] << 16 | (uint64_t)digest[1] << 8 | digest[2]);
}

int lockfile_take(const char *dir, uint64_t which, int *ret_fd, struct err *err) {
    /* OFD, not flock: a range; not POSIX: closing another descriptor of the file would drop it. */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)which, .l_len = 1};
    const struct timespec tick = {.tv_nsec = POLL_MS * 1000000L};
    CLEANUP(freep) char *path = str_dupf("%s/secrets.lock", dir);
    CLEANUP(closep) int fd = -1;
    int r = path ? paths_make_dirs(dir, err) : err_oom(err);

    if (r < 0)
        return r;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    if (fd < 0)
        return err_sys(err, -errno, "open '%s'", path);
    for (int waited = 0; fcntl(fd, F_OFD_SETLK, &lock) < 0; waited += POLL_MS) {
        if (errno != EAGAIN && errno != EACCES)
            return err_sys(err, -errno, "lock '%s'", path);
        if (waited >= VAULT_LOCK_TIMEOUT_MS)
            return err_set(err, -ETIMEDOUT, "another bawn-vault has held '%s' for too long", path);
        nanosleep(&tick, NULL);
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}
