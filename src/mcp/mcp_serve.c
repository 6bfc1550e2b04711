/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of `bawn mcp`: lines of the client in, a process for each call of a tool, their lines out. Nothing here waits for anything but
 * poll(2): an answer that the client does not take lies in a buffer, and meanwhile the next line, which may cancel a call, is read.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "mcp/mcp_priv.h"
#include "mcp/rpc.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"

enum {
    INPUT_CHUNK = 64 * 1024,
    QUEUE_HIGH = 8 * 1024 * 1024,  /* calls wait when the client leaves so much unread */
    QUEUE_MAX = 128 * 1024 * 1024, /* the client is taken for gone */
    LAST_ANSWERS_MS = 3000,        /* for calls that run when the input ends */
};

/* A call that runs. */
struct mcp_child {
    pid_t pid;
    int lines; /* what it has for the client */
    json_t *id;
    struct buf part; /* of a line */
    bool answered;
};

struct mcp_server {
    const struct mcp_opts *o;
    struct rpc_reader reader;
    struct buf queue; /* for the client */
    size_t sent;      /* of it */
    struct mcp_child v[MCP_CALLS_MAX];
    size_t n;
    bool ended; /* the input has */
    uint64_t until_ms;
    bool gone; /* the client takes no more */
};

/* -- to the client ------------------------------------------------------------------------------------------------------- */

static void mcp_flush(struct mcp_server *s) {
    while (s->sent < s->queue.len) {
        ssize_t n = write(STDOUT_FILENO, s->queue.data + s->sent, s->queue.len - s->sent);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            s->gone |= errno != EAGAIN;
            break;
        }
        s->sent += (size_t)n;
    }
    if (s->sent == s->queue.len) {
        buf_done(&s->queue);
        s->queue = (struct buf)BUF_INIT(QUEUE_MAX);
        s->sent = 0;
    }
}

static void mcp_send(struct mcp_server *s, const struct buf *line) {
    buf_add(&s->queue, buf_str(line), line->len);
    s->gone |= !buf_ok(&s->queue);
}

static void mcp_refuse(void *arg, const json_t *id, enum rpc_code code, const char *why) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(RPC_LINE_MAX);

    rpc_add_error(&b, id, code, why);
    mcp_send(arg, &b);
}

/* -- calls --------------------------------------------------------------------------------------------------------------- */

static void mcp_child_end(struct mcp_server *s, size_t at) {
    struct mcp_child *c = &s->v[at];

    process_end(c->pid);
    closep(&c->lines);
    json_decref(c->id);
    buf_done(&c->part);
    VEC_REMOVE(s->v, s->n, at);
}

/* Descriptors of the others' pipes, and of the client, are not this call's. */
NORETURN static void mcp_child_main(const struct mcp_server *s, const struct mcp_tool *t, const struct rpc_message *m, int out) {
    enum { OUT = 3 };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* and with it the client of the sandbox, which ends the command */
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
        _exit(EXIT_SANDBOX);
    if (out != OUT && dup3(out, OUT, O_CLOEXEC) < 0)
        _exit(EXIT_SANDBOX);
    fd_close_from(OUT + 1);
    mcp_work(s->o, m->id, t, m->params, OUT);
    _exit(0);
}

static void mcp_child_begin(struct mcp_server *s, const struct mcp_tool *t, const struct rpc_message *m) {
    CLEANUP(closep) int in = -1, out = -1;
    struct mcp_child c = {.lines = -1, .part = BUF_INIT(4 * MCP_REPLY_MAX)};
    int r = s->n < MCP_CALLS_MAX ? fd_pipe(&in, &out) : -EAGAIN;

    if (r == 0 && fcntl(in, F_SETFL, O_NONBLOCK) < 0)
        r = -errno;
    c.pid = r < 0 ? r : fork();
    if (c.pid < 0) {
        mcp_refuse(s, m->id, RPC_BUSY, "too many calls at once: wait for one to end");
        return;
    }
    if (c.pid == 0)
        mcp_child_main(s, t, m, out);
    c.lines = TAKE_FD(in);
    c.id = json_deep_copy(m->id);
    s->v[s->n++] = c;
}

static void mcp_child_lines(struct mcp_server *s, struct mcp_child *c) {
    const char *text = buf_str(&c->part), *end;

    while ((end = memchr(text, '\n', c->part.len - (size_t)(text - buf_str(&c->part))))) {
        c->answered |= *text == MCP_LINE_ANSWER;
        buf_add(&s->queue, text + 1, (size_t)(end - text));
        text = end + 1;
    }
    c->part.len -= (size_t)(text - buf_str(&c->part));
    memmove(c->part.data, text, c->part.len);
    s->gone |= !buf_ok(&s->queue);
}

static void mcp_child_ready(struct mcp_server *s, size_t at) {
    static char data[INPUT_CHUNK];
    struct mcp_child *c = &s->v[at];
    ssize_t n = fd_read_some(c->lines, data, sizeof data);

    if (n == -EAGAIN)
        return;
    if (n > 0) {
        buf_add(&c->part, data, (size_t)n);
        if (memchr(data, '\n', (size_t)n))
            mcp_child_lines(s, c);
        return;
    }
    if (!c->answered)
        mcp_refuse(s, c->id, RPC_INTERNAL_ERROR, "the call ended without an answer");
    mcp_child_end(s, at);
}

/* No answer follows: the client does not wait for one any more. */
static void mcp_cancel(struct mcp_server *s, const json_t *params) {
    const json_t *id = json_object_get(params, "requestId");

    for (size_t i = s->n; id && i-- > 0;)
        if (json_equal(s->v[i].id, id))
            mcp_child_end(s, i);
}

/* -- from the client ----------------------------------------------------------------------------------------------------- */

static void mcp_call_tool(struct mcp_server *s, const struct rpc_message *m) {
    const char *name = json_get_text(m->params, "name");
    const struct mcp_tool *t = mcp_tool_find(s->o, name);
    char why[RPC_METHOD_MAX + 64];

    if (t) {
        mcp_child_begin(s, t, m);
        return;
    }
    snprintf(why, sizeof why, "there is no tool '%.60s' (see tools/list)", name);
    mcp_refuse(s, m->id, RPC_INVALID_PARAMS, why);
}

static void mcp_answer(struct mcp_server *s, const struct rpc_message *m) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MCP_REPLY_MAX);
    const char *why = "there is no such method";
    int r;

    rpc_begin_answer(&b, m->id, "result");
    r = mcp_method(s->o, m->method, m->params, &b, &why);
    buf_adds(&b, "}\n");
    if (r == 0)
        mcp_send(s, &b);
    else
        mcp_refuse(s, m->id, r == -ENOSYS ? RPC_METHOD_NOT_FOUND : (enum rpc_code)r, why);
}

static void mcp_message(void *arg, const struct rpc_message *m) {
    struct mcp_server *s = arg;

    if (!m->id && str_eq(m->method, "notifications/cancelled"))
        mcp_cancel(s, m->params);
    else if (m->id && str_eq(m->method, "tools/call"))
        mcp_call_tool(s, m);
    else if (m->id)
        mcp_answer(s, m);
}

static void mcp_input(struct mcp_server *s) {
    static char data[INPUT_CHUNK];
    ssize_t n = fd_read_some(STDIN_FILENO, data, sizeof data);

    if (n > 0) {
        rpc_feed(&s->reader, data, (size_t)n);
    } else if (n != -EAGAIN) {
        s->ended = true;
        s->until_ms = clock_ms() + LAST_ANSWERS_MS;
    }
}

/* -- the loop ------------------------------------------------------------------------------------------------------------ */

static bool mcp_is_over(const struct mcp_server *s) {
    if (s->gone)
        return true;
    return s->ended && ((s->n == 0 && s->sent == s->queue.len) || clock_ms() >= s->until_ms);
}

static int mcp_turn(struct mcp_server *s, struct err *err) {
    struct pollfd fds[MCP_CALLS_MAX + 2];
    bool full = s->queue.len - s->sent > QUEUE_HIGH;
    size_t n = s->n;

    fds[0] = (struct pollfd){.fd = s->ended ? -1 : STDIN_FILENO, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = STDOUT_FILENO, .events = s->queue.len > s->sent ? POLLOUT : 0};
    for (size_t i = 0; i < n; i++)
        fds[i + 2] = (struct pollfd){.fd = full ? -1 : s->v[i].lines, .events = POLLIN};
    if (poll(fds, n + 2, s->ended ? clock_left_ms(s->until_ms) : -1) < 0 && errno != EINTR)
        return err_sys(err, -errno, "poll");
    for (size_t i = n; i-- > 0;)
        if (fds[i + 2].revents)
            mcp_child_ready(s, i);
    if (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL))
        s->gone = true;
    if (fds[0].revents)
        mcp_input(s);
    if (s->queue.len > s->sent && !s->gone)
        mcp_flush(s);
    return 0;
}

int mcp_serve(const struct mcp_opts *o, struct err *err) {
    struct mcp_server s = {.o = o, .reader = RPC_READER_INIT, .queue = BUF_INIT(QUEUE_MAX)};
    int r = 0, flags = fcntl(STDOUT_FILENO, F_GETFL);

    signal(SIGPIPE, SIG_IGN);
    s.reader.message = mcp_message;
    s.reader.refuse = mcp_refuse;
    s.reader.arg = &s;
    if (flags < 0 || fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_sys(err, -errno, "the standard output");
    while (r == 0 && !mcp_is_over(&s))
        r = mcp_turn(&s, err);
    while (s.n)
        mcp_child_end(&s, s.n - 1);
    fcntl(STDOUT_FILENO, F_SETFL, flags);
    rpc_reader_done(&s.reader);
    buf_done(&s.queue);
    return r;
}
