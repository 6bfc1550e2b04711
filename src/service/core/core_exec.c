/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands in a sandbox that stays (spec/exec-socket.md). Its streams are pipes between the command and the front: no byte of them passes
 * here. One connection to the keeper for each command; when the client goes, it is closed, and the keeper ends the command.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"
#include "proto/execmsg.h"
#include "proto/execreq.h"
#include "service/core/core_boxes.h"

enum { OUTPUT_USUAL = 1024 * 1024, TIMEOUT_STATUS = 124 };

int box_connect(struct core *c, const struct tenant *t, const char *id) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    uid_t uid;
    int n = snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/t/%llu/bawn/box/%s.sock", c->runtime,
                     (unsigned long long)t->row.number, id);

    if (fd < 0)
        return -errno;
    if (n < 0 || n >= (int)sizeof a.sun_path)
        return -ENAMETOOLONG;
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return -errno;
    if (sock_peer(fd, &uid) < 0 || uid != t->uid)
        return -EPERM;
    return TAKE_FD(fd);
}

/* -- the request -------------------------------------------------------------------------------------------------------------- */

static int collect_words(const struct api_call *call, struct strv *argv, struct strv *env) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < api_field_count(&call->fields, API_FIELD_COMMAND); i++)
        r = strv_add(argv, api_field_get(&call->fields, API_FIELD_COMMAND, i));
    for (size_t i = 0; r >= 0 && i < api_field_count(&call->fields, API_FIELD_ENV); i++)
        r = strv_addf(env, "%s=%s", api_field_key(&call->fields, API_FIELD_ENV, i),
                      api_field_get(&call->fields, API_FIELD_ENV, i));
    return r;
}

/* A text is written into the pipe at once: it is made large enough. */
static int stdin_pipe(const struct api_call *call, int *ret) {
    size_t len = 0;
    const char *text = api_field_bytes(&call->fields, API_FIELD_STDIN, 0, &len);
    CLEANUP(closep) int from = -1;
    CLEANUP(closep) int to = -1;
    int r = fd_pipe(&from, &to);

    if (r < 0)
        return r;
    if (len > 65536 && fcntl(to, F_SETPIPE_SZ, (int)len) < 0)
        return -errno;
    if (fcntl(to, F_SETFL, O_NONBLOCK) < 0 || (len && write(to, text, len) != (ssize_t)len))
        return -EFBIG;
    *ret = TAKE_FD(from);
    return 0;
}

static int send_exec(struct api_call *call, int out, int errors, struct err *err) {
    CLEANUP(strv_done) struct strv argv = {0};
    CLEANUP(strv_done) struct strv env = {0};
    CLEANUP(buf_done) struct buf body = BUF_INIT(EXEC_REQUEST_MAX);
    CLEANUP(closep) int in = -1;
    const char *cwd = call_text(call, API_FIELD_CWD), *timeout = call_text(call, API_FIELD_TIMEOUT);
    struct exec_request q = {.flags = EXEC_FLAGS_FDS, .cwd = cwd ? cwd : ""};
    struct exec_msg m = {.type = EXEC_MSG_EXEC, .value = EXEC_PROTOCOL};
    int r = timeout ? parse_duration(timeout, &q.timeout_ms, err) : 0;

    if (r < 0)
        return r;
    if (collect_words(call, &argv, &env) < 0)
        return err_oom(err);
    q.argv = argv.v;
    q.argc = argv.len;
    q.envp = env.v;
    q.envc = env.len;
    r = stdin_pipe(call, &in);
    r = r < 0 ? r : exec_request_encode(&q, &body);
    if (r < 0 || !buf_ok(&body))
        return err_set(err, -E2BIG, "the command is too long");
    m.len = (uint32_t)body.len;
    r = execmsg_send(call->exec, &m, body.data, (const int[]){in, out, errors}, 3);
    return r < 0 ? err_sys(err, r, "speak with the sandbox") : 0;
}

/* -- the answer --------------------------------------------------------------------------------------------------------------- */

/* The pipes go to the front before the command has started; how it ended comes behind them. */
static void answer_pipes(struct core *c, struct api_call *call, int out, int errors) {
    uint64_t max = api_field_number(&call->fields, API_FIELD_OUTPUT_MAX, OUTPUT_USUAL);
    struct api_msg m = {.kind = API_ANSWER,
                        .flags = API_FLAG_EXEC,
                        .request = call->request,
                        .value = 200,
                        .len = sizeof max,
                        .fds = {out, errors, -1, -1},
                        .n_fds = 2,
                        .body = malloc(sizeof max)};

    if (m.body)
        memcpy(m.body, &max, sizeof max);
    call->answered = true;
    c->counts.requests[2]++;
    core_send(c, &m);
}

static void send_outcome(struct core *c, struct api_call *call, int status, uint64_t sig) {
    const uint64_t body[] = {sig, clock_us() - call->begun_us};
    struct api_msg m = {.kind = API_OUTCOME,
                        .request = call->request,
                        .value = (uint32_t)status,
                        .len = sizeof body,
                        .body = malloc(sizeof body)};

    if (m.body)
        memcpy(m.body, body, sizeof body);
    core_send(c, &m);
    call_free(call);
}

static void exec_ended(struct core *c, struct api_call *call, const struct exec_msg *m) {
    int status = m->extra & EXEC_END_NOEXEC    ? err_exec_status(m->value)
                 : m->extra & EXEC_END_TIMEOUT ? TIMEOUT_STATUS
                                               : process_exit_status(m->value);
    bool killed = !(m->extra & EXEC_END_NOEXEC) && WIFSIGNALED(m->value);

    send_outcome(c, call, status, killed ? (uint64_t)WTERMSIG(m->value) : 0);
}

void core_exec_ready(struct core *c, struct api_call *call) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(EXEC_INLINE_MAX);
    struct exec_msg m = {0};
    int r = execmsg_recv(call->exec, &m, &body, NULL, NULL);

    if (r == -EAGAIN)
        return;
    if (r > 0 && m.type == EXEC_MSG_EXITED)
        exec_ended(c, call, &m);
    else if (r <= 0 || m.type == EXEC_MSG_FAILED)
        send_outcome(c, call, EXIT_SANDBOX, 0); /* its keeper is gone, or could not start it */
}

void op_box_exec(struct core *c, struct api_call *call) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;
    int out[2] = {-1, -1}, errors[2] = {-1, -1};
    struct err err = {0};
    int r;

    if (!call_box(c, call, &b))
        return;
    r = box_connect(c, call->tenant, b.id);
    if (r < 0) {
        call_fail(call, API_PROBLEM_NOT_RUNNING, "the sandbox is not running");
        return;
    }
    call->exec = r;
    call->wait = WAIT_EXEC;
    r = fd_pipe(&out[0], &out[1]);
    r = r < 0 ? r : fd_pipe(&errors[0], &errors[1]);
    r = r < 0 ? err_sys(&err, r, "pipes") : send_exec(call, out[1], errors[1], &err);
    closep(&out[1]);
    closep(&errors[1]);
    if (r == 0) {
        answer_pipes(c, call, out[0], errors[0]);
        return;
    }
    closep(&out[0]);
    closep(&errors[0]);
    call_fail(call, r == -E2BIG ? API_PROBLEM_TOO_LARGE : API_PROBLEM_NOT_RUNNING, "%s", err.msg);
}
