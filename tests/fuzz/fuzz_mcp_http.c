/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of `bawn mcp --http` behind the front, and lines of the session that they are for. Pieces of the input are divided by NULs: the first byte
 * of each says what it is. Must hold: a request gets one answer at most, a refusal is JSON or a problem with its status, and no
 * message from outside begins a process where there is no room for one.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "mcp/mcp_http.h"
#include "os/fd.h"
#include "proto/api/apifield.h"
#include "proto/api/apimsg.h"
#include "proto/api/mcproute.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIECES_MAX = 40, OP_BITS = 3, STREAM = 4, NO_SESSION = 8, NO_TOKEN = 16, A_LINE = 32, LONGEST = 64 * 1024 };

struct scene {
    struct mcp_http h;
    int theirs; /* the front's end */
    char token[TOKEN_SIZE];
    uint8_t answered[PIECES_MAX];
};

/* One that is in use can not make room for another. */
static struct mcp_session *add_session(struct mcp_http *h, const char *id) {
    struct mcp_session *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    *s = (struct mcp_session){.in = open("/dev/null", O_WRONLY | O_CLOEXEC),
                              .out = -1,
                              .to = BUF_INIT(MCP_PENDING_MAX),
                              .part = BUF_INIT(LONGEST),
                              .exchanges = 1};
    snprintf(s->id, sizeof s->id, "%s", id);
    return h->sessions[h->n_sessions++] = s;
}

static void scene_init(struct scene *s) {
    int pair[2];

    signal(SIGPIPE, SIG_IGN); /* as mcp_http.c */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 || token_make(s->token) < 0 ||
        !token_hash(s->token, strlen(s->token), s->h.token) || fcntl(pair[1], F_SETFL, O_NONBLOCK) < 0)
        abort();
    s->h.front = pair[0];
    s->theirs = pair[1];
    add_session(&s->h, "ours");
    while (s->h.n_sessions < MCP_SESSIONS_MAX)
        add_session(&s->h, "another");
}

static void check_answer(struct scene *s, const struct api_msg *m) {
    const char *first = api_msg_text(m, 0), *json = api_msg_text(m, 1);

    if (m->request >= PIECES_MAX || (m->kind != API_ANSWER && m->kind != API_OUTCOME))
        BUG("an answer to nothing");
    if (m->kind == API_OUTCOME)
        return;
    if (s->answered[m->request]++)
        BUG("two answers");
    if (m->flags & API_FLAG_STREAM) {
        if (m->n_fds != 1 || m->value != 200)
            BUG("a stream without a descriptor");
    } else if (m->value == 400 && !first[0]) {
        json_t *v = json_loads(json, 0, NULL);

        if (!json_object_get(v, "error"))
            BUG("an error that is none");
        json_decref(v);
    } else if (m->value >= 400 ? !first[0] || !json[0] : m->value < 200 || m->value > 299) {
        BUG("a problem without words");
    }
}

static void take_answers(struct scene *s) {
    struct err err = {0};
    struct api_msg m;

    while (api_msg_recv(s->theirs, true, &m, &err) == 1) {
        check_answer(s, &m);
        api_msg_done(&m);
    }
    if (s->h.failed)
        BUG("a message that the front does not take");
}

static void scene_done(struct scene *s) {
    while (s->h.n_sessions > 0)
        mcp_session_end(&s->h, s->h.sessions[0]);
    while (s->h.n_exchanges > 0)
        mcp_exchange_free(&s->h, s->h.exchanges[0]);
    take_answers(s);
    close(s->h.front);
    close(s->theirs);
}

static void send_request(struct scene *s, uint64_t number, uint8_t how, const char *body, size_t len) {
    static const enum mcp_op ops[] = {MCP_OP_POST, MCP_OP_POST, MCP_OP_GET, MCP_OP_DELETE};
    CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
    CLEANUP(api_fields_done) struct api_fields in = API_FIELDS_INIT;
    CLEANUP(buf_done) struct buf bytes = BUF_INIT(API_FIELDS_BYTES_MAX);

    if (!(how & NO_TOKEN))
        api_fields_adds(&f, API_FIELD_BEARER, s->token);
    if (!(how & NO_SESSION))
        api_fields_adds(&f, MCP_FIELD_SESSION, "ours");
    if (how & STREAM)
        api_fields_adds(&f, API_FIELD_STREAM, "true");
    api_fields_add(&f, MCP_FIELD_BODY, body, len);
    if (api_fields_write(&f, &bytes) < 0 || api_fields_read(&in, bytes.data, bytes.len) < 0)
        return;
    mcp_http_request(&s->h, number, ops[how & OP_BITS], &in);
    if ((how & NO_TOKEN) && s->h.n_exchanges && s->h.exchanges[s->h.n_exchanges - 1]->request == number)
        BUG("a request without a token");
}

static void take_piece(struct scene *s, uint64_t number, const char *piece, size_t len) {
    struct mcp_session *ours = mcp_session_find(&s->h, "ours");

    if (!((uint8_t)piece[0] & A_LINE))
        send_request(s, number, (uint8_t)piece[0], piece + 1, len - 1);
    else if (ours)
        mcp_exchange_line(&s->h, ours, piece + 1, len - 1);
    for (size_t i = 0; i < s->h.n_sessions; i++)
        if (s->h.sessions[i]->pid > 0)
            BUG("a process");
    take_answers(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct scene s = {0};
    char *text = size && size < LONGEST ? malloc(size + 1) : NULL;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    scene_init(&s);
    for (size_t at = 0, n = 0; at < size && n < PIECES_MAX; n++) {
        size_t len = strlen(text + at);

        if (len > 0)
            take_piece(&s, n, text + at, len);
        at += len + 1;
    }
    scene_done(&s);
    free(text);
    return 0;
}
