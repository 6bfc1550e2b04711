/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and connects to the exec socket of a sandbox. */
#include "supervisor/keep/exec_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"
#include "proto/execmsg.h"
#include "registry/registry.h"
#include "registry/running.h"
#include "supervisor/control/control_client.h"
#include "supervisor/keep/exec_client_priv.h"

enum { DYING_MS = 1000 };

/* A path that is too long for an address goes through the folder's descriptor. */
static int address(const char *folder, const char *name, int *dir, struct sockaddr_un *a) {
    char leaf[BOX_ID_MAX + 16];
    int n;

    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(a->sun_path, sizeof a->sun_path, "%s/box/%s.sock", folder, name);
    if (n > 0 && n < (int)sizeof a->sun_path)
        return 0;
    *dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*dir < 0)
        return -errno;
    if (snprintf(leaf, sizeof leaf, "box/%s.sock", name) >= (int)sizeof leaf)
        return -ENAMETOOLONG;
    return control_address(*dir, leaf, a);
}

/* Our streams and variables go there: a socket that another user put in our way gets none of them. */
static int check_peer(int fd, const char *name, struct err *err) {
    uid_t uid;
    int r = sock_peer(fd, &uid);

    if (r < 0)
        return err_sys(err, r, "find the owner of sandbox '%s'", name);
    if (uid != geteuid())
        return err_set(err, -EPERM, "sandbox '%s' belongs to another user (uid %u)", name, (unsigned)uid);
    return 0;
}

static int try_connect(const char *folder, const char *name, int *ret, struct err *err) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), dir = -1;
    struct sockaddr_un a;
    int r = fd < 0 ? -errno : address(folder, name, &dir, &a);

    if (r < 0)
        return err_sys(err, r, "socket of the sandbox '%s'", name);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return errno == EACCES ? err_set(err, -EPERM, "sandbox '%s' belongs to another user: its socket cannot be used", name)
                               : err_sys(err, -errno, "connect to sandbox '%s'", name);
    r = check_peer(fd, name, err);
    if (r == 0)
        *ret = TAKE_FD(fd);
    return r;
}

/* The process that starts it has the lock before its keeper has written anything. */
static bool is_keeper_there(const struct box *b) {
    return b->state.pid > 0 && b->state.start_time && !process_is_dead(b->state.pid, b->state.start_time);
}

int exec_not_running(const struct box *b, struct err *err) {
    bool crashed = false;
    enum box_phase phase = box_look(b, &crashed);

    if (b->alive && (phase != BOX_RUNNING || !is_keeper_there(b)))
        return err_set(err, -EAGAIN, "sandbox '%s' is just %s; try again", b->name,
                       phase == BOX_STOPPING ? "stopping" : "being started, or another 'bawn' is at work with it");
    if (b->alive)
        return err_set(err, -EIO, "sandbox '%s': its supervisor (pid %d) does not answer; 'bawn stop --force %s' ends it",
                       b->name, (int)b->state.pid, b->name);
    if (crashed)
        return err_set(err, -ENOTCONN, "sandbox '%s' is not running, its supervisor was killed: 'bawn start %s' starts it again",
                       b->name, b->name);
    if (phase == BOX_FAILED && b->state.why[0])
        return err_set(err, -ENOTCONN, "sandbox '%s' is not running, it failed (%s): 'bawn start %s' starts it again", b->name,
                       b->state.why, b->name);
    return err_set(err, -ENOTCONN, "sandbox '%s' is not running: 'bawn start %s' starts it", b->name, b->name);
}

/* A keeper that was killed loses its sockets a moment before its lock. One that lives never refuses. */
static int open_box(const char *boxes, const char *name, struct box *ret, struct err *err) {
    CLEANUP(closep) int fd = -1;
    int r = registry_open(boxes, name, false, ret, err);

    if (r < 0 || !ret->alive || box_look(ret, NULL) != BOX_RUNNING || !is_keeper_there(ret))
        return r;
    fd = (int)syscall(SYS_pidfd_open, ret->state.pid, 0);
    poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, DYING_MS);
    box_done(ret);
    return registry_open(boxes, name, false, ret, err);
}

/* No process listens under this name. It may be an id. */
static int why_not(char *const *environ_, const char *home, const char *folder, const char *name, int *ret, struct err *err) {
    CLEANUP(freep) char *boxes = NULL, *found = NULL;
    CLEANUP(box_done) struct box b = BOX_INIT;
    struct err run = {0};
    int r = 0, refused;

    if (!home) {
        r = paths_home(environ_, &found, err);
        home = found;
    }
    r = r < 0 ? r : registry_folder(environ_, home, &boxes, err);
    if (r == 0 && !boxes)
        return err_set(err, -ENOENT, "no sandbox '%s': without a home folder there are no persistent sandboxes", name);
    r = r < 0 ? r : registry_open(boxes, name, false, &b, err);
    if (r == -ENOENT && (refused = running_refuse(environ_, name, &run)) < 0) {
        *err = run;
        return refused;
    }
    if (r == 0 && b.alive && !str_eq(b.name, name)) {
        r = try_connect(folder, b.name, ret, err);
        if (r != -ENOENT && r != -ECONNREFUSED)
            return r;
        r = 0;
    }
    box_done(&b);
    r = r < 0 ? r : open_box(boxes, name, &b, err);
    /* It may have come up since the first look: its socket is there before it counts as running. */
    if (r == 0 && b.alive && try_connect(folder, b.name, ret, &run) == 0)
        return 0;
    return r < 0 ? r : exec_not_running(&b, err);
}

int exec_connect(char *const *environ_, const char *home, const char *name, int *ret, struct err *err) {
    CLEANUP(freep) char *folder = NULL;
    int r = paths_runtime(environ_, &folder, err);

    if (r < 0)
        return r;
    if (!folder)
        return err_set(err, -ENOENT, "no sandbox '%s': there is no XDG_RUNTIME_DIR and no home", name);
    r = try_connect(folder, name, ret, err);
    return r == -ENOENT || r == -ENOTDIR || r == -ECONNREFUSED ? why_not(environ_, home, folder, name, ret, err) : r;
}

/* -- messages ------------------------------------------------------------------------------------------------------------ */

int exec_not_sent(int r, struct err *err) {
    return r == -EPIPE ? err_set(err, -ECONNRESET, "the sandbox ended before it answered")
           : r < 0     ? err_sys(err, r, "ask the sandbox's supervisor")
                       : 0;
}

int exec_send_request(int sock, const struct exec_request *r, const int *fds, size_t n_fds, struct err *err) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(EXEC_REQUEST_MAX);
    struct exec_msg m = {.type = EXEC_MSG_EXEC, .value = EXEC_PROTOCOL};
    int e = exec_request_encode(r, &body);

    if (e < 0 || !buf_ok(&body))
        return err_usage(err, "the command and its variables are too long (more than %d bytes)", EXEC_REQUEST_MAX);
    m.len = (uint32_t)body.len;
    return exec_not_sent(execmsg_send(sock, &m, body.data, fds, n_fds), err);
}

/* The words come from our own supervisor, which may quote names of the inside. */
int exec_failed(const struct exec_msg *m, const struct buf *body, struct err *err) {
    CLEANUP(buf_done) struct buf shown = BUF_INIT(sizeof err->msg);

    buf_add_printable(&shown, buf_str(body));
    return err_set(err, m->value > 0 ? -m->value : -EIO, "%s",
                   shown.len && buf_ok(&shown) ? buf_str(&shown) : "the sandbox's supervisor refused");
}

int exec_recv(int sock, struct exec_msg *m, struct buf *body, int *ret_fd, struct err *err) {
    size_t n_fds = 1;
    int fd = -1, r;

    buf_clear(body);
    r = execmsg_recv(sock, m, body, &fd, &n_fds);
    if (n_fds == 1 && (r <= 0 || !ret_fd))
        close(fd);
    if (r > 0 && ret_fd)
        *ret_fd = n_fds == 1 ? fd : -1;
    return r < 0 && r != -ECONNRESET ? err_sys(err, r, "read from the sandbox's supervisor") : MAX_OF(r, 0);
}

int exec_unexpected(const struct exec_msg *m, struct err *err) {
    return err_set(err, -EPROTO, "the sandbox's supervisor sent an unexpected message (type %u)", m->type);
}

int exec_gone(const char *sandbox, struct err *err) {
    return err_set(err, -ECONNRESET, "sandbox '%s' ended before it answered; see 'bawn logs --keeper %s'", sandbox, sandbox);
}

static int not_executed(const struct exec_msg *m, struct err *err) {
    int r = err_set(err, m->value > 0 ? -m->value : -EIO, "the command cannot be executed: %s", strerror(m->value));

    if (err)
        err->status = err_exec_status(m->value);
    return r;
}

static int wait_answer(int sock, enum exec_msg_type wanted, struct exec_msg *m, int *ret_fd, struct err *err) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(EXEC_INLINE_MAX);
    int r;

    do /* a quick command prints before it is known to have started */
        r = exec_recv(sock, m, &body, ret_fd, err);
    while (r > 0 && m->type == EXEC_MSG_OUTPUT);
    if (r <= 0)
        return r < 0 ? r : err_set(err, -ECONNRESET, "the sandbox ended before it answered");
    if (m->type == EXEC_MSG_FAILED)
        return exec_failed(m, &body, err);
    if (m->type == EXEC_MSG_EXITED)
        return m->extra & EXEC_END_NOEXEC ? not_executed(m, err)
                                          : err_set(err, -ECONNRESET, "the sandbox ended before the command was started");
    return m->type == wanted ? 0 : exec_unexpected(m, err);
}

int exec_background(int sock, const struct exec_request *r, int *ret_job, struct err *err) {
    struct exec_request background = *r;
    struct exec_msg m;
    int e;

    background.flags |= EXEC_BACKGROUND;
    e = exec_send_request(sock, &background, NULL, 0, err);
    e = e < 0 ? e : wait_answer(sock, EXEC_MSG_STARTED, &m, NULL, err);
    if (e == 0)
        *ret_job = m.value;
    return e < 0 && err && (err->status == EXIT_NOTFOUND || err->status == EXIT_NOEXEC) ? err_ctx(err, e, "'%s'", r->argv[0]) : e;
}

int exec_inside(int sock, int port, int *ret_fd, struct err *err) {
    struct exec_msg m = {.type = EXEC_MSG_CONNECT, .value = port};
    CLEANUP(closep) int fd = -1;
    int r = exec_not_sent(execmsg_send(sock, &m, NULL, NULL, 0), err);

    r = r < 0 ? r : wait_answer(sock, EXEC_MSG_OPENED, &m, &fd, err);
    if (r == 0 && fd < 0)
        return err_set(err, -EPROTO, "the sandbox's supervisor sent no connection");
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

int exec_open(int sock, const char *path, int how, int *ret_fd, struct err *err) {
    struct exec_msg m = {.type = EXEC_MSG_OPEN, .value = how, .len = (uint32_t)strlen(path)};
    CLEANUP(closep) int fd = -1;
    int r = exec_not_sent(execmsg_send(sock, &m, path, NULL, 0), err);

    r = r < 0 ? r : wait_answer(sock, EXEC_MSG_OPENED, &m, &fd, err);
    if (r == 0 && fd < 0)
        return err_set(err, -EPROTO, "the sandbox's supervisor sent no file");
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}
