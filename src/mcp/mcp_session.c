/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of `bawn mcp --http`: a process each, which does what `bawn mcp` does on its standard input and output. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "base/vec.h"
#include "mcp/mcp_http.h"
#include "mcp/mcp_priv.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"

enum { SESSION_CHUNK = 64 * 1024 };

NORETURN static void session_main(const struct mcp_opts *o, int in, int out) {
    struct err err = {0};

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* and with it its calls */
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
        _exit(EXIT_SANDBOX);
    fd_close_from(STDERR_FILENO + 1);
    if (mcp_serve(o, &err) < 0)
        log_err(&err);
    _exit(0);
}

static int session_start(struct mcp_http *h, struct mcp_session *s, struct err *err) {
    CLEANUP(closep) int their_in = -1, their_out = -1;
    int r = randid_make("mcp", s->id);

    r = r < 0 ? r : fd_pipe(&their_in, &s->in);
    r = r < 0 ? r : fd_pipe(&s->out, &their_out);
    if (r == 0 && (fcntl(s->in, F_SETFL, O_NONBLOCK) < 0 || fcntl(s->out, F_SETFL, O_NONBLOCK) < 0))
        r = -errno;
    s->pid = r < 0 ? r : fork();
    if (s->pid < 0)
        return err_sys(err, r < 0 ? r : -errno, "begin a session");
    if (s->pid == 0)
        session_main(h->o, their_in, their_out);
    return 0;
}

static void session_free(struct mcp_session *s) {
    if (s->pid > 0)
        process_end(s->pid);
    closep(&s->in);
    closep(&s->out);
    buf_done(&s->to);
    buf_done(&s->part);
    free(s);
}

/* The one that was not used for longest, if no request of it waits. */
static bool make_room(struct mcp_http *h) {
    struct mcp_session *oldest = NULL;

    if (h->n_sessions < MCP_SESSIONS_MAX)
        return true;
    for (size_t i = 0; i < h->n_sessions; i++)
        if (!h->sessions[i]->exchanges && (!oldest || h->sessions[i]->used_ms < oldest->used_ms))
            oldest = h->sessions[i];
    if (oldest)
        mcp_session_end(h, oldest);
    return oldest != NULL;
}

struct mcp_session *mcp_session_begin(struct mcp_http *h, struct err *err) {
    struct mcp_session *s = make_room(h) ? calloc(1, sizeof *s) : NULL;

    if (!s) {
        err_set(err, -EAGAIN, "too many sessions at once");
        return NULL;
    }
    *s = (struct mcp_session){.in = -1,
                              .out = -1,
                              .to = BUF_INIT(MCP_PENDING_MAX),
                              .part = BUF_INIT(4 * MCP_REPLY_MAX + SESSION_CHUNK),
                              .used_ms = clock_ms()};
    if (session_start(h, s, err) < 0) {
        session_free(s);
        return NULL;
    }
    h->sessions[h->n_sessions++] = s;
    return s;
}

struct mcp_session *mcp_session_find(struct mcp_http *h, const char *id) {
    for (size_t i = 0; i < h->n_sessions; i++)
        if (str_eq(h->sessions[i]->id, id))
            return h->sessions[i];
    return NULL;
}

void mcp_session_end(struct mcp_http *h, struct mcp_session *s) {
    size_t at = 0;

    for (size_t i = h->n_exchanges; i-- > 0;)
        if (h->exchanges[i]->session == s)
            mcp_exchange_drop(h, h->exchanges[i]);
    while (at < h->n_sessions && h->sessions[at] != s)
        at++;
    if (at < h->n_sessions)
        VEC_REMOVE(h->sessions, h->n_sessions, at);
    session_free(s);
}

void mcp_session_send(struct mcp_session *s, const char *line) {
    buf_adds(&s->to, line);
    buf_addc(&s->to, '\n');
    mcp_session_flush(s);
}

void mcp_session_flush(struct mcp_session *s) {
    while (s->sent < s->to.len) {
        ssize_t n = write(s->in, s->to.data + s->sent, s->to.len - s->sent);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return; /* full, or at its end, which is seen by reading */
        s->sent += (size_t)n;
    }
    buf_clear(&s->to);
    s->sent = 0;
}

static void take_lines(struct mcp_http *h, struct mcp_session *s) {
    const char *text = buf_str(&s->part), *end;
    size_t left;

    while ((end = memchr(text, '\n', s->part.len - (size_t)(text - buf_str(&s->part))))) {
        mcp_exchange_line(h, s, text, (size_t)(end - text));
        text = end + 1;
    }
    left = s->part.len - (size_t)(text - buf_str(&s->part));
    memmove(s->part.data, text, left);
    s->part.len = left;
}

bool mcp_session_read(struct mcp_http *h, struct mcp_session *s) {
    static char data[SESSION_CHUNK];
    ssize_t n = fd_read_some(s->out, data, sizeof data);

    if (n == -EAGAIN)
        return true;
    if (n <= 0)
        return false;
    buf_add(&s->part, data, (size_t)n);
    if (memchr(data, '\n', (size_t)n))
        take_lines(h, s);
    return buf_ok(&s->part) && buf_ok(&s->to) && !s->failed;
}

void mcp_sessions_expire(struct mcp_http *h) {
    for (size_t i = h->n_sessions; i-- > 0;) {
        struct mcp_session *s = h->sessions[i];

        if (!s->exchanges && clock_ms() - s->used_ms >= MCP_IDLE_MS)
            mcp_session_end(h, s);
    }
}
