/* SPDX-License-Identifier: Apache-2.0 */
/* What bawnd asks of a task: input, signals, the end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/fd.h"
#include "os/sock.h"
#include "service/task/task_priv.h"
#include "supervisor/session/run.h"

static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP, SIGCONT};

bool task_signal_known(int sig) {
    for (size_t i = 0; i < ARRAY_LEN(passed_on); i++)
        if (passed_on[i] == sig)
            return true;
    return sig == SIGKILL;
}

void task_answer(struct run_task *t, int client, uint64_t tag, int error) {
    const struct task_msg m = {.type = TASK_MSG_ANSWER, .value = error, .tag = tag};

    if (client >= 0 && t->clients[client] >= 0)
        send(t->clients[client], &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Everything of ours that could widen it comes from one user: bawnd's, or the tenant's own. */
void task_client_new(struct run_task *t) {
    int fd = accept4(TASK_FD_SOCKET, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    for (size_t i = 0; fd >= 0 && sock_peer_is_ours(fd) && i < TASK_CLIENTS_MAX; i++)
        if (t->clients[i] < 0) {
            t->clients[i] = fd;
            return;
        }
    closep(&fd);
}

static void order(struct run_task *t, char what) {
    if (t->link >= 0)
        send(t->link, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void task_end_politely(struct run_task *t) {
    order(t, t->asked ? RUN_PARENT_KILL : RUN_PARENT_END);
    t->asked = true;
}

static int send_signal(struct run_task *t, int sig) {
    if (!task_signal_known(sig))
        return EINVAL;
    if (!t->pid)
        return ESRCH;
    if (sig != SIGKILL)
        return kill(t->pid, sig) < 0 ? errno : 0;
    order(t, RUN_PARENT_KILL);
    return 0;
}

static void take_message(struct run_task *t, int client, const struct task_msg *m, int fd) {
    const struct task_input in = {.from = fd, .close = m->value == 1, .client = client, .tag = m->tag};

    switch ((enum task_msg_type)m->type) {
    case TASK_MSG_STDIN:
        task_input_add(t, &in);
        return;
    case TASK_MSG_SIGNAL:
        task_answer(t, client, m->tag, send_signal(t, m->value));
        break;
    case TASK_MSG_CANCEL:
        t->record.flags |= TASK_CANCELLED;
        task_end_politely(t);
        task_answer(t, client, m->tag, 0);
        break;
    case TASK_MSG_ANSWER:
        break;
    }
    closep(&fd);
}

void task_client_ready(struct run_task *t, size_t i) {
    struct task_msg m;
    size_t n_fds = 1;
    int fd = -1;
    long n = sock_recv(t->clients[i], &m, sizeof m, &fd, &n_fds);

    if (n == -EAGAIN)
        return;
    if (n == (long)sizeof m) {
        take_message(t, (int)i, &m, n_fds ? fd : -1);
        return;
    }
    if (n_fds)
        closep(&fd);
    closep(&t->clients[i]);
    for (size_t k = 0; k < t->n_inputs; k++)
        if (t->inputs[k].client == (int)i)
            t->inputs[k].client = -1;
}
