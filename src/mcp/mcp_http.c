/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of `bawn mcp --http`. */
#include "mcp/mcp_http.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "proto/api/apifield.h"
#include "proto/api/apimsg.h"

enum { TURN_MS = 5000 };

/* Everything that the front says is a claim; a broken message ends it, and us. */
static void take_message(struct mcp_http *h) {
    CLEANUP(api_msg_done) struct api_msg m = {0};
    CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
    struct mcp_exchange *x;
    struct err err = {0};
    int r = api_msg_recv(h->front, false, &m, &err);

    if (r == -EAGAIN)
        return;
    if (r > 0 && m.kind == API_REQUEST && api_fields_read(&f, m.body, m.len) == 0) {
        mcp_http_request(h, m.request, m.value, &f);
    } else if (r > 0 && m.kind == API_CANCEL) {
        x = mcp_exchange_find(h, m.request);
        if (x)
            mcp_exchange_free(h, x);
    } else {
        h->failed = true;
    }
}

/* -- the loop ------------------------------------------------------------------------------------------------------------ */

/* A client of this session does not take what there is: no more is read. */
static bool is_full(const struct mcp_http *h, const struct mcp_session *s) {
    for (size_t i = 0; i < h->n_exchanges; i++)
        if (h->exchanges[i]->session == s && h->exchanges[i]->stream && h->exchanges[i]->lines.len > MCP_STREAM_HIGH)
            return true;
    return false;
}

static size_t want(struct mcp_http *h, struct pollfd *fds) {
    size_t n = 0;

    fds[n++] = (struct pollfd){.fd = h->front, .events = POLLIN};
    for (size_t i = 0; i < h->n_sessions; i++) {
        struct mcp_session *s = h->sessions[i];

        fds[n++] = (struct pollfd){.fd = is_full(h, s) ? -1 : s->out, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = s->sent < s->to.len ? s->in : -1, .events = POLLOUT};
    }
    for (size_t i = 0; i < h->n_exchanges; i++) {
        struct mcp_exchange *x = h->exchanges[i];

        fds[n++] = (struct pollfd){.fd = x->sent < x->lines.len ? x->out : -1, .events = POLLOUT};
    }
    return n;
}

static void comment_all(struct mcp_http *h) {
    for (size_t i = h->n_exchanges; i-- > 0;) {
        struct mcp_exchange *x = h->exchanges[i];

        if (x->stream && !x->ended && x->lines.len == 0 && x->comment_ms <= clock_ms()) {
            mcp_exchange_comment(x);
            mcp_exchange_flush(h, x);
        }
    }
}

/* From the last to the first: each may remove itself, and with a session its exchanges, which have had their turn. */
static void serve_ready(struct mcp_http *h, const struct pollfd *fds) {
    size_t n_sessions = h->n_sessions, n_exchanges = h->n_exchanges;

    for (size_t i = n_exchanges; i-- > 0;)
        if (fds[1 + 2 * n_sessions + i].revents)
            mcp_exchange_flush(h, h->exchanges[i]);
    for (size_t i = n_sessions; i-- > 0;) {
        struct mcp_session *s = h->sessions[i];

        if (fds[1 + 2 * i + 1].revents)
            mcp_session_flush(s);
        if (fds[1 + 2 * i].revents && !mcp_session_read(h, s))
            mcp_session_end(h, s);
    }
    if (fds[0].revents)
        take_message(h);
}

static int http_loop(struct mcp_http *h, struct err *err) {
    static struct pollfd fds[1 + 2 * MCP_SESSIONS_MAX + MCP_EXCHANGES_MAX];

    while (!h->failed) {
        size_t n = want(h, fds);

        if (poll(fds, n, TURN_MS) < 0) {
            if (errno == EINTR)
                continue;
            return err_sys(err, -errno, "poll");
        }
        serve_ready(h, fds);
        comment_all(h);
        mcp_sessions_expire(h);
    }
    return err_set(err, -EIO, "bawn-front has ended");
}

static void say_where(const char *url, const char *token, const char *file) {
    printf("MCP: %s\n", url);
    if (file)
        printf("Token: in %s\n", file);
    else
        printf("Authorization: Bearer %s\n", token);
    fflush(stdout);
}

int mcp_http_serve(const struct mcp_opts *o, const struct mcp_http_opts *http, struct err *err) {
    static struct mcp_http h; /* large */
    CLEANUP(closep) int listener = -1;
    CLEANUP(freep) char *url = NULL;
    char token[TOKEN_SIZE];
    pid_t front = -1;
    int r = mcp_token_get(http->token, token, err);

    h = (struct mcp_http){.o = o, .front = -1};
    signal(SIGPIPE, SIG_IGN);
    r = r < 0 ? r : mcp_listen(http->address, &listener, &url, err);
    r = r < 0 ? r : mcp_front_start(listener, &h.front, &front, err);
    if (r >= 0) {
        token_hash(token, strlen(token), h.token);
        closep(&listener);
        say_where(url, token, http->token);
    }
    explicit_bzero(token, sizeof token);
    r = r < 0 ? r : http_loop(&h, err);
    while (h.n_sessions)
        mcp_session_end(&h, h.sessions[h.n_sessions - 1]);
    closep(&h.front);
    if (front > 0)
        process_end(front);
    return r;
}
