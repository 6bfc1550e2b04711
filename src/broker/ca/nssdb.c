/* SPDX-License-Identifier: Apache-2.0 */
/* The trust store of browsers (NSS), made by NSS's own certutil. */
#include "broker/ca/nssdb.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "jail/fence/cell.h"
#include "os/copy.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/spawn.h"

enum { STORE_FILE_MAX = 1024 * 1024 };

static const char program[] = "/usr/bin/certutil", folder[] = "nssdb", empty_folder[] = "host-nssdb";
static const char *const files[] = {"cert9.db", "key4.db", "pkcs11.txt"};

static int copy_file(int from, int to, const char *name) {
    CLEANUP(closep) int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), out = -1;

    if (in < 0)
        return -errno;
    out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return out < 0 ? -errno : copy_content(in, out, STORE_FILE_MAX, NULL);
}

/* As a new folder; what is there when it fails is removed. */
static int copy_store(int from, const char *from_name, int to, const char *to_name) {
    CLEANUP(closep) int in = openat(from, from_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), out = -1;
    int r = in < 0 || mkdirat(to, to_name, 0755) < 0 ? -errno : 0;

    if (r < 0)
        return r;
    out = openat(to, to_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    r = out < 0 ? -errno : 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(files); i++)
        r = copy_file(in, out, files[i]);
    if (r < 0)
        remove_tree(to, to_name);
    return r;
}

/* certutil waits for the disk a dozen times, for a store that is made anew in milliseconds. The CA's other files are not waited for either. */
static int pass_over_syncs(void *arg UNUSED) {
    struct sock_filter code[] = {
        CELL_LOAD(arch),
        CELL_IF_EQ(CELL_ARCH, 0, 4),
        CELL_LOAD(nr),
        CELL_IF_EQ(__NR_fdatasync, 1, 0),
        CELL_IF_EQ(__NR_fsync, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO), /* 0: done */
        CELL_ALLOW,
    };
    struct sock_fprog prog = {.len = ARRAY_LEN(code), .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
    return 0; /* where filters are refused it takes longer */
}

/* It works in the folder, because it writes the path that it gets into a file that the sandbox sees. */
static bool run_certutil(int dirfd, char *const argv[]) {
    return spawn_run(&(struct spawn){.path = program, .argv = argv, .cwd = dirfd, .before = pass_over_syncs}) == 0;
}

/* The next CA begins with a copy of it. Appears whole; after a power cut it may be damaged, and is made again then. */
static void keep_empty(int dirfd, int stock) {
    if (copy_store(dirfd, folder, dirfd, empty_folder) == 0 &&
        renameat2(dirfd, empty_folder, stock, empty_folder, RENAME_NOREPLACE) < 0)
        remove_tree(dirfd, empty_folder);
}

static bool make_empty(int dirfd, int stock) {
    char *create[] = {"certutil", "-N", "-d", "sql:nssdb", "--empty-password", NULL};

    if (mkdirat(dirfd, folder, 0755) < 0 || !run_certutil(dirfd, create))
        return false;
    keep_empty(dirfd, stock);
    return true;
}

static bool add_cert(int dirfd) {
    char *add[] = {"certutil", "-A", "-d", "sql:nssdb", "-n", "Bawn sandbox CA", "-t", "C,,", "-i", "ca.pem", NULL};

    if (!run_certutil(dirfd, add))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char name[64];

        snprintf(name, sizeof name, "%s/%s", folder, files[i]);
        if (fchmodat(dirfd, name, 0644, 0) < 0)
            return false;
    }
    return true;
}

static bool make_nssdb(int dirfd, int stock) {
    if (copy_store(stock, empty_folder, dirfd, folder) == 0) {
        if (add_cert(dirfd))
            return true;
        remove_tree(stock, empty_folder); /* of another version, or damaged */
        remove_tree(dirfd, folder);
    }
    return make_empty(dirfd, stock) && add_cert(dirfd);
}

int nssdb_make(int dirfd, struct err *err) {
    CLEANUP(closep) int stock = -1;
    int r;

    if (access(program, X_OK) < 0)
        return 0;
    stock = openat(dirfd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (stock < 0)
        return err_sys(err, -errno, "open the folder of certificate authorities");
    if (make_nssdb(dirfd, stock))
        return 0;
    r = remove_tree(dirfd, folder);
    return r < 0 && r != -ENOENT ? err_sys(err, r, "remove a trust store that could not be made") : 0;
}
