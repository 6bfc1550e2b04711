/* SPDX-License-Identifier: Apache-2.0 */
/* A command in a sandbox: its two streams are read here, into one JSON answer or into events while they come. */
#include "service/front/front_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/jsonout.h"
#include "proto/api/jsonline.h"
#include "service/front/front.h"
#include "service/task/taskevents.h"

static const char *const stream_names[] = {"stdout", "stderr"};
enum { EXEC_JSON_MAX = 220 * 1024 * 1024, EXEC_EVENT_MAX = 1024 * 1024 };

void front_exec_free(struct front_exchange *x) {
    if (!x->exec)
        return;
    for (int i = 0; i < 2; i++) {
        front_watch_stop(&x->front->loop, &x->exec->watch[i]);
        if (x->exec->fd[i] >= 0)
            close(x->exec->fd[i]);
        buf_done(&x->exec->text[i]);
    }
    free(TAKE_PTR(x->exec));
}

int front_exec_begin(struct front_exchange *x, struct api_msg *m) {
    struct front_exec *e = calloc(1, sizeof *e);

    if (!e || !api_msg_u64(m, 0, &e->max)) {
        free(e);
        return -EBADMSG;
    }
    x->exec = e;
    for (int i = 0; i < 2; i++) {
        e->fd[i] = TAKE_FD(m->fds[i]);
        e->text[i].ceiling = (size_t)MIN_OF(e->max, (uint64_t)x->front->conf.answer_max) + 1;
    }
    for (int i = 0; i < 2; i++)
        if (fcntl(e->fd[i], F_SETFL, O_RDONLY | O_NONBLOCK) < 0)
            return -errno;
    return 0;
}

void front_exec_wait(struct front_exchange *x, void (*ready)(void *arg, uint32_t events)) {
    for (int i = 0; i < 2; i++)
        if (x->exec->fd[i] >= 0)
            front_watch_start(&x->front->loop, &x->exec->watch[i], x->exec->fd[i], EPOLLIN, ready, x);
}

void front_exec_wait_end(struct front_exchange *x) {
    for (int i = 0; i < 2; i++)
        front_watch_stop(&x->front->loop, &x->exec->watch[i]);
}

/* -- what comes --------------------------------------------------------------------------------------------------------------- */

static int take_event(struct front_exchange *x, int i, const char *data, size_t len) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(EXEC_EVENT_MAX);

    taskevents_line(&line, stream_names[i], data, len);
    return buf_ok(&line) ? lines_add(&x->lines, line.data, line.len, &x->out) : -EMSGSIZE;
}

static int take_text(struct front_exec *e, int i, const char *data, size_t len) {
    size_t room = e->text[i].ceiling - 1 - e->text[i].len, n = MIN_OF(room, len);

    buf_add(&e->text[i], data, n);
    e->cut[i] += len - n;
    return buf_ok(&e->text[i]) ? 0 : -ENOMEM;
}

static int take_exit(struct front_exchange *x) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(4096);
    char data[48];

    snprintf(data, sizeof data, "{\"status\":%u}", x->outcome.value);
    taskevents_object(&line, "exit", data);
    return buf_ok(&line) ? lines_add(&x->lines, line.data, line.len, &x->out) : -EMSGSIZE;
}

static int end_streams(struct front_exchange *x, bool events) {
    if (!x->has_outcome)
        return 0;
    if (events && !x->exec->reported) {
        x->exec->reported = true;
        return take_exit(x) < 0 ? -EMSGSIZE : 1;
    }
    x->source_end = true;
    return 0;
}

int front_exec_read(struct front_exchange *x, bool events) {
    struct front_exec *e = x->exec;
    char chunk[FRONT_CHUNK / 2];
    bool open = false;

    for (int i = 0; i < 2; i++) {
        ssize_t n = e->fd[i] < 0 ? -1 : read(e->fd[i], chunk, sizeof chunk);

        if (n > 0)
            return (events ? take_event(x, i, chunk, (size_t)n) : take_text(e, i, chunk, (size_t)n)) < 0 ? -EMSGSIZE : 1;
        if (e->fd[i] >= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR))) {
            front_watch_stop(&x->front->loop, &e->watch[i]);
            close(TAKE_FD(e->fd[i]));
        }
        open |= e->fd[i] >= 0;
    }
    return open ? 0 : end_streams(x, events);
}

/* -- the answer --------------------------------------------------------------------------------------------------------------- */

static void add_stream(struct buf *b, const struct front_exec *e, int i) {
    buf_addf(b, ",\"%s\":", stream_names[i]);
    jsonline_add_text(b, buf_str(&e->text[i]), e->text[i].len);
    if (e->cut[i])
        buf_addf(b, ",\"%s_cut\":%" PRIu64, stream_names[i], e->cut[i]);
}

void front_exec_answer(struct front_exchange *x) {
    struct buf b = BUF_INIT(EXEC_JSON_MAX);
    uint64_t sig = 0, us = 0;
    size_t len;

    api_msg_u64(&x->outcome, 0, &sig);
    api_msg_u64(&x->outcome, 1, &us);
    buf_addf(&b, "{\"status\":%u", x->outcome.value);
    if (sig)
        buf_addf(&b, ",\"signal\":%" PRIu64, sig);
    add_stream(&b, x->exec, 0);
    add_stream(&b, x->exec, 1);
    buf_addf(&b, ",\"duration_ms\":%" PRIu64 ".%03" PRIu64 "}", us / 1000, us % 1000);
    len = b.len;
    front_answer_json(x, 200, buf_take(&b), len);
}
