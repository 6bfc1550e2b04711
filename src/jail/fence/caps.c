/* SPDX-License-Identifier: Apache-2.0 */
/* Drops capabilities, and asks for those that a process has. */
#include "jail/fence/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"

enum { LAST_POSSIBLE_CAP = 63 };

bool caps_can_change_ids(void) {
    const uint32_t need = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_CHOWN;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2] = {{0}};

    return syscall(SYS_capget, &head, have) == 0 && (have[0].effective & need) == need;
}

const uint32_t caps_of_many_ids =
    1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_KILL | 1u << CAP_SETGID | 1u << CAP_SETUID;

static int drop_bounding(uint64_t but, struct err *err) {
    for (unsigned long cap = 0; cap <= LAST_POSSIBLE_CAP; cap++) {
        if (but >> cap & 1 || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
            continue;
        if (errno == EINVAL) /* past the last one this kernel knows */
            break;
        if (errno == EPERM && cap == 0)
            return 0;
        return err_sys(err, -errno, "drop capability %lu", cap);
    }
    return 0;
}

int caps_bound(uint32_t caps, struct err *err) {
    const unsigned long bits = SECBIT_NO_CAP_AMBIENT_RAISE | (SECURE_ALL_LOCKS & ~SECBIT_KEEP_CAPS_LOCKED);
    int r = drop_bounding(caps, err);

    if (r < 0)
        return r;
    return prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 ? err_sys(err, -errno, "lock securebits") : 0;
}

int caps_keep(uint32_t caps, struct err *err) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct want[2] = {{.permitted = caps, .effective = caps & 1u << CAP_KILL}};

    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return err_sys(err, -errno, "clear ambient capabilities");
    return syscall(SYS_capset, &head, want) < 0 ? err_sys(err, -errno, "drop capabilities") : 0;
}

int caps_drop_bounding(struct err *err) {
    int r = drop_bounding(0, err);

    if (r < 0)
        return r;
    /* gVisor has none of these bits, and no set-user-ID programs that they would be about (EINVAL). */
    if (prctl(PR_SET_SECUREBITS, SECURE_ALL_BITS | SECURE_ALL_LOCKS, 0, 0, 0) < 0 && errno != EPERM && errno != EINVAL)
        return err_sys(err, -errno, "lock securebits");
    return 0;
}

int caps_keep_net_admin(struct err *err) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2] = {{0}};

    if (syscall(SYS_capget, &head, have) < 0)
        return err_sys(err, -errno, "read capabilities");
    have[0].inheritable |= 1u << CAP_NET_ADMIN;
    if (syscall(SYS_capset, &head, have) < 0 || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_ADMIN, 0, 0) < 0)
        return err_sys(err, -errno, "keep the capability to make a network");
    return 0;
}

int caps_reduce(uint32_t wanted, struct err *err) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct set[2] = {{0}};
    int r = caps_drop_bounding(err);

    if (r < 0)
        return r;
    if (syscall(SYS_capget, &head, set) < 0)
        return err_sys(err, -errno, "read capabilities");
    set[0].permitted &= wanted;
    set[0].effective = set[0].permitted;
    set[0].inheritable = 0;
    set[1] = (struct __user_cap_data_struct){0};
    return syscall(SYS_capset, &head, set) < 0 ? err_sys(err, -errno, "drop capabilities") : 0;
}

int caps_drop_all(struct err *err) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    int r = caps_drop_bounding(err);

    if (r < 0)
        return r;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
        return err_sys(err, -errno, "clear ambient capabilities");
    return syscall(SYS_capset, &head, none) < 0 ? err_sys(err, -errno, "drop capabilities") : 0;
}
