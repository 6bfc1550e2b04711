/* SPDX-License-Identifier: Apache-2.0 */
/* What bawn-init is born with, from the first message of the near end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "link/far_priv.h"
#include "os/fd.h"
#include "os/sock.h"

static int answer_start(uint32_t places, const struct err *err) {
    struct link_started s = {.places = places};
    uint8_t bytes[LINK_STARTED_SIZE];

    if (err->code) {
        s.error = (uint32_t)-err->code;
        snprintf(s.why, sizeof s.why, "%.*s", (int)sizeof s.why - 1, err->msg);
    }
    link_started_encode(&s, bytes);
    mux_send(&far.m, NULL, 0, bytes, sizeof bytes);
    return 0;
}

static struct chan *taken_chan(const struct link_message *msg, size_t i, enum link_kind kind) {
    struct chan *c = mux_chan(&far.m, msg->channels[i]);

    return c && !c->ours && c->awaited && c->held >= 0 && c->kind == kind ? c : NULL;
}

static void let_go(struct chan *c) {
    closep(&c->held);
    c->awaited = false;
}

static int arrange(const struct link_message *msg, const struct link_start *s, struct err *err) {
    int pair[2], r;
    size_t used = 1;

    for (int i = 0; i < 3; i++) {
        struct chan *c =
            s->stdio >> i & 1 && used < msg->n_channels ? taken_chan(msg, used++, i == 0 ? LINK_INPUT : LINK_OUTPUT) : NULL;

        if (s->stdio >> i & 1 && (!c || dup2(c->held, i) < 0))
            return err_set(err, -EPROTO, "the command's standard streams did not come");
    }
    if (dup2(mux_chan(&far.m, msg->channels[0])->held, FAR_FD_START) < 0)
        return err_sys(err, -errno, "the start message");
    for (size_t i = 0; i < used; i++) /* standard output and error may be one */
        let_go(mux_chan(&far.m, msg->channels[i]));
    r = sock_pair(pair);
    if (r < 0)
        return err_sys(err, r, "control socket");
    far.init = fcntl(pair[0], F_DUPFD_CLOEXEC, FAR_FD_OURS);
    close(pair[0]);
    if (far.init < 0 || dup2(pair[1], FAR_FD_CONTROL) < 0 || fcntl(far.init, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return err_sys(err, -errno, "control socket");
    close(pair[1]);
    return 0;
}

int far_on_start(const struct link_message *msg) {
    struct chan *file = msg->n_channels ? taken_chan(msg, 0, LINK_FILE) : NULL;
    struct link_start s;
    struct err err = {0};
    uint32_t places = 0;

    if (!file || link_start_decode(msg->bytes, msg->len, &s) < 0)
        return -EPROTO;
    if (!file->end_received && !file->discards)
        return -EAGAIN;
    if (!mux_can_send(&far.m))
        return -EAGAIN;
    if (file->end_received_error)
        return -EPROTO;
    if (arrange(msg, &s, &err) == 0 && far_net_make(&s, &far.net, &far.listeners, &places, &err) == 0 &&
        s.flags & LINK_START_NETWORK && places >> NETWORK_FDS_MAX)
        setenv("BAWN_PROXY", "http://127.0.0.1:15001", 1); /* not every port is captured: as launch.c does */
    answer_start(places, &err);
    far_net_open(&far.m, &far.listeners);
    far.begun = true;
    return err.code;
}
