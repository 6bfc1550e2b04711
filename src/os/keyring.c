/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's keyrings. */
#include "os/keyring.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    KEY_SIZE_MAX = 64,
    DESCRIPTION_MAX = 80,
    /* The holder of the keyring: all. The user: view, read, search, so that a session whose keyring is not linked to the user's
     * (a systemd service) finds it too. Group and others: nothing. */
    PERMISSIONS = 0x3f000000 | 0x000b0000
};

static long find_key(const char *id) {
    char description[DESCRIPTION_MAX];
    long key;

    snprintf(description, sizeof description, "bawn:%s", id);
    key = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", description, 0);
    if (key >= 0)
        return key;
    /* Its time is over, or --lock was there before us: the same to the caller. */
    return errno == EKEYEXPIRED || errno == EKEYREVOKED ? -ENOKEY : -errno;
}

static int drop(long key) {
    return syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING, 0, 0) < 0 ? -errno : 0;
}

/* It is where others find it only once its time is set: a process that is killed on the way leaves no key that stays for ever. */
int keyring_put(const char *id, const struct secret *key, unsigned seconds) {
    char description[DESCRIPTION_MAX];
    long serial;

    snprintf(description, sizeof description, "bawn:%s", id);
    serial = syscall(SYS_add_key, "user", description, key->p, key->len, KEY_SPEC_PROCESS_KEYRING);
    if (serial < 0)
        return -errno;
    if (syscall(SYS_keyctl, KEYCTL_SETPERM, serial, PERMISSIONS, 0, 0) < 0 ||
        syscall(SYS_keyctl, KEYCTL_SET_TIMEOUT, serial, seconds, 0, 0) < 0 ||
        syscall(SYS_keyctl, KEYCTL_LINK, serial, KEY_SPEC_USER_KEYRING, 0, 0) < 0)
        return -errno;
    return 0;
}

int keyring_get(const char *id, struct secret *ret) {
    CLEANUP(secret_done) struct secret s = {0};
    long serial = find_key(id), n;

    if (serial < 0)
        return (int)serial;
    if (secret_alloc(&s, KEY_SIZE_MAX) < 0)
        return -ENOMEM;
    n = syscall(SYS_keyctl, KEYCTL_READ, serial, s.p, KEY_SIZE_MAX, 0);
    if (n < 0 || n > KEY_SIZE_MAX)
        return n < 0 ? -errno : -ENOKEY;
    s.len = (size_t)n;
    *ret = TAKE(s, (struct secret){0});
    return 0;
}

int keyring_drop(const char *id) {
    long serial = find_key(id);

    return serial < 0 ? (int)serial : drop(serial);
}

bool keyring_has(const char *id) {
    return find_key(id) >= 0;
}
