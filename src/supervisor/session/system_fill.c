/* SPDX-License-Identifier: Apache-2.0 */
/* The first start of a writable system without an image. Nothing inside has run yet: the layers are ours, and so paths are just paths. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/strv.h"
#include "jail/plan/plan.h"
#include "jail/plan/plan_system.h"
#include "os/copy.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "supervisor/session/system_dir.h"

enum { FILL_FILE_MAX = 64 * 1024 * 1024, FILL_DEPTH_MAX = 64, USERS_MAX = 1024 * 1024, SYSTEM_IDS = 1000, OVERFLOW_ID = 65534 };

/* How a tree of the host is copied. */
enum fill_what {
    FILL_ALL,
    FILL_SOURCES, /* without files that have a password in them */
    FILL_DATABASE /* files that only root may read are locks: empty ones in their place */
};

/* "https://user:password@host/" in a list of apt's. */
static bool has_password(int fd) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(FILL_FILE_MAX);

    if (file_read_fd(fd, 0, &text) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return true;
    for (const char *s = buf_str(&text); (s = strstr(s, "://")); s += 3)
        if (s[3 + strcspn(s + 3, "/@ \t\n")] == '@')
            return true;
    return false;
}

/* What the user may not read stays out; so does what disappears meanwhile. */
static int fill_file(int from, int to, const char *name, enum fill_what what) {
    CLEANUP(closep) int source = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), target = -1;
    struct stat st;

    if (source < 0 && what == FILL_DATABASE)
        return file_replace_at(to, name, 0640, 0, "", 0);
    if (source < 0 || fstat(source, &st) < 0 || !S_ISREG(st.st_mode) || (what == FILL_SOURCES && has_password(source)))
        return 0;
    target = openat(to, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (target < 0 || fchmod(target, (st.st_mode & 0777) | S_IRUSR | S_IWUSR) < 0)
        return -errno;
    return copy_content(source, target, FILL_FILE_MAX, NULL);
}

static int fill_link(int from, int to, const char *name) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);

    if (n < 0)
        return 0;
    target[n] = 0;
    return symlinkat(target, to, name) < 0 && errno != EEXIST ? -errno : 0;
}

static int fill_tree(int from, int to, enum fill_what what, unsigned depth);

static int fill_folder(int from, int to, const char *name, enum fill_what what, unsigned depth) {
    CLEANUP(closep) int source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), target = -1;
    struct stat st;

    if (source < 0 || fstat(source, &st) < 0 || depth == FILL_DEPTH_MAX)
        return 0;
    if (mkdirat(to, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    target = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0 || fchmod(target, (st.st_mode & 0777) | S_IRWXU) < 0)
        return -errno;
    return fill_tree(source, target, what, depth + 1);
}

static int fill_entry(int from, int to, const char *name, int type, enum fill_what what, unsigned depth) {
    if (type == DT_DIR)
        return fill_folder(from, to, name, what, depth);
    return type == DT_LNK ? fill_link(from, to, name) : type == DT_REG ? fill_file(from, to, name, what) : 0;
}

static int fill_tree(int from, int to, enum fill_what what, unsigned depth) { /* NOLINT(misc-no-recursion): FILL_DEPTH_MAX */
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = dir_open_at(from, ".", &d);

    while (r == 0 && (e = dir_next(&d)))
        r = fill_entry(d.fd, to, e->d_name, dir_type(&d, e), what, depth);
    return r;
}

/* -- /etc --------------------------------------------------------------------------------------------------------------- */

static int type_at(int dir, const char *path) {
    struct stat st;

    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? DT_UNKNOWN : (int)IFTODT(st.st_mode);
}

/* path: below /etc, of one or more names. */
static int fill_etc_path(int etc, int to, const char *path) {
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX] = ".";
    CLEANUP(closep) int from = -1, into = -1;
    int type = type_at(etc, path), r;

    if (type == DT_UNKNOWN)
        return 0;
    if (slash)
        snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    r = dir_make(to, parent, 0755, 0755);
    from = r < 0 ? r : openat(etc, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    into = from < 0 ? from : openat(to, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r < 0 || into < 0)
        return r < 0 ? r : -errno;
    return fill_entry(from, into, slash ? slash + 1 : path, type, str_starts(path, "apt/") ? FILL_SOURCES : FILL_ALL, 0);
}

static int fill_etc(int to) {
    CLEANUP(closep) int etc = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(strv_done) struct strv names = {0};
    int r = etc < 0 ? -errno : plan_system_etc(&names);

    for (size_t i = 0; r == 0 && i < names.len; i++)
        r = fill_etc_path(etc, to, names.v[i]);
    return r;
}

/* -- users -------------------------------------------------------------------------------------------------------------- */

/* The third field of a line of passwd or group says that packages made this user, or the system; root is not one of them. */
static bool is_of_system(const char *line, size_t len) {
    const char *first = memchr(line, ':', len), *second = first ? memchr(first + 1, ':', len - (size_t)(first + 1 - line)) : NULL;
    char text[12] = "";
    uint64_t id;

    if (!second || str_starts(line, "root:"))
        return false;
    snprintf(text, sizeof text, "%.*s", (int)MIN_OF(strcspn(second + 1, ":\n"), sizeof text - 1), second + 1);
    return parse_u64(text, 0, UINT32_MAX, &id, NULL) == 0 && (id < SYSTEM_IDS || id == OVERFLOW_ID);
}

/* first: root's own line; shadow: a file with one line for each name, which says that there is no password. */
static int fill_users(int etc, const char *name, const char *first, const char *shadow, const char *rest) {
    CLEANUP(buf_done) struct buf host = BUF_INIT(USERS_MAX), users = BUF_INIT(USERS_MAX), secret = BUF_INIT(USERS_MAX);
    char path[32];
    size_t len;
    int r;

    snprintf(path, sizeof path, "/etc/%s", name);
    r = file_read(path, 0, &host);
    if (r < 0)
        return r;
    buf_adds(&users, first);
    buf_addf(&secret, "root:*:%s\n", rest);
    for (const char *line = buf_str(&host); *line; line += len, line += *line == '\n') {
        len = strcspn(line, "\n");
        if (!is_of_system(line, len))
            continue;
        buf_addf(&users, "%.*s\n", (int)len, line);
        buf_addf(&secret, "%.*s:*:%s\n", (int)strcspn(line, ":"), line, rest);
    }
    if (!buf_ok(&users) || !buf_ok(&secret))
        return -ENOMEM;
    r = file_replace_at(etc, name, 0644, 0, users.data, users.len);
    return r < 0 ? r : file_replace_at(etc, shadow, 0640, 0, secret.data, secret.len);
}

static int fill_all_users(int etc, const struct plan *plan) {
    CLEANUP(freep) char *root = str_dupf("root:x:0:0:root:%s:/bin/bash\n", plan->home);
    int r = root ? fill_users(etc, "passwd", root, "shadow", "19000:0:99999:7:::") : -ENOMEM;

    return r < 0 ? r : fill_users(etc, "group", "root:x:0:\n", "gshadow", ":");
}

static int fill_root(int dir, const struct plan *plan) {
    static const char nsswitch[] =
        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n";
    CLEANUP(closep) int etc = -1;
    int r = dir_make(dir, "root/upper/etc", 0755, 0755);

    etc = r < 0 ? -1 : openat(dir, "root/upper/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r == 0 && etc < 0)
        r = -errno;
    r = r < 0 ? r : fill_etc(etc);
    r = r < 0 ? r : fill_all_users(etc, plan);
    return r < 0 ? r : file_replace_at(etc, "nsswitch.conf", 0644, 0, nsswitch, sizeof nsswitch - 1);
}

/* -- folders of the host ------------------------------------------------------------------------------------------------ */

/* dpkg writes to these in place, and links to them; what it has in info/ it only replaces. */
static int fill_database(int from, int to) {
    static const char *const parts[] = {"alternatives", "parts", "triggers", "updates"};
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = dir_open_at(from, ".", &d);

    while (r == 0 && (e = dir_next(&d)))
        if (dir_type(&d, e) == DT_REG)
            r = fill_file(d.fd, to, e->d_name, FILL_DATABASE);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++)
        r = fill_folder(from, to, parts[i], FILL_DATABASE, 0);
    return r;
}

static int fill_dpkg(int dir) {
    CLEANUP(closep) int from = open(PLAN_SYSTEM_DPKG, O_RDONLY | O_DIRECTORY | O_CLOEXEC), to = -1;
    char name[PLAN_SYSTEM_NAME], upper[PLAN_SYSTEM_NAME + 8];

    if (from < 0)
        return errno == ENOENT ? 0 : -errno;
    plan_system_name(PLAN_SYSTEM_DPKG, name);
    snprintf(upper, sizeof upper, "%s/upper", name);
    to = openat(dir, upper, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return to < 0 ? -errno : fill_database(from, to);
}

/* No package starts a server inside because it was installed. */
static int fill_policy(int dir) {
    static const char text[] = "#!/bin/sh\nexit 101\n";
    CLEANUP(closep) int sbin = -1;
    int r = 0;

    if (type_at(AT_FDCWD, "/usr/sbin") != DT_DIR) /* a link to bin */
        return 0;
    r = dir_make(dir, "usr/upper/sbin", 0755, 0755);
    sbin = r < 0 ? r : openat(dir, "usr/upper/sbin", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return r < 0 ? r : sbin < 0 ? -errno : file_replace_at(sbin, "policy-rc.d", 0755, 0, text, sizeof text - 1);
}

int system_fill(int dir, const struct plan *plan, struct err *err) {
    mode_t before = umask(022);
    int r = fill_root(dir, plan);

    r = r < 0 || plan->ids.by_root ? r : fill_dpkg(dir);
    r = r < 0 ? r : fill_policy(dir);
    umask(before);
    return r < 0 ? err_sys(err, r, "copy what packages need of this machine") : 0;
}
