/* SPDX-License-Identifier: Apache-2.0 */
#include "socket.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"
#include "proto/execmsg.h"
#include "proto/execreq.h"

enum { ANSWER_MAX = 4096 };

static int connect_to(const char *path, int *ret, struct err *err) {
    CLEANUP(closep) int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (sock < 0 || (size_t)snprintf(a.sun_path, sizeof a.sun_path, "%s", path) >= sizeof a.sun_path)
        return err_set(err, -ENAMETOOLONG, "the path of the socket is too long");
    if (connect(sock, (struct sockaddr *)&a, sizeof a) < 0)
        return err_sys(err, -errno, "connect to '%s'", path);
    *ret = TAKE_FD(sock);
    return 0;
}

static int ask(int sock, char **argv, int stderr_fd, struct err *err) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(EXEC_REQUEST_MAX);
    char *none[] = {NULL};
    struct exec_request q = {.flags = EXEC_STDERR, .cwd = "", .argv = argv, .envp = none};
    struct exec_msg m = {.type = EXEC_MSG_EXEC, .value = EXEC_PROTOCOL};
    int r;

    while (argv[q.argc])
        q.argc++;
    r = exec_request_encode(&q, &body);
    m.len = (uint32_t)body.len;
    r = r < 0 ? r : execmsg_send(sock, &m, body.data, &stderr_fd, 1);
    return r < 0 ? err_sys(err, r, "send the request") : 0;
}

int socket_exec(const char *path, char **argv, int stderr_fd, int *ret_status, struct err *err) {
    CLEANUP(closep) int sock = -1;
    int r = connect_to(path, &sock, err);

    r = r < 0 ? r : ask(sock, argv, stderr_fd, err);
    while (r >= 0) {
        CLEANUP(buf_done) struct buf body = BUF_INIT(ANSWER_MAX);
        struct exec_msg m = {0};
        size_t n_fds = 0;

        r = execmsg_recv(sock, &m, &body, NULL, &n_fds);
        if (r <= 0)
            return err_set(err, -EPROTO, "the supervisor hung up");
        if (m.type == EXEC_MSG_FAILED)
            return err_set(err, -m.value, "%s", buf_str(&body));
        if (m.type == EXEC_MSG_EXITED) {
            *ret_status = m.extra & EXEC_END_NOEXEC ? EXIT_NOTFOUND
                          : WIFEXITED(m.value)      ? WEXITSTATUS(m.value)
                                                    : 128 + WTERMSIG(m.value);
            return 0;
        }
    }
    return r;
}
