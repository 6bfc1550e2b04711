/* SPDX-License-Identifier: Apache-2.0 */
/* The one request that the command line has for bawnd. */
#include "ops/setup/service_link.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"
#include "os/spawn.h"

#define MACHINE_SOCKET "/run/bawn/api.sock"
enum { ANSWER_MAX = 64 * 1024, SAID_MAX = 4096, ASK_NS = 20 * 1000 * 1000 };

static const char request[] = "POST /v1/links HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/* -- asking ------------------------------------------------------------------------------------------------------------------ */

static int link_connect(const char *path, struct err *err) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (fd < 0)
        return err_sys(err, -errno, "make a socket");
    if (strlen(path) >= sizeof a.sun_path)
        return err_set(err, -ENAMETOOLONG, "'%s' is too long for a socket", path);
    memcpy(a.sun_path, path, strlen(path) + 1);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return errno == ENOENT || errno == ECONNREFUSED ? -ECONNREFUSED : err_sys(err, -errno, "connect to '%s'", path);
    /* Another user's program there would get no secret, but could send the browser anywhere. */
    if (!sock_peer_is_ours(fd))
        return err_set(err, -EPERM, "the service at '%s' is another user's", path);
    return TAKE_FD(fd);
}

static int link_read(int fd, struct buf *answer, struct err *err) {
    char part[4096];
    ssize_t n = fd_write_all(fd, request, sizeof request - 1);

    while (n >= 0 && (n = read(fd, part, sizeof part)) != 0) {
        n = n < 0 ? -errno : n;
        if (n > 0)
            buf_add(answer, part, (size_t)n);
        n = n == -EINTR ? 0 : n;
    }
    /* bawnd lets go of clients while it has no bawn-front: when it begins, or ends. */
    if (n == -ECONNRESET || n == -EPIPE || (n == 0 && answer->len == 0))
        return -ECONNREFUSED;
    if (n < 0)
        return err_sys(err, (int)n, "speak with bawnd");
    return buf_ok(answer) ? 0 : err_set(err, -EBADMSG, "the answer of bawnd is too long");
}

static int take_text(const json_t *root, const char *key, char *ret, size_t size) {
    const char *text = json_get_text(root, key);

    if (!text[0] || strlen(text) >= size ||
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:/.#=_-[]") != strlen(text))
        return -EBADMSG;
    memcpy(ret, text, strlen(text) + 1);
    return 0;
}

static int link_parse(const struct buf *answer, struct service_link *ret, struct err *err) {
    const char *body = strstr(buf_str(answer), "\r\n\r\n");
    json_t *root = body ? json_loads(body + 4, JSON_REJECT_DUPLICATES, NULL) : NULL;
    bool made = str_starts(buf_str(answer), "HTTP/1.1 201 ");
    int r = made && take_text(root, "url", ret->url, sizeof ret->url) == 0 &&
                    take_text(root, "expires", ret->expires, sizeof ret->expires) == 0 &&
                    (str_starts(ret->url, "http://") || str_starts(ret->url, "https://"))
                ? 0
                : -EPROTO;

    if (r < 0) {
        CLEANUP(buf_done) struct buf why = BUF_INIT(SAID_MAX);

        buf_add_printable(&why, json_get_text(root, "detail"));
        err_set(err, r, "%s", why.len ? buf_str(&why) : "bawnd gave no link: is it of another version?");
    }
    json_decref(root);
    return r;
}

static int link_ask(const char *path, struct service_link *ret, struct err *err) {
    CLEANUP(buf_done) struct buf answer = BUF_INIT(ANSWER_MAX);
    CLEANUP(closep) int fd = link_connect(path, err);
    int r = fd < 0 ? fd : link_read(fd, &answer, err);

    return r < 0 ? r : link_parse(&answer, ret, err);
}

/* The socket of a service that the user started: as bawnd itself finds its place (src/service/core/core_conf.c). */
static int own_socket(char **ret, struct err *err) {
    CLEANUP(freep) char *home = NULL, *runtime = NULL, *state = NULL;
    int r;

    if (geteuid() == 0)
        *ret = strdup(MACHINE_SOCKET);
    else {
        r = paths_home(environ, &home, err);
        r = r < 0 ? r : paths_runtime(environ, &runtime, err);
        r = r < 0 ? r : paths_state(environ, home, "service", &state, err);
        if (r < 0)
            return r;
        if (!runtime && !state)
            return err_set(err, -ENOENT, "no place for the service: set HOME");
        *ret = runtime ? str_dupf("%s/api.sock", runtime) : str_dupf("%s/run/api.sock", state);
    }
    return *ret ? 0 : err_oom(err);
}

int service_link_get(const char *path, struct service_link *ret, struct err *err) {
    CLEANUP(freep) char *own = NULL;
    int r = path ? 0 : own_socket(&own, err);

    r = r < 0 ? r : link_ask(path ? path : own, ret, err);
    return r == -ECONNREFUSED && !path && geteuid() != 0 ? link_ask(MACHINE_SOCKET, ret, err) : r;
}

/* -- a service of our own ---------------------------------------------------------------------------------------------------- */

static int bawnd_path(char *ret, size_t size, struct err *err) {
    ssize_t n = readlink("/proc/self/exe", ret, size - sizeof "d");

    if (n < 0)
        return err_sys(err, -errno, "find our own program");
    ret[n] = 'd'; /* bawn, bawnd */
    ret[n + 1] = 0;
    return access(ret, X_OK) < 0 ? err_sys(err, -errno, "no service is running, and it cannot be started: '%s'", ret) : 0;
}

static int bawnd_failed(int said, struct err *err) {
    CLEANUP(buf_done) struct buf why = BUF_INIT(4 * SAID_MAX);
    char text[SAID_MAX + 1];
    ssize_t n = fd_pread_full(said, text, SAID_MAX, 0);

    text[n < 0 ? 0 : n] = 0;
    buf_add_printable(&why, text);
    return err_set(err, -ECHILD, "bawnd has ended: %.400s", buf_str(&why));
}

int service_start(struct service_link *ret, pid_t *ret_pid, struct err *err) {
    CLEANUP(closep) int said = memfd_create("bawnd", MFD_CLOEXEC);
    char path[PATH_MAX], *argv[] = {"bawnd", "--listen", "127.0.0.1:0", NULL};
    const int fds[] = {-1, -1, said};
    const struct spawn s = {
        .path = path, .argv = argv, .envp = environ, .fds = fds, .n_fds = ARRAY_LEN(fds), .group = SPAWN_TERMINAL};
    int r = said < 0 ? err_sys(err, -errno, "memory") : bawnd_path(path, sizeof path, err);

    if (r < 0)
        return r;
    r = spawn_start(&s, ret_pid, NULL);
    if (r < 0)
        return err_sys(err, r, "start '%s'", path);
    while ((r = service_link_get(NULL, ret, err)) == -ECONNREFUSED) {
        nanosleep(&(struct timespec){.tv_nsec = ASK_NS}, NULL);
        if (waitpid(*ret_pid, NULL, WNOHANG) != 0)
            return bawnd_failed(said, err);
    }
    if (r < 0)
        process_end(*ret_pid);
    return r;
}
