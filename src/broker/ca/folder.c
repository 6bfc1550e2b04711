/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a CA: key, certificate, and the sandbox's trust stores. */
#include "broker/ca/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/macros.h"
#include "base/str.h"
#include "broker/ca/ca.h"
#include "broker/ca/jks.h"
#include "broker/ca/nssdb.h"
#include "os/copy.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/process.h"
#include "os/remove.h"

static const char bundle_name[] = "ca-certificates.crt", own_name[] = "bawn-ca.pem", java_name[] = "java";

/* What /usr holds is there inside, read-only; a name without slash stays in the folder. */
static bool works_inside(const char *target) {
    return !strchr(target, '/') || (str_starts(target, "/usr/") && !strstr(target, "/../"));
}

static int copy_cert(int from, const char *name, int to, struct err *err) {
    CLEANUP(closep) int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), out = -1;
    struct stat st;
    int r;

    /* A file that only root may read must not become readable for all here. */
    if (in < 0 || fstat(in, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH))
        return 0;
    out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    r = out < 0 ? -errno : copy_content(in, out, TRUST_FILE_MAX, NULL);
    return r < 0 ? err_sys(err, r, "copy the certificate '%s'", name) : 0;
}

/* The same link, by one more name. */
static bool link_like(int like, const char *name, const char *target, int to) {
    char there[PATH_MAX];
    ssize_t n = like < 0 ? -1 : readlinkat(like, name, there, sizeof there - 1);

    if (n < 0)
        return false;
    there[n] = 0;
    return str_eq(there, target) && linkat(like, name, to, name, 0) == 0;
}

static int copy_cert_entry(int from, const char *name, int to, int like, struct err *err) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);
    struct stat st;

    if (fstatat(from, name, &st, 0) < 0 || !S_ISREG(st.st_mode) || st.st_size > TRUST_FILE_MAX)
        return 0;
    if (n < 0)
        return copy_cert(from, name, to, err);
    target[n] = 0;
    if (!works_inside(target))
        return copy_cert(from, name, to, err);
    if (link_like(like, name, target, to))
        return 0;
    return symlinkat(target, to, name) < 0 ? err_sys(err, -errno, "link the certificate '%s'", name) : 0;
}

static bool is_in(const char *const *list, const char *name) {
    for (; *list; list++)
        if (str_eq(*list, name))
            return true;
    return false;
}

int folder_copy_certs(const char *from, int to, int like, const char *const *skip, struct err *err) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = 0, left = TRUST_FILES_MAX;

    (void)dir_open_linked(from, &d); /* /etc/ssl/certs is a link on some systems */
    while (r == 0 && left > 0 && (e = dir_next(&d))) {
        if (e->d_name[0] == '.' || is_in(skip, e->d_name))
            continue;
        left--;
        r = copy_cert_entry(d.fd, e->d_name, to, like, err);
    }
    return r;
}

static int put_file(int dirfd, const char *name, const struct buf *b, struct err *err) {
    int r = buf_ok(b) ? file_create_at(dirfd, name, 0644, buf_str(b), b->len) : -ENOMEM;

    return r < 0 ? err_sys(err, r, "write '%s'", name) : 0;
}

static int make_dir(int dirfd, const char *name, int *ret, struct err *err) {
    int fd = mkdirat(dirfd, name, 0755) < 0 ? -1 : openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return err_sys(err, -errno, "make the folder '%s'", name);
    *ret = fd;
    return 0;
}

static int load_bundle(const char *path, struct buf *out, struct err *err) {
    int r = path[0] ? file_read(path, FILE_FOLLOW, out) : 0;

    if (r == -EFBIG)
        return err_set(err, r, "'%s' is larger than a file of certificates may be", path);
    if (r < 0)
        return err_sys(err, r, "read the trusted certificates in '%s'", path);
    if (out->len && out->data[out->len - 1] != '\n')
        buf_addc(out, '\n');
    return 0;
}

static int put_java(int certs, const struct buf *bundle, const struct ca *ca, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(JKS_MAX);
    CLEANUP(closep) int java = -1;
    int r = jks_write(ca->cert, bundle, &b);

    if (r < 0)
        return err_oom(err);
    r = make_dir(certs, java_name, &java, err);
    return r < 0 ? r : put_file(java, "cacerts", &b, err);
}

/* OpenSSL finds a certificate in a folder by a hash of its name; a number tells those with the same hash apart. */
static int link_hash(int certs, const struct ca *ca, struct err *err) {
    char name[32];

    for (int i = 0; i < TRUST_FILES_MAX; i++) {
        snprintf(name, sizeof name, "%08lx.%d", X509_subject_name_hash(ca->cert), i);
        if (symlinkat(own_name, certs, name) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    return err_sys(err, -errno, "link the certificate of the sandbox");
}

static int put_certs(int dirfd, int like, const struct ca *ca, const struct trust_source *from, struct err *err) {
    static const char *const ours[] = {bundle_name, own_name, java_name, NULL};
    CLEANUP(buf_done) struct buf bundle = BUF_INIT(TRUST_BUNDLE_MAX), pem = BUF_INIT(CA_PEM_MAX);
    CLEANUP(closep) int certs = -1;
    int r = make_dir(dirfd, "certs", &certs, err);

    r = r < 0 ? r : load_bundle(from->bundle, &bundle, err);
    r = r < 0 ? r : folder_copy_certs(from->folder, certs, like, ours, err);
    r = r < 0 ? r : put_java(certs, &bundle, ca, err);
    if (r < 0)
        return r;
    if (ca_pem(ca, &pem) < 0)
        return err_oom(err);
    buf_add(&bundle, pem.data, pem.len);
    r = put_file(certs, bundle_name, &bundle, err);
    r = r < 0 ? r : put_file(certs, own_name, &pem, err);
    return r < 0 ? r : link_hash(certs, ca, err);
}

static int fill_folder(int dirfd, int like, const struct trust_source *from, struct err *err) {
    CLEANUP(ca_done) struct ca ca = {0};
    CLEANUP(buf_done) struct buf stamp = BUF_INIT(TRUST_STAMP_SIZE);
    char line[TRUST_STAMP_SIZE];
    int r = ca_make(&ca, err);

    trust_stamp(from, line); /* before reading: what changes meanwhile makes this one old */
    buf_adds(&stamp, line);
    r = r < 0 ? r : ca_write(&ca, dirfd, err);
    r = r < 0 ? r : put_certs(dirfd, like, &ca, from, err);
    r = r < 0 ? r : nssdb_make(dirfd, err);
    return r < 0 ? r : put_file(dirfd, "stamp", &stamp, err);
}

/* "making-<pid>-<start time>-<random>": castock sweeps it when we are dead. */
static int temporary_name(const char *path, char *out, size_t size, struct err *err) {
    const char *slash = strrchr(path, '/');
    int n = snprintf(out, size, "%.*smaking-%d-%llu-XXXXXX", slash ? (int)(slash + 1 - path) : 0, path, (int)getpid(),
                     (unsigned long long)process_start_time(getpid()));

    if (n < 0 || (size_t)n >= size)
        return err_set(err, -ENAMETOOLONG, "the path of the state folder is too long");
    return mkdtemp(out) ? 0 : err_sys(err, -errno, "make a folder for a certificate authority beside '%s'", path);
}

/* -1: there is none. */
static int open_certs(const char *folder_of_ca) {
    char path[PATH_MAX];

    if (!folder_of_ca || (size_t)snprintf(path, sizeof path, "%s/certs", folder_of_ca) >= sizeof path)
        return -1;
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

int folder_make(const char *path, const char *like, const struct trust_source *from, struct err *err) {
    CLEANUP(closep) int dirfd = -1, certs = -1;
    char temporary[PATH_MAX];
    int r = temporary_name(path, temporary, sizeof temporary, err);

    if (r < 0)
        return r;
    certs = open_certs(like);
    dirfd = open(temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    r = dirfd < 0 ? err_sys(err, -errno, "open '%s'", temporary) : fill_folder(dirfd, certs, from, err);
    if (r == 0 && (fchmod(dirfd, 0755) < 0 || renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) < 0))
        r = err_sys(err, -errno, "put the certificate authority at '%s'", path);
    if (r < 0)
        remove_tree(AT_FDCWD, temporary);
    return r;
}
