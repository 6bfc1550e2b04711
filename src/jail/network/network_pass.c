/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors travel a few at a time, with the set of their places: as many messages as it takes. */
#include <errno.h>

#include "base/err.h"
#include "jail/network/network.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/initmsg.h"

enum { EVERY_PLACE = (1 << NETWORK_FDS_MAX) - 1, WITHOUT_RULES = 1 << NETWORK_FDS_MAX };

/* Moves up to SOCK_FDS_MAX of the places in `left` to fds. */
static size_t pick(const struct listeners *n, unsigned *left, int *fds, unsigned *ret_places) {
    size_t count = 0;

    for (unsigned i = 0; i < NETWORK_FDS_MAX && count < SOCK_FDS_MAX; i++)
        if (*left & 1u << i) {
            fds[count++] = n->fds[i];
            *ret_places |= 1u << i;
        }
    *left &= ~*ret_places;
    return count;
}

int network_send(int sock, const struct listeners *n, struct err *err) {
    unsigned left = 0;
    int r = 0;

    for (unsigned i = 0; i < NETWORK_FDS_MAX; i++)
        left |= n->fds[i] >= 0 ? 1u << i : 0;
    do {
        int fds[SOCK_FDS_MAX];
        unsigned places = n->has & NETWORK_EVERY_PORT ? 0 : WITHOUT_RULES;
        size_t count = pick(n, &left, fds, &places);
        struct init_msg msg = {.type = INIT_MSG_NETWORK, .value = (int32_t)places, .extra = left != 0};

        r = sock_send(sock, &msg, sizeof msg, fds, count);
    } while (r == 0 && left);
    return r < 0 ? err_sys(err, r, "hand the listeners over") : 0;
}

/* One message's descriptors to their places; what does not fit closes everything. */
static int sort(struct listeners *n, unsigned places, const int *fds, size_t count) {
    size_t used = 0;

    for (unsigned i = 0; i < NETWORK_FDS_MAX; i++)
        if ((places & 1u << i) && used < count && n->fds[i] < 0)
            n->fds[i] = fds[used++];
    for (size_t i = used; i < count; i++) {
        int fd = fds[i];

        closep(&fd);
    }
    return used == count && used == (size_t)__builtin_popcount(places & EVERY_PLACE) ? 0 : -EPROTO;
}

int network_receive(int sock, struct listeners *ret, struct err *err) {
    struct listeners n = LISTENERS_INIT;
    struct init_msg msg = {.extra = 1};
    int r = 0;

    for (size_t turn = 0; r == 0 && msg.extra && turn < NETWORK_FDS_MAX; turn++) {
        int fds[SOCK_FDS_MAX];
        size_t count = SOCK_FDS_MAX;
        long len = sock_recv(sock, &msg, sizeof msg, fds, &count);

        if (len == (long)sizeof msg && msg.type == INIT_MSG_FAILED &&
            count == 0) { /* over a byte link it was bawn-init that failed */
            msg.text[sizeof msg.text - 1] = 0;
            network_done(&n);
            return err_set(err, msg.value > 0 ? -msg.value : -EPROTO, "%s", msg.text);
        }
        r = sort(&n, (unsigned)msg.value, fds, count);
        if (len != (long)sizeof msg || msg.type != INIT_MSG_NETWORK)
            r = len < 0 ? (int)len : -EPROTO;
    }
    if (r < 0 || msg.extra) {
        network_done(&n);
        return err_sys(err, r < 0 ? r : -EPROTO, "the sandbox's listeners");
    }
    n.has = (n.fds[NETWORK_TCP6] >= 0 ? NETWORK_IPV6 : 0) | ((unsigned)msg.value & WITHOUT_RULES ? 0 : NETWORK_EVERY_PORT);
    *ret = n;
    return 0;
}
