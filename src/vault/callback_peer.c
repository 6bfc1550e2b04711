/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose is the other end of a connection on a loopback address? The kernel says it for unix sockets only; for TCP it lists every socket with its
 * owner. The address of a login page, with state and challenge, is an argument of the browser, which other users of the machine may see: with it they
 * could send a code of their own account's. So only the user's own programs (and root's) come back from a login.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vault/callback.h"

enum { STATE_ESTABLISHED = 1, STATE_CLOSE_WAIT = 8, LINE_MAX_ = 512 };

/* Ports are enough: both ends are on this machine, and no two connections have both. */
static bool line_is(const char *line, unsigned local, unsigned remote, unsigned long *ret_uid) {
    unsigned l, r, state;

    /* sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid */
    return sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%x %x %*x:%*x %*x:%*x %*x %lu", &l, &r, &state, ret_uid) == 4 &&
           l == local && r == remote && (state == STATE_ESTABLISHED || state == STATE_CLOSE_WAIT);
}

static bool find_owner(const char *table, unsigned local, unsigned remote, unsigned long *ret_uid) {
    FILE *f = fopen(table, "re");
    char line[LINE_MAX_];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        found = line_is(line, local, remote, ret_uid);
    if (f)
        fclose(f);
    return found;
}

static unsigned port_of(int fd, bool peer) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {0};
    socklen_t len = sizeof a;

    if ((peer ? getpeername(fd, &a.any, &len) : getsockname(fd, &a.any, &len)) < 0)
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

bool callback_peer_is_ours(int fd) {
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    unsigned theirs = port_of(fd, true), ours = port_of(fd, false);
    unsigned long uid;

    if (getuid() == 0) /* the browser of whoever became root has another id */
        return true;
    for (size_t i = 0; theirs && ours && i < ARRAY_LEN(tables); i++)
        if (find_owner(tables[i], theirs, ours, &uid))
            return uid == getuid() || uid == 0;
    return false;
}
