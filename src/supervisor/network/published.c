/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of --publish: parsed and opened. */
#include "supervisor/network/published.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/fd.h"
#include "policy/host/addr.h"

enum { BACKLOG = 128 };

struct wish {
    struct addr address;
    uint16_t inside, outside;
};

union published_any_addr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Splits the address off; *ret_ports is what follows. */
static int read_address(const char *word, struct addr *ret, const char **ret_ports) {
    const char *colon = strchr(word, ':'), *end = word[0] == '[' ? strchr(word, ']') : NULL;

    if (word[0] == '[') {
        *ret_ports = end && end[1] == ':' ? end + 2 : "";
        return end ? addr_parse(word + 1, (size_t)(end - word - 1), ret) : -EINVAL;
    }
    if (!colon || !strchr(colon + 1, ':')) {
        *ret_ports = word;
        *ret = (struct addr){.len = 4, .b = {127, 0, 0, 1}};
        return 0;
    }
    *ret_ports = colon + 1;
    return addr_parse(word, (size_t)(colon - word), ret);
}

static int read_word(const char *word, struct wish *ret, struct err *err) {
    struct wish w = {0};
    const char *ports = "", *colon;
    CLEANUP(freep) char *first = NULL;
    uint64_t inside, outside;
    int r = read_address(word, &w.address, &ports);

    colon = strchr(ports, ':');
    first = strndup(ports, colon ? (size_t)(colon - ports) : strlen(ports));
    if (!first)
        return err_oom(err);
    if (r < 0 || parse_u64(first, 1, UINT16_MAX, &inside, NULL) < 0 ||
        parse_u64(colon ? colon + 1 : first, colon ? 0 : 1, UINT16_MAX, &outside, NULL) < 0)
        return err_usage(err, "--publish '%.80s' must be INSIDE, INSIDE:OUTSIDE or ADDRESS:INSIDE:OUTSIDE", word);
    w.inside = (uint16_t)inside;
    w.outside = (uint16_t)outside;
    *ret = w;
    return 0;
}

static socklen_t fill_address(const struct wish *w, union published_any_addr *a) {
    *a = (union published_any_addr){0};
    if (w->address.len == 4) {
        a->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(w->outside)};
        memcpy(&a->v4.sin_addr, w->address.b, 4);
        return sizeof a->v4;
    }
    a->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(w->outside)};
    memcpy(&a->v6.sin6_addr, w->address.b, 16);
    return sizeof a->v6;
}

/* SO_REUSEADDR: connections of the last run that linger do not hold the port; a listener still does. */
static int listen_on(const struct wish *w, struct published_port *ret) {
    union published_any_addr a;
    socklen_t len = fill_address(w, &a);
    CLEANUP(closep) int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0)
        return -errno;
    if (bind(fd, &a.any, len) < 0 || listen(fd, BACKLOG) < 0 || getsockname(fd, &a.any, &len) < 0)
        return -errno;
    *ret = (struct published_port){.inside = w->inside,
                                   .outside = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port)};
    ret->fd = TAKE_FD(fd);
    return 0;
}

static int open_one(const char *word, struct published_port *ret, struct err *err) {
    char address[ADDR_TEXT_SIZE];
    struct wish w;
    int r = read_word(word, &w, err);

    if (r < 0)
        return r;
    addr_format(&w.address, address);
    r = listen_on(&w, ret);
    if (r == -EADDRINUSE)
        return err_set(err, r, "--publish %s: port %u of %s is in use; choose another one", word, w.outside, address);
    if (r == -EACCES)
        return err_set(err, r, "--publish %s: only root may use port %u; choose one above 1023", word, w.outside);
    if (r < 0)
        return err_sys(err, r, "--publish %s: listen on %s", word, address);
    if (w.outside == 0)
        log_note("port %u of the sandbox is published on %s, port %u", ret->inside, address, ret->outside);
    return 0;
}

int published_open(const struct strv *words, struct published *ret, struct err *err) {
    CLEANUP(published_done) struct published p = {0};
    int r = 0;

    if (words->len > GATE_PUBLISH_MAX)
        return err_usage(err, "more than %d published ports", GATE_PUBLISH_MAX);
    for (size_t i = 0; r == 0 && i < words->len; i++) {
        r = open_one(words->v[i], &p.v[p.n], err);
        p.n += r == 0;
    }
    if (r == 0)
        *ret = TAKE(p, (struct published){0});
    return r;
}

void published_done(struct published *p) {
    for (size_t i = 0; i < p->n; i++)
        closep(&p->v[i].fd);
    p->n = 0;
}

bool published_has(const struct published *p, uint32_t inside) {
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].inside == inside)
            return true;
    return false;
}
