/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a persistent sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "init/init.h"
#include "os/fd.h"
#include "os/sigfd.h"
#include "os/sock.h"
#include "proto/execmsg.h"
#include "proto/execreq.h"

static_assert((int)INIT_FDS_MAX <= (int)SOCK_FDS_MAX, "what the socket takes");

struct resident_packet {
    struct init_msg msg;
    char body[EXEC_INLINE_MAX];
};

/* 0, 1 and 2 stay taken, by nothing. The supervisor's starter may have had signals ignored; the commands must not. */
int resident_begin(struct init *in, struct err *err) {
    const struct init_msg ready = {.type = INIT_MSG_STARTED, .value = getpid()};

    in->null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (in->null < 0)
        return err_sys(err, -errno, "open /dev/null");
    for (int i = 0; i < 3; i++)
        if (dup2(in->null, i) < 0)
            return err_sys(err, -errno, "descriptor %d", i);
    in->jobs.v = malloc(INIT_JOBS_MAX * sizeof *in->jobs.v);
    if (!in->jobs.v)
        return err_oom(err);
    if (fcntl(in->control, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return err_sys(err, -errno, "control socket");
    for (int i = 1; i < NSIG; i++)
        if (i != SIGCHLD)
            signal_default(i);
    sigemptyset(&in->old_mask);
    in->childless = true;
    out_send(in, &ready, -1);
    return 0;
}

/* A request that is too long for a message. */
static int read_memfd(int fd, char **ret, size_t *ret_len) {
    CLEANUP(freep) char *bytes = NULL;
    struct stat st;
    size_t len = 0;

    if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > EXEC_REQUEST_MAX)
        return -EBADMSG;
    bytes = malloc((size_t)st.st_size);
    if (!bytes)
        return -ENOMEM;
    while (len < (size_t)st.st_size) {
        ssize_t n = pread(fd, bytes + len, (size_t)st.st_size - len, (off_t)len);

        if (n <= 0)
            return -EBADMSG;
        len += (size_t)n;
    }
    *ret = TAKE_PTR(bytes);
    *ret_len = len;
    return 0;
}

static void refuse(struct init *in, int job, int r, const char *what) {
    struct init_msg msg = {.type = INIT_MSG_FAILED, .job = job, .value = -r};

    snprintf(msg.text, sizeof msg.text, "%s", what);
    out_send(in, &msg, -1);
}

static void on_exec(struct init *in, const struct init_msg *msg, char *body, size_t len, int *fds, size_t n_fds) {
    CLEANUP(freep) char *bytes = NULL;
    int r;

    if (msg->extra != 1) {
        jobs_exec(in, msg, body, len, fds, n_fds);
        return;
    }
    r = n_fds > 0 && len == 0 ? read_memfd(fds[0], &bytes, &len) : -EBADMSG;
    if (r < 0)
        refuse(in, msg->job, r, "the request to execute cannot be read");
    else
        jobs_exec(in, msg, bytes, len, fds + 1, n_fds - 1);
}

void resident_signal_all(const struct init *in, int sig) {
    if (in->start.flags & INIT_FLAG_NO_PIDNS)
        tree_signal_descendants(sig);
    else
        kill(-1, sig); /* from PID 1: all others in its namespace */
}

static void dispatch(struct init *in, struct resident_packet *p, size_t len, int *fds, size_t n_fds) {
    const struct init_msg *msg = &p->msg;

    switch ((enum init_msg_type)msg->type) {
    case INIT_MSG_EXEC:
        on_exec(in, msg, p->body, len, fds, n_fds);
        break;
    case INIT_MSG_OPEN:
        open_answer(in, msg, p->body, len);
        break;
    case INIT_MSG_SIGNAL:
        jobs_signal(in, msg);
        break;
    case INIT_MSG_ALL:
        resident_signal_all(in, msg->value);
        break;
    case INIT_MSG_INSIDE:
        inside_answer(in, msg);
        break;
    case INIT_MSG_GO:
    case INIT_MSG_PTY:
    case INIT_MSG_STARTED:
    case INIT_MSG_STOPPED:
    case INIT_MSG_EXITED:
    case INIT_MSG_FAILED:
    case INIT_MSG_LIMIT:
    case INIT_MSG_NETWORK:
        break;
    }
}

void resident_read(struct init *in) {
    static struct resident_packet p; /* too large for the stack; of its pages only those are touched that a message needed */
    int fds[INIT_FDS_MAX];
    size_t n_fds = INIT_FDS_MAX;
    long n;

    p.msg = (struct init_msg){.type = 0};
    n = sock_recv(in->control, &p, sizeof p, fds, &n_fds);
    if (n == -EAGAIN)
        return;
    if (n == -EBADMSG &&
        p.msg.type == INIT_MSG_EXEC) { /* there was no room for its descriptors: that is this command's bad luck only */
        refuse(in, p.msg.job, -EMFILE, "too many open files in the sandbox's PID 1");
        return;
    }
    if (n < (long)sizeof p.msg) { /* the supervisor is gone, or not ours */
        in->outbox.broken = true;
        return;
    }
    dispatch(in, &p, (size_t)n - sizeof p.msg, fds, n_fds);
    for (size_t i = 0; i < n_fds; i++) /* what was taken is -1 */
        closep(&fds[i]);
}
