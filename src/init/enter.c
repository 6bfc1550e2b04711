/* SPDX-License-Identifier: Apache-2.0 */
/* From the first program of a container to bawn-init. */
#include "init/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"
#include "jail/fence/caps.h"
#include "link/far.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/cursor.h"
#include "proto/entermsg.h"

enum { ARGS = 6, STREAMS = 3 };

int enter_parse(int argc, char **argv, struct enter *ret, struct err *err) {
    ret->mapped = argc > 1 && str_eq(argv[1], "--map");
    argc -= ret->mapped;
    argv += ret->mapped;
    if (argc < ARGS || !enter_id_parse(argv[1], &ret->uid) || !enter_id_parse(argv[2], &ret->gid))
        return err_set(err, -EINVAL, "bawn-enter is started by bawn, not by hand");
    ret->network = str_eq(argv[3], "network");
    ret->socket = argv[4];
    ret->init = argv[5];
    ret->folders = argv + ARGS;
    return 0;
}

static int write_map(const char *path, unsigned inside) {
    char text[32];

    snprintf(text, sizeof text, "%u 0 1\n", inside);
    return fd_write_file_at(AT_FDCWD, path, text);
}

int enter_map(const struct enter *e, struct err *err) {
    int r = unshare(CLONE_NEWUSER) < 0 ? -errno : 0;

    if (r == 0)
        fd_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny"); /* gVisor has none, and does not ask for it */
    r = r < 0 ? r : write_map("/proc/self/uid_map", e->uid);
    r = r < 0 ? r : write_map("/proc/self/gid_map", e->gid);
    return r < 0 ? err_sys(err, r, "map user %u, group %u", e->uid, e->gid) : 0;
}

/* "MODE:PATH". What the engine made belongs to root. */
int enter_give(const struct enter *e, struct err *err) {
    char **end = e->folders;

    while (*end)
        end++;
    for (char **f = end; f-- > e->folders;) { /* the ones below first: what is given may be closed to us */
        const char *path = strchr(*f, ':');
        mode_t mode = (mode_t)strtoul(*f, NULL, 8);

        if (!path || path[1] != '/')
            return err_set(err, -EINVAL, "'%s' is no folder", *f);
        if (chmod(path + 1, mode) < 0 || lchown(path + 1, e->uid, e->gid) < 0)
            return err_sys(err, -errno, "give '%s' to the user of the sandbox", path + 1);
    }
    return 0;
}

/* The bounding set first, which takes a capability. A program that is executed by an ordinary id has none. */
int enter_become(const struct enter *e, struct err *err) {
    int r = caps_drop_bounding(err);

    if (r < 0)
        return r;
    if (getuid() != e->uid || getgid() != e->gid) {
        if (setgroups(0, NULL) < 0 || setresgid(e->gid, e->gid, e->gid) < 0 || setresuid(e->uid, e->uid, e->uid) < 0)
            return err_sys(err, -errno, "become user %u, group %u", e->uid, e->gid);
    }
    prctl(PR_SET_DUMPABLE, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, -errno, "no_new_privs");
    return caps_drop_all(err);
}

static int connect_to(const char *path, struct err *err) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof a.sun_path)
        return err_set(err, -ENAMETOOLONG, "socket '%s'", path);
    memcpy(a.sun_path, path, strlen(path) + 1);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return err_sys(err, -errno, "connect to the supervisor at '%s'", path);
    return TAKE_FD(fd);
}

/* The second message: what the flags name, in the order of their places. */
static int receive_streams(struct enter *e, int sock, uint32_t flags, struct err *err) {
    int fds[SOCK_FDS_MAX];
    size_t n = ARRAY_LEN(fds), used = 0;
    char byte;
    long len = sock_recv(sock, &byte, 1, fds, &n);

    for (int i = 0; i < STREAMS; i++)
        if (len == 1 && flags & 1u << i && used < n)
            e->fds[i] = fds[used++];
    if (len == 1 && flags & ENTER_GUARD && used < n)
        e->fds[ENTER_FD_GUARD] = fds[used++];
    for (int i = 0; i < STREAMS; i++)
        if (e->fds[i] < 0)
            e->fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
    return len == 1 && used == n && n == (size_t)__builtin_popcount(flags) ? 0 : err_set(err, -EPROTO, "descriptors are missing");
}

int enter_receive(struct enter *e, struct err *err) {
    struct enter_hello hello;
    int fds[STREAMS];
    size_t n = ARRAY_LEN(fds);
    CLEANUP(closep) int sock = connect_to(e->socket, err);
    long len;

    if (sock < 0)
        return sock;
    len = sock_recv(sock, &hello, sizeof hello, fds, &n);
    if (len != (long)sizeof hello || memcmp(hello.magic, ENTER_MAGIC, sizeof hello.magic) != 0 || n != STREAMS)
        return err_set(err, -EPROTO, "the supervisor does not speak the language of this bawn-enter");
    e->fds[ENTER_FD_CONTROL] = fds[0];
    e->fds[ENTER_FD_START] = fds[1];
    e->list = fds[2];
    return receive_streams(e, sock, hello.flags, err);
}

/* The folders above it, in private areas that were empty, or in a home that the sandbox had before. */
static int make_parents(const char *path) {
    char parent[PATH_MAX];

    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        if ((size_t)snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path) >= sizeof parent)
            return -ENAMETOOLONG;
        if (mkdir(parent, 0755) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
            return -errno;
    }
    return 0;
}

static int make_dir(const struct enter_item *i) {
    return mkdir(i->path, i->mode ? i->mode : 0755) < 0 && errno != EEXIST ? -errno : 0;
}

static int make_symlink(const struct enter_item *i) {
    return symlink(i->content, i->path) < 0 ? -errno : 0;
}

static int make_file(const struct enter_item *i) {
    CLEANUP(closep) int fd = open(i->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, i->mode ? i->mode : 0644);

    return fd < 0 ? -errno : fd_write_all(fd, i->content, i->len);
}

static int (*const makers[ENTER_KINDS])(const struct enter_item *) = {
    [ENTER_DIR] = make_dir, [ENTER_SYMLINK] = make_symlink, [ENTER_FILE] = make_file};

/* A home that persists has them from before, or something else of the inside's in their place. */
static int make_item(const struct enter_item *i) {
    int r = make_parents(i->path);

    r = r < 0 ? r : makers[i->kind] ? makers[i->kind](i) : -EBADMSG;
    if (r == -EEXIST && unlink(i->path) == 0)
        r = makers[i->kind](i);
    return r;
}

int enter_make(const char *bytes, size_t len, struct err *err) {
    struct cursor c = {bytes, len};
    struct enter_item i;
    int r;

    umask(0);
    while ((r = enter_item_decode(&c, &i)) > 0) {
        r = make_item(&i);
        if (r < 0)
            return err_sys(err, r, "make '%s' inside", i.path);
    }
    return r < 0 ? err_set(err, r, "the list of private files is not understood") : 0;
}

/* 0 to 5 and nothing else; what is in the way moves first. */
static int arrange(struct enter *e, struct err *err) {
    int n = e->fds[ENTER_FD_GUARD] < 0 ? ENTER_FD_GUARD : ENTER_FDS;

    for (int i = 0; i < n; i++) {
        e->fds[i] = fcntl(e->fds[i], F_DUPFD_CLOEXEC, ENTER_FDS);
        if (e->fds[i] < 0)
            return err_sys(err, -errno, "arrange descriptors");
    }
    for (int i = 0; i < n; i++)
        if (dup3(e->fds[i], i, 0) < 0)
            return err_sys(err, -errno, "arrange descriptors");
    return fd_close_from((unsigned)n) < 0 ? err_set(err, -EIO, "close other descriptors") : 0;
}

int enter_exec(struct enter *e, struct err *err) {
    static char *const argv[] = {"bawn-init", NULL};
    static char *const nothing[] = {NULL}, *const proxy[] = {"BAWN_PROXY=http://127.0.0.1:15001", NULL};
    bool named = e->network && !(e->listeners.has & NETWORK_EVERY_PORT);
    int r = arrange(e, err);

    if (r < 0)
        return r;
    execve(e->init, argv, named ? proxy : nothing);
    return err_sys(err, -errno, "execute '%s'", e->init);
}

bool enter_by_bytes(const struct enter *e) {
    return str_eq(e->socket, "-");
}

/* Its listeners keep their places, behind the descriptors that the link has for itself (link/far.h). */
int enter_exec_linked(const struct enter *e, struct err *err) {
    uint32_t places = e->network && !(e->listeners.has & NETWORK_EVERY_PORT) ? 1u << NETWORK_FDS_MAX : 0;
    char mask[16];
    char *const argv[] = {"bawn-init", "--link", e->network ? mask : NULL, NULL};
    static char *const nothing[] = {NULL};

    for (int i = 0; i < NETWORK_FDS_MAX; i++) {
        if (e->listeners.fds[i] < 0)
            continue;
        if (dup2(e->listeners.fds[i], FAR_FD_LISTENERS + i) < 0)
            return err_sys(err, -errno, "arrange descriptors");
        places |= 1u << i;
    }
    places |= e->listeners.has & NETWORK_REDIRECTED ? FAR_REDIRECTED : 0;
    snprintf(mask, sizeof mask, "%u", places);
    execve(e->init, argv, nothing);
    return err_sys(err, -errno, "execute '%s'", e->init);
}
