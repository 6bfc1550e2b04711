/* SPDX-License-Identifier: Apache-2.0 */
/* The process of one call: it finds or starts the sandbox, runs commands there, and writes its lines into a pipe to the server. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "mcp/mcp_priv.h"
#include "mcp/rpc.h"
#include "ops/files/inside.h"
#include "ops/run/run_request.h"
#include "ops/sandbox/exec_run.h"
#include "ops/sandbox/sandbox_start.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"

enum { LOOK_AGAIN_NS = 10 * 1000 * 1000, PROGRESS_MS = 500, LAST_LINE_MAX = 200, STREAM_CHUNK = 64 * 1024 };

void mcp_ran_done(struct mcp_ran *r) {
    buf_done(&r->out[0]);
    buf_done(&r->out[1]);
}

/* -- the sandbox --------------------------------------------------------------------------------------------------------- */

/* Options were given: a sandbox that runs must be as they say. */
static bool mcp_is_shaped(const struct mcp_call *c) {
    CLEANUP(strv_done) struct strv words = {0};
    struct err ignored = {0};

    return run_request_words(c->o->request, &words, &ignored) < 0 || words.len;
}

/* -EAGAIN: another process is about to start or stop it. -EBUSY: it runs with other options. */
static int mcp_start(struct mcp_call *c, struct err *err) {
    const struct sandbox_start start = {.name = c->o->sandbox, .dir = c->o->dir, .request = c->o->request};
    struct sandbox_started started;
    struct err ignored = {0};
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    /* Before: it may come up meanwhile, and its socket is there before it counts as running. */
    bool ran = sandbox_pick(&(struct sandbox_pick_opts){.name = c->name, .need = SANDBOX_RUNNING}, &p, &ignored) == 0 &&
               box_look(&p.box, NULL) == BOX_RUNNING;
    int r = sandbox_start(&start, &started, err);

    return r == -EBUSY && !ran ? -EAGAIN : r;
}

static int mcp_connect(struct mcp_call *c, int *ret, struct err *err) {
    static const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
    int r = c->name[0] ? 0 : sandbox_name(c->o->sandbox, c->o->dir, c->name, err);
    bool start = !c->started && mcp_is_shaped(c);

    while (r == 0) {
        *err = (struct err){0};
        r = start ? mcp_start(c, err) : exec_connect(environ, NULL, c->name, ret, err);
        c->started |= start && r == 0;
        if (r == 0 && !start)
            return 0;
        start = start ? r == -EAGAIN : r == -ENOENT || r == -ENOTCONN;
        if (r == -EAGAIN)
            nanosleep(&pause, NULL);
        if (start || r == -EAGAIN)
            r = 0;
    }
    return r;
}

int mcp_sandbox(struct mcp_call *c, struct err *err) {
    CLEANUP(closep) int sock = -1;

    return mcp_connect(c, &sock, err);
}

int mcp_path(struct mcp_call *c, const char *path, char **ret, struct err *err) {
    CLEANUP(inside_file_done) struct inside_file f = INSIDE_FILE_INIT;
    int r = mcp_sandbox(c, err);

    r = r < 0 ? r : inside_file_pick(c->name, path, &f, err);
    if (r == 0)
        *ret = TAKE_PTR(f.path);
    return r;
}

/* -- a command ----------------------------------------------------------------------------------------------------------- */

/* How the process with the streams of the command tells its end. */
struct mcp_end {
    int r;
    struct exec_result result;
    struct err err;
};

struct mcp_streams {
    int in, out[2], status; /* our ends */
    int give[3], report;    /* the other process's */
};
#define MCP_STREAMS_INIT \
    { .in = -1, .out = {-1, -1}, .status = -1, .give = {-1, -1, -1}, .report = -1 }

static void mcp_streams_done(struct mcp_streams *s) {
    closep(&s->out[0]);
    closep(&s->out[1]);
    closep(&s->status);
    fd_close_all(s->give, ARRAY_LEN(s->give));
    closep(&s->report);
}

/* A file as standard input is passed on by the client of the sandbox: a command inside never has a file of ours. */
static int mcp_streams_open(struct mcp_streams *s, const struct mcp_command *q, struct err *err) {
    int r = s->give[0] = q->in ? fd_memory("stdin", q->in, q->in_len) : open("/dev/null", O_RDONLY | O_CLOEXEC);

    r = r < 0 ? r : fd_pipe(&s->out[0], &s->give[1]);
    r = r < 0 ? r : fd_pipe(&s->out[1], &s->give[2]);
    r = r < 0 ? r : fd_pipe(&s->status, &s->report);
    for (int i = 0; r == 0 && i < 2; i++)
        r = fcntl(s->out[i], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
    return r < 0 ? err_sys(err, r, "streams of a command") : 0;
}

NORETURN static void mcp_become_client(const struct mcp_call *c, const struct mcp_command *q, const struct mcp_streams *s,
                                       int sock) {
    struct exec_args args = {.name = c->name,
                             .cwd = q->cwd,
                             .timeout_ms = q->timeout_ms,
                             .argv = (char **)(uintptr_t)q->argv,
                             .argc = q->argc,
                             .no_tty = true};
    struct mcp_end end = {0};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < 3 && end.r == 0; i++)
        if (dup2(s->give[i], i) < 0)
            end.r = err_sys(&end.err, -errno, "dup2");
    close(s->out[0]);
    close(s->out[1]);
    close(s->status);
    end.r = end.r < 0 ? end.r : exec_args_terminal(&args, &end.err);
    if (end.r == 0)
        end.r = exec_args_run(&args, sock, &end.result, &end.err);
    fd_write_all(s->report, &end, sizeof end);
    _exit(0);
}

/* The last line that was written, for people who wait. */
static void mcp_add_last_line(const struct buf *b, struct buf *out) {
    const char *text = buf_str(b);
    size_t end = b->len, begin;

    while (end && (text[end - 1] == '\n' || text[end - 1] == '\r'))
        end--;
    for (begin = end; begin && text[begin - 1] != '\n' && end - begin < LAST_LINE_MAX;)
        begin--;
    rpc_add_text(out, text + begin, end - begin);
}

static void mcp_say_progress(struct mcp_call *c, const struct mcp_ran *ran) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(8 * LAST_LINE_MAX);
    CLEANUP(freep) char *token = NULL;
    uint64_t now = clock_ms();

    if (!c->token || now - c->said_ms < PROGRESS_MS)
        return;
    c->said_ms = now;
    token = json_dumps(c->token, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
    buf_addf(&b,
             "%c{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":%llu,",
             MCP_LINE_OTHER, token ? token : "null", (unsigned long long)(now - c->begun_ms));
    buf_adds(&b, "\"message\":");
    mcp_add_last_line(ran->out[0].len ? &ran->out[0] : &ran->out[1], &b);
    buf_adds(&b, "}}\n");
    if (buf_ok(&b))
        fd_write_all(c->out, b.data, b.len);
}

/* False: no more comes now. */
static bool mcp_read_stream(struct mcp_ran *ran, int which, int *fd, size_t most) {
    static char data[STREAM_CHUNK];
    struct buf *b = &ran->out[which];
    ssize_t n = *fd < 0 ? 0 : fd_read_some(*fd, data, sizeof data);

    if (n == -EAGAIN)
        return false;
    if (n <= 0) {
        closep(fd);
        return false;
    }
    ran->bytes[which] += (uint64_t)n;
    if (b->len < most)
        buf_add(b, data, MIN_OF((size_t)n, most - b->len));
    return true;
}

/*
 * Until the client has reported the end. Others inside may have the pipes open, and write for ever: of what comes then, only what is
 * in the pipes is taken, which is bounded by their size.
 */
static int mcp_watch(struct mcp_call *c, const struct mcp_command *q, struct mcp_streams *s, struct mcp_ran *ret,
                     struct err *err) {
    struct mcp_end end = {0};
    ssize_t n = 0;

    for (;;) {
        struct pollfd fds[] = {
            {.fd = s->out[0], .events = POLLIN}, {.fd = s->out[1], .events = POLLIN}, {.fd = s->status, .events = POLLIN}};

        if (poll(fds, ARRAY_LEN(fds), c->token ? PROGRESS_MS : -1) < 0 && errno != EINTR)
            return err_sys(err, -errno, "poll");
        for (int i = 0; i < 2; i++)
            if (fds[i].revents)
                mcp_read_stream(ret, i, &s->out[i], q->most);
        if (fds[2].revents)
            break;
        mcp_say_progress(c, ret);
    }
    n = fd_read_full(s->status, &end, sizeof end);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 1024 * 1024 / STREAM_CHUNK && mcp_read_stream(ret, i, &s->out[i], q->most); k++)
            ;
    if (n != (ssize_t)sizeof end)
        return err_set(err, -EIO, "the client of the sandbox ended unexpectedly");
    *err = end.err;
    ret->result = end.result;
    return end.r;
}

int mcp_run(struct mcp_call *c, const struct mcp_command *q, struct mcp_ran *ret, struct err *err) {
    CLEANUP(mcp_streams_done) struct mcp_streams s = MCP_STREAMS_INIT;
    CLEANUP(closep) int sock = -1;
    int r = mcp_connect(c, &sock, err);
    pid_t pid;

    r = r < 0 ? r : mcp_streams_open(&s, q, err);
    if (r < 0)
        return r;
    pid = fork();
    if (pid < 0)
        return err_sys(err, -errno, "fork");
    if (pid == 0)
        mcp_become_client(c, q, &s, sock);
    closep(&sock); /* the command ends when the client's hangs up */
    fd_close_all(s.give, ARRAY_LEN(s.give));
    s.give[0] = s.give[1] = s.give[2] = -1;
    closep(&s.report);
    r = mcp_watch(c, q, &s, ret, err);
    process_end(pid);
    return r;
}

int mcp_script(struct mcp_call *c, const char *script, const char *const *words, size_t n, const struct mcp_command *how,
               struct mcp_ran *ret, struct err *err) {
    enum { WORDS_MAX = 8 };
    const char *argv[WORDS_MAX + 4] = {"/bin/sh", "-c", script, "bawn"};
    struct mcp_command q = *how;
    const char *why;
    int r;

    for (size_t i = 0; i < n && i < WORDS_MAX; i++)
        argv[4 + i] = words[i];
    q.argv = (char *const *)(uintptr_t)argv;
    q.argc = 4 + MIN_OF(n, (size_t)WORDS_MAX);
    r = mcp_run(c, &q, ret, err);
    if (r < 0 || ret->result.status == 0)
        return r;
    if (ret->result.exec_errno)
        return err_set(err, -ret->result.exec_errno, "the sandbox has no /bin/sh, which this tool needs");
    why = buf_str(&ret->out[1]);
    return err_set(err, -EIO, "%.*s", (int)strcspn(why, "\n"), why[0] ? why : "the sandbox ended it");
}

/* -- the answer ---------------------------------------------------------------------------------------------------------- */

static void mcp_add_result(struct buf *out, const struct mcp_reply *reply, bool failed) {
    buf_adds(out, "{\"content\":[{\"type\":\"text\",\"text\":");
    rpc_add_text(out, buf_str(&reply->text), reply->text.len);
    buf_adds(out, "}]");
    if (!failed && reply->json.len)
        buf_addf(out, ",\"structuredContent\":%s", buf_str(&reply->json));
    buf_addf(out, ",\"isError\":%s}}\n", failed ? "true" : "false");
}

/* Wrong arguments are an error of the protocol; what went wrong later is an answer that the model reads. */
static void mcp_add_answer(struct buf *out, const json_t *id, int r, struct mcp_reply *reply, const struct err *err) {
    if (r == -EBADMSG) {
        rpc_add_error(out, id, RPC_INVALID_PARAMS, err->msg);
        return;
    }
    if (r < 0) {
        buf_clear(&reply->text);
        buf_adds(&reply->text, err->msg[0] ? err->msg : "it failed");
    }
    rpc_begin_answer(out, id, "result");
    mcp_add_result(out, reply, r < 0);
}

void mcp_work(const struct mcp_opts *o, const json_t *id, const struct mcp_tool *t, const json_t *params, int out) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4 * MCP_REPLY_MAX), error = BUF_INIT(8 * 1024);
    CLEANUP(json_decrefp) json_t *none = json_object();
    const json_t *given = json_object_get(params, "arguments"),
                 *token = json_object_get(json_object_get(params, "_meta"), "progressToken");
    struct mcp_reply reply = MCP_REPLY_INIT;
    struct mcp_call c = {.o = o, .out = out, .begun_ms = clock_ms(), .said_ms = clock_ms()};
    struct err err = {0};
    int r;

    c.token = json_is_string(token) || json_is_integer(token) ? token : NULL;
    if (given && !json_is_object(given))
        r = err_set(&err, -EBADMSG, "\"arguments\" must be an object");
    else
        r = t->run(&c, given ? given : none, &reply, &err);
    buf_addc(&b, MCP_LINE_ANSWER);
    mcp_add_answer(&b, id, r, &reply, &err);
    if (!buf_ok(&b) || !buf_ok(&reply.text) || !buf_ok(&reply.json)) {
        buf_addc(&error, MCP_LINE_ANSWER);
        rpc_add_error(&error, id, RPC_INTERNAL_ERROR, "the answer is too long");
        fd_write_all(out, error.data, error.len);
    } else {
        fd_write_all(out, b.data, b.len);
    }
    buf_done(&reply.text);
    buf_done(&reply.json);
}
