/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to and from bawnd. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"
#include "os/sock.h"
#include "service/front/front.h"

struct front_packet {
    struct front_packet *next;
    int memfd;
    size_t len;
    char data[];
};

static int send_packet(struct front_server *f, const char *data, size_t len, int memfd) {
    return sock_send(f->core, data, len, &memfd, memfd >= 0 ? 1 : 0);
}

static void on_core(void *arg, uint32_t events);

static void keep_packet(struct front_server *f, const char *data, size_t len, int memfd) {
    struct front_packet *p = malloc(sizeof *p + len);

    if (!p) {
        f->failed = -ENOMEM;
        if (memfd >= 0)
            close(memfd);
        return;
    }
    *p = (struct front_packet){.memfd = memfd, .len = len};
    memcpy(p->data, data, len);
    if (f->out_last)
        f->out_last->next = p;
    else
        f->out_first = p;
    f->out_last = p;
    front_watch_set(&f->loop, &f->core_watch, EPOLLIN | EPOLLOUT);
}

void front_send(struct front_server *f, const struct api_msg *m) {
    char packet[API_HEADER + API_INLINE_MAX];
    struct err err = {0};
    size_t len;
    int memfd, r;

    r = api_msg_pack(m, packet, &len, &memfd, &err);
    if (r < 0) {
        f->failed = r;
        return;
    }
    r = f->out_first ? -EAGAIN : send_packet(f, packet, len, memfd);
    if (r == -EAGAIN) {
        keep_packet(f, packet, len, memfd);
        return;
    }
    if (memfd >= 0)
        close(memfd);
    if (r < 0)
        f->failed = r;
}

void front_send_gone(struct front_server *f, uint64_t peer) {
    if (peer)
        front_send(f, &(struct api_msg){.kind = API_GONE, .peer = peer});
}

static void flush_packets(struct front_server *f) {
    while (f->out_first) {
        struct front_packet *p = f->out_first;
        int r = send_packet(f, p->data, p->len, p->memfd);

        if (r == -EAGAIN)
            return;
        if (r < 0)
            f->failed = r;
        f->out_first = p->next;
        if (!f->out_first)
            f->out_last = NULL;
        if (p->memfd >= 0)
            close(p->memfd);
        free(p);
    }
    front_watch_set(&f->loop, &f->core_watch, EPOLLIN);
}

static void take_answer(struct front_exchange *x, struct api_msg *m) {
    unsigned kinds = API_FLAG_STREAM | API_FLAG_EVENTS | API_FLAG_JSON | API_FLAG_EXEC;

    if (x->answered)
        return;
    x->answered = true;
    x->front->n_asked--;
    x->over = !(m->flags & kinds);
    if (x->gone)
        return;
    if (x->front->conf.mcp)
        front_mcp_answer(x, m);
    else if (m->value >= 400)
        front_answer_refusal(x, m->value, m, 0);
    else if (x->route->op == API_OP_SESSION_CREATE)
        front_session_begin(x, m->value, m);
    else if (x->route->op == API_OP_SESSION_END)
        front_session_end(x);
    else if (m->flags & API_FLAG_PART)
        front_answer_part(x, m->value, m);
    else if (m->flags & kinds)
        front_source_begin(x, m);
    else if (m->flags & API_FLAG_TERMINAL && x->route->answer == API_ANSWER_WEBSOCKET) {
        x->terminal = TAKE_FD(m->fds[0]);
        front_answer_terminal(x);
    } else
        front_answer_json(x, m->value, TAKE_PTR(m->body), m->len);
}

static void take_about_request(struct front_server *f, struct api_msg *m) {
    struct front_exchange *x = front_exchange_find(f, m->request);
    uint64_t size;

    if (!x || !x->asked)
        return; /* its client is gone, and bawnd did not know yet */
    switch ((enum api_kind)m->kind) {
    case API_ANSWER:
        take_answer(x, m);
        break;
    case API_UPLOAD:
        front_upload_begin(x, TAKE_FD(m->fds[0]));
        break;
    case API_OUTCOME:
        front_source_outcome(x, m);
        break;
    case API_LAST:
        if (api_msg_u64(m, 0, &size))
            front_source_last(x, size);
        break;
    default:
        break;
    }
}

static void take_message(struct front_server *f, struct api_msg *m) {
    if (m->request)
        take_about_request(f, m);
    else if (m->kind == API_CONNECTION)
        front_conn_take(f, TAKE_FD(m->fds[0]), m->peer, m->value);
    else if (m->kind == API_DRAIN)
        front_conns_drain(f);
    else
        f->failed = -EBADMSG;
}

static void on_core(void *arg, uint32_t events) {
    struct front_server *f = arg;
    struct err err = {0};

    if (events & EPOLLOUT)
        flush_packets(f);
    /* Several at a time, but not so many that clients wait. */
    for (int i = 0; i < FRONT_BATCH && !f->failed; i++) {
        CLEANUP(api_msg_done) struct api_msg m = {0};
        int r = api_msg_recv(f->core, true, &m, &err);

        if (r == -EAGAIN)
            return;
        if (r <= 0)
            f->failed = r < 0 ? r : -ESHUTDOWN;
        else
            take_message(f, &m);
    }
}

int front_core_start(struct front_server *f) {
    if (fcntl(f->core, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return -errno;
    return front_watch_start(&f->loop, &f->core_watch, f->core, EPOLLIN, on_core, f);
}
