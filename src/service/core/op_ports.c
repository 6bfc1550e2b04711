/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of sandboxes that answer on the loopback address of this machine. The listener is made here; `bawn-task --expose` has it, as the tenant,
 * for as long as the sandbox runs. After a restart it goes on, and who asks again gets another address.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "service/core/core_boxes.h"
#include "service/core/core_worker.h"

enum { PORTS_MAX = 32 /* of a tenant */ };

static int listen_loopback(uint16_t *ret_port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    CLEANUP(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof a;

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 64) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return -errno;
    *ret_port = ntohs(a.sin_port);
    return TAKE_FD(fd);
}

static void answer_port(struct api_call *call, unsigned inside, unsigned outside) {
    struct buf b = BUF_INIT(128);

    buf_addf(&b, "{\"port\":%u,\"address\":\"127.0.0.1:%u\"}", inside, outside);
    call_json(call, 201, &b);
}

static void expose_done(struct core *c UNUSED, struct core_worker *w UNUSED, struct api_call *call UNUSED, int status UNUSED) {}

static struct core_worker *find_port(struct core *c, const struct tenant *t, const char *id, unsigned inside, size_t *ret_n) {
    struct core_worker *found = NULL;

    *ret_n = 0;
    for (size_t i = 0; i < c->n_workers; i++) {
        struct core_worker *w = &c->workers[i];

        if (!w->outside || w->tenant != t)
            continue;
        ++*ret_n;
        if (w->inside == inside && str_eq(w->id, id))
            found = w;
    }
    return found;
}

static int start_port(struct core *c, struct api_call *call, const char *id, unsigned inside, int listener, struct err *err) {
    CLEANUP(freep) char *program = str_dupf("%s/bawn-task", c->conf.helpers);
    struct worker_plan p = WORKER_PLAN_INIT;

    p.program = program;
    p.in = listener;
    p.stays = true;
    p.done = expose_done;
    if (!program || strv_add(&p.argv, "bawn-task") < 0 || strv_add(&p.argv, "--expose") < 0 || strv_add(&p.argv, id) < 0 ||
        strv_addf(&p.argv, "%u", inside) < 0) {
        strv_done(&p.argv);
        return err_oom(err);
    }
    return worker_detached(c, call->tenant, 0, id, &p, err);
}

void op_box_expose(struct core *c, struct api_call *call) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;
    CLEANUP(closep) int probe = -1;
    CLEANUP(closep) int listener = -1;
    unsigned inside = (unsigned)api_field_number(&call->fields, API_FIELD_PORT, 0);
    const struct core_worker *known;
    struct err err = {0};
    uint16_t port = 0;
    size_t n;

    if (!call_box(c, call, &b))
        return;
    probe = box_connect(c, call->tenant, b.id);
    known = find_port(c, call->tenant, b.id, inside, &n);
    if (probe < 0)
        call_fail(call, API_PROBLEM_NOT_RUNNING, "the sandbox is not running");
    else if (known)
        answer_port(call, inside, known->outside);
    else if (n >= PORTS_MAX)
        call_retry(call, API_PROBLEM_QUOTA, 60, "this tenant has as many ports as it may have");
    else if ((listener = listen_loopback(&port)) < 0)
        call_fail(call, API_PROBLEM_INTERNAL, "no port: %s", strerror(-listener));
    else if (start_port(c, call, b.id, inside, listener, &err) < 0)
        call_broken(call, &err);
    else {
        c->workers[c->n_workers - 1].inside = (uint16_t)inside;
        c->workers[c->n_workers - 1].outside = port;
        answer_port(call, inside, port);
    }
}
