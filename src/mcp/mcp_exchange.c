/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of HTTP that wait for lines of their session, and what the front gets of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "mcp/mcp_http.h"
#include "os/clock.h"
#include "os/fd.h"
#include "proto/api/apimsg.h"

/* The socket blocks: the front takes whatever comes, and never waits for us. */
static void front_tell(struct mcp_http *h, const struct api_msg *m) {
    struct err err = {0};

    if (!h->failed && api_msg_send(h->front, m, &err) < 0)
        h->failed = true;
}

void mcp_http_answer(struct mcp_http *h, uint64_t request, unsigned status, const char *session, const char *json) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(API_BODY_MAX);

    buf_add(&b, session, strlen(session) + 1);
    buf_adds(&b, json);
    if (buf_ok(&b))
        front_tell(h, &(struct api_msg){.kind = API_ANSWER, .request = request, .value = status, .body = b.data, .len = b.len});
    else
        mcp_http_problem(h, request, 500, "internal", "the answer is too long; take server-sent events");
}

void mcp_http_problem(struct mcp_http *h, uint64_t request, unsigned status, const char *code, const char *detail) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(8192);

    buf_add(&b, code, strlen(code) + 1);
    buf_adds(&b, detail);
    front_tell(h, &(struct api_msg){.kind = API_ANSWER, .request = request, .value = status, .body = b.data, .len = b.len});
}

/* -- one exchange -------------------------------------------------------------------------------------------------------- */

struct mcp_exchange *mcp_exchange_new(struct mcp_http *h, struct mcp_session *s, uint64_t request) {
    struct mcp_exchange *x = h->n_exchanges < MCP_EXCHANGES_MAX ? calloc(1, sizeof *x) : NULL;

    if (!x)
        return NULL;
    *x = (struct mcp_exchange){.request = request, .session = s, .out = -1, .lines = BUF_INIT(MCP_PENDING_MAX)};
    s->exchanges++;
    h->exchanges[h->n_exchanges++] = x;
    return x;
}

void mcp_exchange_free(struct mcp_http *h, struct mcp_exchange *x) {
    size_t at = 0;

    while (at < h->n_exchanges && h->exchanges[at] != x)
        at++;
    if (at < h->n_exchanges)
        VEC_REMOVE(h->exchanges, h->n_exchanges, at);
    if (x->session)
        x->session->exchanges--;
    closep(&x->out);
    strv_done(&x->heads);
    strv_done(&x->more);
    buf_done(&x->lines);
    free(x);
}

struct mcp_exchange *mcp_exchange_find(struct mcp_http *h, uint64_t request) {
    for (size_t i = 0; i < h->n_exchanges; i++)
        if (h->exchanges[i]->request == request)
            return h->exchanges[i];
    return NULL;
}

/* A comment comes first: the front answers when there is something to send, and clients wait for that. */
int mcp_exchange_open(struct mcp_http *h, struct mcp_exchange *x) {
    CLEANUP(closep) int in = -1;
    int r = fd_pipe(&in, &x->out);

    if (r < 0 || fcntl(x->out, F_SETFL, O_NONBLOCK) < 0)
        return r < 0 ? r : -errno;
    x->stream = true;
    mcp_exchange_comment(x);
    front_tell(h,
               &(struct api_msg){
                   .kind = API_ANSWER, .flags = API_FLAG_STREAM, .request = x->request, .value = 200, .fds = {in}, .n_fds = 1});
    return 0;
}

void mcp_exchange_comment(struct mcp_exchange *x) {
    buf_adds(&x->lines, ":\n\n");
    x->comment_ms = clock_ms() + MCP_COMMENT_MS;
}

void mcp_exchange_flush(struct mcp_http *h, struct mcp_exchange *x) {
    while (x->out >= 0 && x->sent < x->lines.len) {
        ssize_t n = write(x->out, x->lines.data + x->sent, x->lines.len - x->sent);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            break; /* the front has let go of it: CANCEL comes */
        x->sent += (size_t)n;
    }
    buf_clear(&x->lines);
    x->sent = 0;
    if (x->ended) {
        closep(&x->out);
        front_tell(h, &(struct api_msg){.kind = API_OUTCOME, .request = x->request});
        mcp_exchange_free(h, x);
    }
}

/* All that it waited for is there, or comes no more. */
static void exchange_end(struct mcp_http *h, struct mcp_exchange *x) {
    const char *session = x->begins && x->session && !x->session->failed ? x->session->id : "";

    x->ended = true;
    if (x->stream) {
        mcp_exchange_flush(h, x);
        return;
    }
    if (x->list)
        buf_addc(&x->lines, ']');
    if (buf_ok(&x->lines))
        mcp_http_answer(h, x->request, 200, session, buf_str(&x->lines));
    else
        mcp_http_problem(h, x->request, 500, "internal", "the answer is too long");
    mcp_exchange_free(h, x);
}

void mcp_exchange_drop(struct mcp_http *h, struct mcp_exchange *x) {
    x->session = NULL;
    if (x->ended)
        return;
    if (x->stream) {
        exchange_end(h, x);
        return;
    }
    mcp_http_problem(h, x->request, 404, "not_found", "the session has ended");
    mcp_exchange_free(h, x);
}

/* -- lines --------------------------------------------------------------------------------------------------------------- */

static size_t head_index(const struct strv *heads, const char *line, size_t len) {
    for (size_t i = 0; i < heads->len; i++) {
        size_t n = strlen(heads->v[i]);

        if (n <= len && memcmp(heads->v[i], line, n) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* Their order means nothing. */
static void drop_head(struct strv *heads, size_t at) {
    free(heads->v[at]);
    heads->v[at] = heads->v[--heads->len];
    heads->v[heads->len] = NULL;
}

static void exchange_add(struct mcp_exchange *x, const char *line, size_t len, bool answer) {
    if (x->stream) {
        buf_adds(&x->lines, "event: message\ndata: ");
        buf_add(&x->lines, line, len);
        buf_adds(&x->lines, "\n\n");
        x->comment_ms = clock_ms() + MCP_COMMENT_MS;
    } else if (answer) {
        if (x->list)
            buf_addc(&x->lines, x->lines.len ? ',' : '[');
        buf_add(&x->lines, line, len);
    }
}

/* An initialization that was refused leaves no session behind. */
static void check_begun(struct mcp_exchange *x, const char *line, size_t len, size_t head) {
    static const char result[] = "\"result\":";

    if (x->begins && x->session && (len - head < strlen(result) || memcmp(line + head, result, strlen(result)) != 0))
        x->session->failed = true;
}

void mcp_exchange_line(struct mcp_http *h, struct mcp_session *s, const char *line, size_t len) {
    for (size_t i = 0; i < h->n_exchanges; i++) {
        struct mcp_exchange *x = h->exchanges[i];
        size_t at;

        if (x->session != s || x->ended)
            continue;
        if (head_index(&x->more, line, len) != SIZE_MAX) {
            exchange_add(x, line, len, false);
            if (x->stream)
                mcp_exchange_flush(h, x);
            return;
        }
        at = head_index(&x->heads, line, len);
        if (at == SIZE_MAX)
            continue;
        check_begun(x, line, len, strlen(x->heads.v[at]));
        exchange_add(x, line, len, true);
        drop_head(&x->heads, at);
        s->used_ms = clock_ms();
        if (x->heads.len == 0)
            exchange_end(h, x);
        return;
    }
}

bool mcp_exchange_waits(const struct mcp_http *h, const struct mcp_session *s, const char *head) {
    for (size_t i = 0; i < h->n_exchanges; i++)
        if (h->exchanges[i]->session == s && strv_has(&h->exchanges[i]->heads, head))
            return true;
    return false;
}

void mcp_exchange_cancel(struct mcp_http *h, const struct mcp_session *s, const char *head, const char *why) {
    for (size_t i = 0; i < h->n_exchanges; i++) {
        struct mcp_exchange *x = h->exchanges[i];
        size_t at = x->session == s && !x->ended ? head_index(&x->heads, head, strlen(head)) : SIZE_MAX;

        if (at == SIZE_MAX)
            continue;
        drop_head(&x->heads, at);
        if (!x->stream && !x->list)
            buf_addf(&x->lines, "%s\"error\":{\"code\":-32800,\"message\":\"%s\"}}", head, why);
        if (x->heads.len == 0)
            exchange_end(h, x);
        return;
    }
}
