/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/flow/pipes.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"

struct pipes {
    struct pipe_pair *free;
    size_t n; /* that exist, in use or not */
    uint8_t buffer[RELAY_BUFFER];
};

int pipes_new(struct pipes **ret, struct err *err) {
    struct pipes *p = calloc(1, sizeof *p);

    if (!p)
        return err_oom(err);
    *ret = p;
    return 0;
}

static void pair_free(struct pipe_pair *pair) {
    close(pair->in);
    close(pair->out);
    free(pair);
}

void pipes_free(struct pipes *p) {
    if (!p)
        return;
    for (struct pipe_pair *pair = p->free, *next; pair; pair = next) {
        next = pair->next;
        pair_free(pair);
    }
    free(p);
}

struct pipe_pair *pipes_take(struct pipes *p) {
    struct pipe_pair *pair = p->free;
    int fds[2];

    if (pair) {
        p->free = pair->next;
        return pair;
    }
    if (p->n >= RELAY_PIPES_MAX || !(pair = calloc(1, sizeof *pair)))
        return NULL;
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        free(pair);
        return NULL;
    }
    *pair = (struct pipe_pair){.in = fds[1], .out = fds[0]};
    fcntl(pair->in, F_SETPIPE_SZ, RELAY_PIPE); /* an ordinary user has a share of pipe memory; a smaller pipe works too */
    p->n++;
    return pair;
}

void pipes_give(struct pipes *p, struct pipe_pair *pair, bool empty) {
    if (empty) {
        pair->next = p->free;
        p->free = pair;
        return;
    }
    pair_free(pair);
    p->n--;
}

uint8_t *pipes_buffer(struct pipes *p) {
    return p->buffer;
}
