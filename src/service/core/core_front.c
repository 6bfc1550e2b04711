/* SPDX-License-Identifier: Apache-2.0 */
/* bawn-front: messages to and from it, and clients of the unix socket, which it gets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/vec.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sock.h"
#include "service/core/core.h"

enum { PEERS_MAX = 4096, FRONT_PAUSE_MS = 500 };

/* -- to the front ------------------------------------------------------------------------------------------------------------- */

void core_send(struct core *c, struct api_msg *m) {
    struct core_out o = {.msg = *m};

    if (c->front < 0 || (m->len && !m->body) || VEC_ADD(c->out, c->n_out, o) < 0)
        api_msg_done(m);
    *m = (struct api_msg){0};
}

void core_flush(struct core *c) {
    while (c->front >= 0 && c->out_at < c->n_out) {
        struct err err = {0};
        int r = api_msg_send(c->front, &c->out[c->out_at].msg, &err);

        if (r == -EAGAIN)
            return;
        if (r < 0) {
            core_log(c, "error", "front", "", "%s", err.msg);
            core_lost_front(c);
            return;
        }
        api_msg_done(&c->out[c->out_at++].msg);
    }
    c->n_out = c->out_at = 0;
}

/* -- from it ------------------------------------------------------------------------------------------------------------------ */

static void peer_gone(struct core *c, uint64_t handle) {
    for (size_t i = 0; i < c->n_peers; i++)
        if (c->peers[i].handle == handle) {
            VEC_REMOVE(c->peers, c->n_peers, i);
            return;
        }
}

static void cancel_call(struct core *c, uint64_t request) {
    struct api_call *call = core_find_call(c, request);

    if (call)
        call_free(call);
}

int core_receive(struct core *c, struct err *err) {
    for (int i = 0; i < CORE_TURN_MESSAGES && c->front >= 0; i++) {
        struct api_msg m = {0};
        int r = api_msg_recv(c->front, false, &m, err);

        if (r == -EAGAIN)
            return 0;
        if (r <= 0) {
            core_log(c, r < 0 ? "error" : "info", "front", "", "%s", r < 0 ? err->msg : "it has ended");
            core_lost_front(c);
            return 0;
        }
        if (m.kind == API_REQUEST)
            core_request(c, &m);
        else if (m.kind == API_CANCEL)
            cancel_call(c, m.request);
        else if (m.kind == API_GONE)
            peer_gone(c, m.peer);
        api_msg_done(&m);
    }
    return 0;
}

/* No client waits for what it had asked for. The next one begins with nothing. */
void core_lost_front(struct core *c) {
    closep(&c->front);
    while (c->calls)
        call_free(c->calls);
    for (size_t i = c->out_at; i < c->n_out; i++)
        api_msg_done(&c->out[i].msg);
    c->n_out = c->out_at = 0;
    c->n_peers = 0;
    c->front_at_ms = clock_ms() + FRONT_PAUSE_MS;
}

/* -- clients of the socket ---------------------------------------------------------------------------------------------------- */

void core_accept(struct core *c) {
    CLEANUP(closep) int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct api_msg m = {.kind = API_CONNECTION, .fds = {-1, -1, -1, -1}};
    struct core_peer p = {0};

    if (fd < 0 || c->front < 0 || c->n_peers >= PEERS_MAX || sock_peer(fd, &p.uid) < 0)
        return;
    if (!c->root && p.uid != c->uid && p.uid != 0)
        return;
    p.handle = ++c->next_peer;
    if (VEC_ADD(c->peers, c->n_peers, p) < 0)
        return;
    m.peer = p.handle;
    m.value = p.uid;
    m.fds[0] = TAKE_FD(fd);
    m.n_fds = 1;
    core_send(c, &m);
}
