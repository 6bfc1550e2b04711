/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of a persistent sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "init/init.h"
#include "os/fd.h"
#include "proto/execreq.h"

enum { STATUS_MAX = 4096 };

static struct job *find_id(const struct jobs *j, int id) {
    for (size_t i = 0; i < j->n; i++)
        if (j->v[i].id == id)
            return &j->v[i];
    return NULL;
}

static struct job *find_child(const struct jobs *j, pid_t pid) {
    for (size_t i = 0; i < j->n; i++)
        if (j->v[i].child == pid)
            return &j->v[i];
    return NULL;
}

static bool is_held(const struct job *j) {
    return j->child != j->pid;
}

/* What one EXEC needs for as long as it is being started. */
struct jobs_launch {
    struct exec_request request;
    struct command command;
    char **envp;
    int master, slave; /* -1: none */
    const int *fds;
    size_t n_fds;
};

static void launch_done(struct jobs_launch *l) {
    exec_request_done(&l->request);
    free(l->envp);
    closep(&l->master);
    closep(&l->slave);
}

/* Which descriptor becomes which stream. What neither comes with the message nor is the terminal is our own: /dev/null. */
static int place_streams(struct jobs_launch *l, struct err *err) {
    static const uint32_t from_fds[3] = {EXEC_STDIN, EXEC_STDOUT, EXEC_STDERR},
                          from_tty[3] = {EXEC_TTY_STDIN, EXEC_TTY_STDOUT, EXEC_TTY_STDERR};
    uint32_t flags = l->request.flags;
    size_t used = 0;

    if (l->n_fds != (size_t)__builtin_popcount(flags & EXEC_FLAGS_FDS))
        return err_set(err, -EBADMSG, "the request to execute came with %zu descriptors", l->n_fds);
    for (int i = 0; i < 3; i++)
        l->command.fds[i] = flags & from_fds[i] ? l->fds[used++] : flags & from_tty[i] ? l->slave : -1;
    return 0;
}

static int prepare(const struct init *in, char *body, size_t len, struct jobs_launch *l, struct err *err) {
    struct exec_request *q = &l->request;
    int r = exec_request_decode(body, len, q);

    if (r < 0)
        return err_sys(err, r, "the request to execute is not understood");
    r = environment_merge(in->start.envp, in->start.envc, q->envp, q->envc, &l->envp);
    if (r < 0)
        return err_sys(err, r, "environment of the command");
    r = q->flags & EXEC_TTY ? terminal_make(q, &l->master, &l->slave, err) : 0;
    if (r < 0)
        return r;
    l->command = (struct command){.argv = q->argv,
                                  .argc = q->argc,
                                  .envp = l->envp,
                                  .cwd = q->cwd[0] ? q->cwd : in->start.cwd,
                                  .search_path = environment_get(l->envp, "PATH"),
                                  .tty = l->slave,
                                  .session = l->slave < 0};
    return place_streams(l, err);
}

static int check_number(const struct init *in, int id, struct err *err) {
    if (id <= 0 || find_id(&in->jobs, id))
        return err_set(err, -EINVAL, "the number %d is no new job's", id);
    return in->jobs.n == INIT_JOBS_MAX ? err_set(err, -EAGAIN, "too many commands at once (at most %d)", INIT_JOBS_MAX) : 0;
}

/* With the guard a child shares our descriptors until it execs: what it made of 0, 1 and 2 must not stay. */
static void restore_streams(const struct init *in) {
    for (int i = 0; in->guard && i < 3; i++)
        dup2(in->null, i);
}

static void answer_failure(struct init *in, int id, const struct err *err) {
    struct init_msg msg = {.type = INIT_MSG_FAILED, .job = id, .value = -err->code};

    snprintf(msg.text, sizeof msg.text, "%.*s", (int)sizeof msg.text - 1, err->msg);
    out_send(in, &msg, -1);
}

/* Its own session: with a terminal another process leads it. */
static int launch(struct init *in, int id, const struct jobs_launch *l, struct job *ret, int *ret_errno, struct err *err) {
    pid_t pid = -1;
    int r;

    if (l->slave >= 0)
        return holder_start(in, id, &l->command, ret, ret_errno, err);
    r = command_start(in, &l->command, &pid, ret_errno, err);
    restore_streams(in);
    *ret = (struct job){.id = id, .pid = pid, .child = pid};
    return r;
}

static void start_job(struct init *in, int id, struct jobs_launch *l) {
    struct init_msg msg = {.type = INIT_MSG_STARTED, .job = id};
    struct err err = {0};
    struct job job = {0};
    int exec_errno = 0, r = launch(in, id, l, &job, &exec_errno, &err);

    if (r < 0) {
        answer_failure(in, id, &err);
        return;
    }
    in->childless = false;
    if (r > 0) {
        msg = (struct init_msg){.type = INIT_MSG_EXITED, .job = id, .value = exec_errno, .extra = 1};
        out_send(in, &msg, -1);
        return;
    }
    in->jobs.v[in->jobs.n++] = job;
    msg.value = job.pid;
    out_send(in, &msg, TAKE_FD(l->master));
}

void jobs_exec(struct init *in, const struct init_msg *msg, char *body, size_t len, int *fds, size_t n_fds) {
    CLEANUP(launch_done) struct jobs_launch l = {.master = -1, .slave = -1, .fds = fds, .n_fds = n_fds};
    struct err err = {0};
    int r = check_number(in, msg->job, &err);

    r = r < 0 ? r : prepare(in, body, len, &l, &err);
    if (r < 0)
        answer_failure(in, msg->job, &err);
    else
        start_job(in, msg->job, &l);
    for (size_t i = 0; i < n_fds; i++) /* our copies would keep its pipes open */
        closep(&fds[i]);
}

void jobs_changed(struct init *in, int id, int status) {
    struct job *j = find_id(&in->jobs, id);
    struct init_msg msg = {.type = INIT_MSG_EXITED, .value = status, .job = id};

    if (!j)
        return;
    if (WIFSTOPPED(status)) {
        j->stopped = true;
        msg.type = INIT_MSG_STOPPED;
        msg.value = WSTOPSIG(status);
    } else {
        *j = in->jobs.v[--in->jobs.n];
        msg.extra = room_ran_out(in, status);
    }
    out_send(in, &msg, -1);
}

/* A holder goes after it reported the end of its command; one that was killed from inside takes its command with it. */
void jobs_child(struct init *in, pid_t pid, int status) {
    const struct job *j = find_child(&in->jobs, pid);

    if (j && is_held(j) && WIFSTOPPED(status)) { /* from inside: while it is stopped, nothing tells how its command ends */
        kill(pid, SIGCONT);
        return;
    }
    if (j && is_held(j)) {
        holder_read(in);
        j = find_child(&in->jobs, pid);
        if (j)
            kill(-j->pid, SIGKILL);
    }
    if (j)
        jobs_changed(in, j->id, status);
}

/* Neither catches nor ignores it. */
static bool leaves_to_kernel(pid_t pid, int sig) {
    static const char *const sets[] = {"\nSigIgn:\t", "\nSigCgt:\t"};
    char path[32], status[STATUS_MAX];

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (fd_read_file_at(AT_FDCWD, path, status, sizeof status) <= 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        const char *at = strstr(status, sets[i]); /* line ends in the name of a process are escaped */

        if (!at || strtoull(at + strlen(sets[i]), NULL, 16) >> (sig - 1) & 1)
            return false;
    }
    return true;
}

/* What a key makes goes to the foreground of a terminal only: a shell in it is not interrupted together with its command. */
static bool is_key(int sig) {
    return sig == SIGINT || sig == SIGQUIT || sig == SIGTSTP;
}

/*
 * A group also means what is in the foreground of the command's terminal: a shell gives its commands groups of their own. The kernel
 * drops SIGTSTP for the group of a session's leader, because no process in that session could continue it; here the supervisor can, so a
 * command without a terminal is stopped as it would have been in its user's session. A holder that was stopped from inside reports nothing.
 */
void jobs_signal(struct init *in, const struct init_msg *msg) {
    struct job *j = find_id(&in->jobs, msg->job);
    int sig = msg->value;
    pid_t front;

    if (!j)
        return;
    if (is_held(j))
        kill(j->child, SIGCONT);
    front = is_held(j) && msg->extra ? terminal_group(j->pid) : -1;
    if (front > 1 && front != j->pid) {
        kill(-front, sig);
        if (is_key(sig))
            return;
    }
    if (sig == SIGTSTP && !is_held(j) && leaves_to_kernel(j->pid, sig))
        sig = SIGSTOP;
    kill(msg->extra ? -j->pid : j->pid, sig);
    if (j->stopped && signal_is_ending(sig))
        kill(msg->extra ? -j->pid : j->pid, SIGCONT);
    if (sig == SIGCONT || signal_is_ending(sig))
        j->stopped = false;
}
