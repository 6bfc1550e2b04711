/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/self/mountinfo. */
#include "os/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

void mountinfo_unescape(char *s) {
    char *to = s;

    for (; *s; s++) {
        unsigned c;

        if (*s == '\\' && sscanf(s + 1, "%3o", &c) == 1) {
            *to++ = (char)c;
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = 0;
}

const char *mountinfo_tail(const char *path, const char *point) {
    size_t len = str_eq(point, "/") ? 0 : strlen(point);

    if (strncmp(path, point, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return str_eq(path + len, "/") ? "" : path + len;
}

int mountinfo_of(int dir, const char *name, uint64_t *ret) {
    /* struct statx, which Debian 12's musl does not have, in words: of the kernel's 256 bytes the mask is at 0, the device at 136, the mount at 144 */
    enum { WORDS = 32, DEVICE = 17, MOUNT = 18, HAS_MOUNT = 0x1000 };
    uint64_t x[WORDS] = {0};
    uint32_t mask;

    if (syscall(SYS_statx, dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name ? 0 : AT_EMPTY_PATH), HAS_MOUNT, x) < 0)
        return -errno;
    memcpy(&mask, x, sizeof mask);
    *ret = mask & HAS_MOUNT ? x[MOUNT] : x[DEVICE];
    return 0;
}
