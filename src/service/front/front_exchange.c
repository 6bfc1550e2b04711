/* SPDX-License-Identifier: Apache-2.0 */
/* One request and its answer: from the first look at its headers until libmicrohttpd is done with it. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "os/clock.h"
#include "service/front/front.h"
#include "service/front/front_exec.h"

static void make_request_id(char out[static FRONT_REQUEST_ID_SIZE]) {
    unsigned char random[12] = {0};

    if (getrandom(random, sizeof random, 0) != sizeof random)
        memset(random, 0, sizeof random);
    memcpy(out, "req_", 4);
    hex_encode(random, sizeof random, out + 4);
}

struct front_exchange *front_exchange_new(struct front_conn *c) {
    struct front_server *f = c->front;
    struct front_exchange *x = calloc(1, sizeof *x);
    size_t slot = 0;

    while (x && slot < f->n_slots && f->slots[slot])
        slot++;
    if (!x || slot == f->n_slots) {
        free(x);
        return NULL;
    }
    *x = (struct front_exchange){.front = f,
                                 .conn = c,
                                 .number = ++f->sequence << 16 | slot,
                                 .body = BUF_INIT(f->conf.json_max),
                                 .fields = API_FIELDS_INIT,
                                 .lines = EVENT_LINES_INIT,
                                 .out = BUF_INIT(2 * (size_t)LINE_MAX_BYTES + FRONT_CHUNK),
                                 .upload = -1,
                                 .source = -1,
                                 .terminal = -1};
    make_request_id(x->request_id);
    f->slots[slot] = x;
    c->exchange = x;
    return x;
}

struct front_exchange *front_exchange_find(struct front_server *f, uint64_t number) {
    size_t slot = number & 0xffff;
    struct front_exchange *x = slot < f->n_slots ? f->slots[slot] : NULL;

    return x && x->number == number ? x : NULL;
}

void front_exchange_free(struct front_exchange *x) {
    struct front_server *f = x->front;

    if (x->asked && !x->over) /* before the descriptor of an upload is closed: bawnd must not take a part for the whole */
        front_send(f, &(struct api_msg){.kind = API_CANCEL, .request = x->number});
    if (x->asked && !x->answered)
        f->n_asked--;
    f->slots[x->number & 0xffff] = NULL;
    f->json_bytes -= x->body.len;
    front_watch_stop(&f->loop, &x->upload_watch);
    front_watch_stop(&f->loop, &x->source_watch);
    front_exec_free(x);
    for (int *fd = (int[]){x->upload, x->source, x->terminal, -2}; *fd != -2; fd++)
        if (*fd >= 0)
            close(*fd);
    if (x->response)
        MHD_destroy_response(x->response);
    api_msg_done(&x->outcome);
    api_fields_done(&x->fields);
    lines_done(&x->lines);
    buf_done(&x->body);
    buf_done(&x->out);
    free(x);
}

/* While it is suspended libmicrohttpd does not look at the connection: this does. */
static void on_gone(void *arg, uint32_t events) {
    struct front_exchange *x = arg;

    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        x->gone = true;
        front_exchange_resume(x);
    }
}

void front_exchange_suspend(struct front_exchange *x) {
    if (x->suspended)
        return;
    x->suspended = true;
    MHD_suspend_connection(x->conn->mhd);
    if (front_watch_start(&x->front->loop, &x->conn->gone, x->conn->fd, EPOLLRDHUP, on_gone, x) < 0)
        x->front->failed = -EIO;
}

void front_exchange_resume(struct front_exchange *x) {
    if (!x->suspended)
        return;
    x->suspended = false;
    front_watch_stop(&x->front->loop, &x->conn->gone);
    MHD_resume_connection(x->conn->mhd);
    x->front->resumed = true; /* without a thread of its own libmicrohttpd does not wake us for that */
}

int front_exchange_ask(struct front_exchange *x, struct front_fault *fault) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(API_BODY_MAX);
    struct front_server *f = x->front;
    int r = api_fields_adds(&x->fields, API_FIELD_REQUEST_ID, x->request_id);

    if (r == 0 && (x->form == FORM_SSE || x->form == FORM_NDJSON))
        r = api_fields_adds(&x->fields, API_FIELD_STREAM, "1");
    r = r < 0 ? r : api_fields_write(&x->fields, &body);
    if (r < 0)
        return fault_set(fault, 413, API_PROBLEM_TOO_LARGE, "the request has too many fields");
    if (f->draining || f->n_asked >= f->conf.requests_max) {
        fault_set(fault, 503, f->draining ? API_PROBLEM_DRAINING : API_PROBLEM_TOO_MANY,
                  f->draining ? "the service is ending" : "too many requests at once");
        fault->retry = 1;
        return -EINVAL;
    }
    x->asked = true;
    f->n_asked++;
    api_fields_done(&x->fields);
    front_send(f, &(struct api_msg){.kind = API_REQUEST,
                                    .request = x->number,
                                    .peer = x->conn->peer,
                                    .value = (uint32_t)x->route->op,
                                    .body = body.data,
                                    .len = body.len});
    front_exchange_suspend(x);
    return 0;
}

void front_exchange_tick(struct front_server *f, uint64_t now_ms) {
    for (size_t i = 0; i < f->n_slots; i++)
        if (f->slots[i] && f->slots[i]->suspended && f->slots[i]->source_flag == API_FLAG_EVENTS)
            front_source_tick(f->slots[i], now_ms);
}

int front_exchange_timeout(const struct front_server *f) {
    int left = f->resumed ? 0 : FRONT_TICK_MS;

    for (size_t i = 0; i < f->n_slots; i++)
        if (f->slots[i] && f->slots[i]->suspended && f->slots[i]->source_flag == API_FLAG_EVENTS)
            left = clock_sooner(left, clock_left_ms(f->slots[i]->poll_ms));
    return left;
}
