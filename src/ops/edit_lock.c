/* SPDX-License-Identifier: Apache-2.0 */
/* flock(2) with patience. */
#include "ops/edit_lock.h"

#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"

enum { LOCK_TRIES = 50, LOCK_PAUSE_US = 100 * 1000 };

int edit_lock(int dir, const char *folder, const char *path, struct err *err) {
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(dir, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            return err_sys(err, -errno, "lock '%s'", folder);
        usleep(LOCK_PAUSE_US);
    }
    return err_set(err, -EBUSY, "another process is changing '%s'", path);
}
