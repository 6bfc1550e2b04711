/* SPDX-License-Identifier: Apache-2.0 */
/* The taker's side of the pool's socket, and the message that both sides know. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "jail/apply/blank.h"
#include "jail/apply/template.h"
#include "os/fd.h"
#include "os/sock.h"

enum { PATIENCE_US = 100000 }; /* only a pool that was stopped, or a machine with far too much to do, needs as long */

int pool_path(char *const *environ_, char **ret, struct err *err) {
    CLEANUP(freep) char *folder = NULL;
    int r = paths_runtime(environ_, &folder, err);

    *ret = NULL;
    if (r < 0 || !folder)
        return r;
    *ret = str_dupf("%s/pool.sock", folder);
    return *ret ? 0 : err_oom(err);
}

/* A path that is too long for an address is reached through its folder. */
static int connect_to(int sock, char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    CLEANUP(closep) int folder = -1;

    if (strlen(path) < sizeof a.sun_path) {
        memcpy(a.sun_path, path, strlen(path) + 1);
    } else {
        char *slash = strrchr(path, '/');

        *slash = 0;
        folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0)
            return -errno;
        snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%s", folder, slash + 1);
    }
    return connect(sock, (struct sockaddr *)&a, sizeof a) < 0 ? -errno : 0;
}

/* The maker of the socket can give us any network, so it must be ours. */
static int check_owner(int sock) {
    uid_t uid;
    int r = sock_peer(sock, &uid);

    return r < 0 ? r : uid == geteuid() ? 0 : -EPERM;
}

int pool_connect(char *const *environ_) {
    CLEANUP(freep) char *path = NULL;
    CLEANUP(closep) int sock = -1;
    struct timeval patience = {.tv_usec = PATIENCE_US};
    int r = pool_path(environ_, &path, NULL);

    if (r < 0 || !path)
        return r < 0 ? r : -ENOENT;
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0 ||
        setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0)
        return -errno;
    r = connect_to(sock, path);
    r = r < 0 ? r : check_owner(sock);
    return r < 0 ? r : TAKE_FD(sock);
}

static int check_reply(long n, const struct pool_reply *reply) {
    if (n < 0)
        return (int)n;
    return n != (long)sizeof *reply || reply->protocol != POOL_PROTOCOL ? -EPROTO : reply->result;
}

int pool_ask(int sock, enum pool_op op, struct pool_reply *ret) {
    const struct pool_request ask = {.protocol = POOL_PROTOCOL, .op = op};
    struct pool_reply reply;
    int r = sock_send(sock, &ask, sizeof ask, NULL, 0);

    r = r < 0 ? r : check_reply(sock_recv(sock, &reply, sizeof reply, NULL, NULL), &reply);
    if (r == 0) {
        reply.why[sizeof reply.why - 1] = 0;
        *ret = reply;
    }
    return r;
}

static int receive_tree(int sock, struct blank *b) {
    size_t n = 1;
    char mark;
    long len = sock_recv(sock, &mark, sizeof mark, &b->tree, &n);

    return len < 0 ? (int)len : len == 1 && n == 1 ? 0 : -EPROTO;
}

static int receive(int sock, struct plan_ids *ids, struct blank *b) {
    struct pool_reply reply;
    size_t n = BLANK_SPACES;
    int r = check_reply(sock_recv(sock, &reply, sizeof reply, b->spaces, &n), &reply);

    if (r == 0 && n != BLANK_SPACES)
        r = -EPROTO;
    r = r < 0 ? r : network_receive(sock, &b->listeners, NULL);
    if (r == 0 && reply.with_tree)
        r = receive_tree(sock, b);
    if (r < 0)
        return r;
    if (!ids->by_root && (reply.host_uid != ids->host_uid || reply.host_gid != ids->host_gid))
        return -EPROTO;
    ids->host_uid = reply.host_uid;
    ids->host_gid = reply.host_gid;
    b->ids = *ids;
    return 0;
}

int pool_view(struct pool_view *ret) {
    struct stat space, root;

    if (stat("/proc/self/ns/mnt", &space) < 0 || stat("/", &root) < 0)
        return -errno;
    *ret = (struct pool_view){.space = space.st_ino, .root_dev = root.st_dev, .root_ino = root.st_ino};
    return 0;
}

static int ask_for(int sock, const struct plan *plan) {
    struct pool_request ask = {
        .protocol = POOL_PROTOCOL, .op = POOL_TAKE, .inside_uid = plan->ids.inside_uid, .inside_gid = plan->ids.inside_gid};
    CLEANUP(buf_done) struct buf wanted = BUF_INIT(TEMPLATE_MAX);
    CLEANUP(buf_done) struct buf message = BUF_INIT(TEMPLATE_MAX + sizeof ask);

    if (pool_view(&ask.view) == 0)
        template_describe(plan, &wanted);
    buf_add(&message, &ask, sizeof ask);
    buf_add(&message, wanted.data, wanted.len);
    return buf_ok(&message) ? sock_send(sock, message.data, message.len, NULL, 0) : -ENOMEM;
}

int blank_take(char *const *environ_, struct plan *plan, struct blank *ret) {
    CLEANUP(closep) int sock = pool_connect(environ_);
    CLEANUP(blank_done) struct blank b = BLANK_INIT;
    int r = sock < 0 ? sock : ask_for(sock, plan);

    r = r < 0 ? r : receive(sock, &plan->ids, &b);
    if (r < 0)
        return r;
    *ret = TAKE(b, (struct blank)BLANK_INIT);
    return 0;
}

int blank_give(int sock, struct blank *b) {
    const struct pool_reply reply = {
        .protocol = POOL_PROTOCOL, .host_uid = b->ids.host_uid, .host_gid = b->ids.host_gid, .with_tree = b->tree >= 0};
    int r = sock_send(sock, &reply, sizeof reply, b->spaces, BLANK_SPACES);

    r = r < 0 ? r : network_send(sock, &b->listeners, NULL);
    if (r == 0 && b->tree >= 0)
        r = sock_send(sock, "t", 1, &b->tree, 1);
    blank_done(b);
    return r;
}
