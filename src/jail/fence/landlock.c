/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and enforces Landlock rulesets. */
#include "jail/fence/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"

/* Own copies: Debian 12's <linux/landlock.h> ends at ABI 2, and musl may lack the numbers. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

enum { CREATE_RULESET_VERSION = 1, RULE_PATH_BENEATH = 1 };

enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_DIR = 1 << 4,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_CHAR = 1 << 6,
    FS_MAKE_DIR = 1 << 7,
    FS_MAKE_REG = 1 << 8,
    FS_MAKE_SOCK = 1 << 9,
    FS_MAKE_FIFO = 1 << 10,
    FS_MAKE_BLOCK = 1 << 11,
    FS_MAKE_SYM = 1 << 12,
    FS_REFER = 1 << 13,
    FS_TRUNCATE = 1 << 14,
    FS_IOCTL_DEV = 1 << 15,
    FS_RESOLVE_UNIX = 1 << 16,
    NET_TCP = 3, /* bind and connect */
    SCOPE_ABSTRACT = 1,
    SCOPE_SIGNAL = 2
};

struct ruleset_attr { /* grows with the ABI; an older kernel accepts it as long as what it does not know is 0 */
    uint64_t handled_access_fs, handled_access_net, scoped;
};

struct path_beneath_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

/* Making device nodes is handled and, but for whiteouts, never granted. */
static const uint32_t granted[] = {
    [LANDLOCK_READ] = FS_READ_FILE | FS_READ_DIR,
    [LANDLOCK_READ_EXEC] = FS_READ_FILE | FS_READ_DIR | FS_EXECUTE,
    [LANDLOCK_WRITE] = FS_RESOLVE_UNIX - 1 - FS_MAKE_CHAR - FS_MAKE_BLOCK,
    [LANDLOCK_CONNECT] = 2 * FS_RESOLVE_UNIX - 1 - FS_MAKE_CHAR - FS_MAKE_BLOCK,
    [LANDLOCK_LAYERS] = FS_RESOLVE_UNIX - 1 - FS_MAKE_BLOCK,
};
static_assert(ARRAY_LEN(granted) == LANDLOCK_ACCESS_COUNT, "one mask per access");

/* A rule on something that is not a directory may name no other rights (EINVAL). */
static const uint32_t file_rights = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV | FS_RESOLVE_UNIX;

static uint32_t fs_rights(int abi) {
    static const struct {
        int since;
        uint32_t all;
    } known[] = {{9, 2 * FS_RESOLVE_UNIX - 1}, {5, 2 * FS_IOCTL_DEV - 1}, {3, 2 * FS_TRUNCATE - 1}, {2, 2 * FS_REFER - 1}};

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (abi >= known[i].since)
            return known[i].all;
    return 2 * FS_MAKE_SYM - 1;
}

int landlock_abi(void) {
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);

    return abi > 0 ? (int)abi : 0;
}

static int add_fd(int ruleset, int fd, uint64_t rights, const char *name, struct err *err) {
    struct path_beneath_attr attr = {.allowed_access = rights, .parent_fd = fd};
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(err, -errno, "look at '%s' for Landlock", name);
    if (!S_ISDIR(st.st_mode))
        attr.allowed_access &= file_rights;
    if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attr, 0) < 0)
        return err_sys(err, -errno, "add the Landlock rule for '%s'", name);
    return 0;
}

static int add_rule(int ruleset, const struct landlock_rule *rule, uint32_t known, struct err *err) {
    uint32_t rights = granted[rule->access] & known;
    CLEANUP(closep) int fd = -1;

    if (!rule->path)
        return add_fd(ruleset, rule->fd, rights, "a given file", err);
    fd = open(rule->path, O_PATH | O_CLOEXEC);
    if (fd < 0 && rule->optional && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0)
        return err_sys(err, -errno, "open '%s' for Landlock", rule->path);
    return add_fd(ruleset, fd, rights, rule->path, err);
}

/* Truncation and ioctl are asked at every open, also for reading, so they would bring the walk back. */
static const uint32_t free_for_readers = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR | FS_TRUNCATE | FS_IOCTL_DEV;

static struct ruleset_attr handled(int abi, const struct landlock_opts *opts) {
    struct ruleset_attr attr = {.handled_access_fs = opts->scopes_only ? 0 : fs_rights(abi)};

    if (opts->writes_only)
        attr.handled_access_fs &= ~(uint64_t)free_for_readers;
    if (abi >= 4 && opts->deny_tcp)
        attr.handled_access_net = NET_TCP;
    if (abi >= 6 && opts->scope_abstract)
        attr.scoped |= SCOPE_ABSTRACT;
    if (abi >= 6 && opts->scope_signals)
        attr.scoped |= SCOPE_SIGNAL;
    return attr;
}

int landlock_restrict(const struct landlock_rule *rules, size_t n, const struct landlock_opts *opts, struct err *err) {
    CLEANUP(closep) int ruleset = -1;
    struct ruleset_attr attr;
    int r, abi = landlock_abi();

    if (opts->max_abi > 0)
        abi = MIN_OF(abi, opts->max_abi);
    if (abi == 0)
        return err_set(err, -EOPNOTSUPP, "this kernel has no Landlock, or it is not in its list of security modules");
    if (abi < opts->min_abi)
        return err_set(err, -EOPNOTSUPP, "this kernel's Landlock is too old: ABI %d, needed is %d", abi, opts->min_abi);
    attr = handled(abi, opts);
    if (opts->scopes_only && !attr.scoped)
        return 0;
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0); /* close-on-exec by itself */
    if (ruleset < 0)
        return err_sys(err, -errno, "create the Landlock ruleset");
    for (size_t i = 0; i < n; i++) {
        r = add_rule(ruleset, &rules[i], (uint32_t)attr.handled_access_fs, err);
        if (r < 0)
            return r;
    }
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return err_sys(err, -errno, "enforce the Landlock rules");
    return 0;
}

/* In the order of the ABI that closes the gap, so that what is missing is always a tail of the list. */
const char *const *landlock_missing(int abi) {
    static const char *const gaps[] = {
        "files are not fenced at all",
        "renaming and linking between directories is refused altogether",
        "files that may only be read can be truncated",
        "TCP connections are not fenced",
        "device ioctls are not fenced",
        "abstract unix sockets of the host are not fenced",
        "signals to the user's other processes are not fenced",
        "unix sockets in reachable directories are not fenced",
        "sockets other than TCP are not fenced",
        NULL,
    };
    static const int closed_by[] = {1, 2, 3, 4, 5, 6, 6, 9, INT32_MAX};
    size_t i = 0;

    static_assert(ARRAY_LEN(gaps) == ARRAY_LEN(closed_by) + 1, "one ABI per gap");
    while (closed_by[i] <= abi)
        i++;
    return gaps + i;
}
