/* SPDX-License-Identifier: Apache-2.0 */
/* Either end of the byte link, fed by a hostile other one: nothing is held but what there was credit for, and the link ends with a reason. */
#include "link_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* window + owed + queued is the ceiling, as long as anything may come. */
static void check_chans(const struct mux *m) {
    for (size_t i = 0; i < m->n_live; i++) {
        const struct chan *c = &m->chans[m->live[i]];

        if (!c->used || c->id != m->live[i])
            BUG("a channel that is not in use");
        if (c->queued > c->ceiling || c->ceiling > LINK_WINDOW_MAX)
            BUG("more is held than there was credit for");
        if (!c->discards && !c->end_received && c->window + c->owed + c->queued != c->ceiling)
            BUG("credit was lost");
    }
}

/* The first byte: which end, and how it behaves. Then what the other one sends, after a hello that is right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t hello[LINK_HELLO];
    struct rig g;
    int pair[2];

    if (size < 1 || size > 512 * 1024 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return 0;
    rig_init(&g, data[0] & 1 ? LINK_NEAR : LINK_FAR, pair[0]);
    g.busy = data[0] & 2;
    g.refuse = data[0] & 4;
    g.to_send = data[0] & 8 ? 3 : 0;
    link_hello_encode(&(struct link_hello){.version = LINK_VERSION, .role = data[0] & 1 ? LINK_FAR : LINK_NEAR}, hello);
    if (!(data[0] & 16))
        (void)!write(pair[1], hello, sizeof hello);
    for (size_t at = 1; at < size && !g.m.error;) {
        ssize_t n = send(pair[1], data + at, MIN_OF(size - at, (size_t)60000), MSG_DONTWAIT | MSG_NOSIGNAL);

        at += n > 0 ? (size_t)n : 0;
        (void)mux_turn(&g.m);
        check_chans(&g.m);
        g.busy = g.busy && at + 64 < size;
    }
    shutdown(pair[1], SHUT_WR);
    for (int i = 0; i < 100 && !g.m.error; i++)
        (void)mux_turn(&g.m);
    if (!g.m.error || !g.m.why[0])
        BUG("a link that does not end");
    rig_done(&g);
    close(pair[1]);
    return 0;
}
