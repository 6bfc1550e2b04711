/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that come bit by bit: a descriptor to its end, a file that grows, the JSON of a program. Nothing is read before the client has taken what
 * was read before.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "os/clock.h"
#include "service/front/front.h"
#include "service/front/front_exec.h"

enum { MESSAGE_SHOWN = 400 };

static ssize_t reader(void *cls, uint64_t pos, char *to, size_t max);
static void on_source(void *arg, uint32_t events);

static bool is_events(const struct front_exchange *x) {
    return x->form == FORM_SSE || x->form == FORM_NDJSON;
}

static void source_close(struct front_exchange *x) {
    front_watch_stop(&x->front->loop, &x->source_watch);
    if (x->source >= 0)
        close(TAKE_FD(x->source));
    x->source_end = true;
}

static int take_bytes(struct front_exchange *x, const char *data, size_t len) {
    if (is_events(x) && x->source_flag != API_FLAG_JSON)
        return lines_add(&x->lines, data, len, &x->out);
    buf_add(&x->out, data, len);
    return buf_ok(&x->out) ? 0 : -EMSGSIZE;
}

/* 1: something came, 0: nothing now, or never (source_end); -errno */
static int read_some(struct front_exchange *x) {
    char chunk[FRONT_CHUNK];
    size_t want = sizeof chunk;
    ssize_t n;

    if (x->exec)
        return front_exec_read(x, is_events(x));
    if (x->source < 0)
        return 0;
    if (x->source_flag == API_FLAG_EVENTS) {
        if (x->has_last)
            want = x->lines.at < x->last ? (size_t)MIN_OF(x->last - x->lines.at, want) : 0;
        n = want ? pread(x->source, chunk, want, (off_t)x->lines.at) : 0;
        if (n == 0 && x->has_last)
            source_close(x);
        if (n == 0)
            return 0;
    } else {
        n = read(x->source, chunk, want);
        if (n == 0)
            source_close(x);
    }
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    return n == 0 ? 0 : take_bytes(x, chunk, (size_t)n) < 0 ? -EMSGSIZE : 1;
}

/* -- the client takes what there is ---------------------------------------------------------------------------------------- */

static void source_wait(struct front_exchange *x) {
    uint64_t now = clock_ms();

    if (x->exec) {
        front_exec_wait(x, on_source);
    } else if (x->source_flag == API_FLAG_EVENTS) {
        x->poll_step = x->poll_step ? x->poll_step : FRONT_POLL_MIN_MS;
        x->poll_ms = now + x->poll_step;
    } else if (x->source >= 0) {
        front_watch_start(&x->front->loop, &x->source_watch, x->source, EPOLLIN, on_source, x);
    }
    front_exchange_suspend(x);
}

static ssize_t reader_end(struct front_exchange *x) {
    if (x->source_flag == API_FLAG_EVENTS) {
        x->over = true;
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (!x->has_outcome) {
        front_exchange_suspend(x);
        return 0;
    }
    return x->outcome.value == 0 || x->exec ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static ssize_t reader(void *cls, uint64_t pos, char *to, size_t max) {
    struct front_exchange *x = cls;
    size_t n;
    int r = 0;

    (void)pos;
    if (x->gone)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    while (x->out.len == x->out_at && r >= 0) {
        buf_clear(&x->out);
        x->out_at = 0;
        r = read_some(x);
        if (r <= 0)
            break;
        x->poll_step = 0;
        x->comment_ms = clock_ms() + x->front->conf.comment_seconds * 1000;
    }
    if (r < 0)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (x->out.len == x->out_at) {
        if (x->source_end || (x->front->draining && x->source_flag == API_FLAG_EVENTS))
            return reader_end(x);
        source_wait(x);
        return 0;
    }
    n = MIN_OF(max, x->out.len - x->out_at);
    memcpy(to, x->out.data + x->out_at, n);
    x->out_at += n;
    return (ssize_t)n;
}

void front_source_tick(struct front_exchange *x, uint64_t now_ms) {
    char byte;

    if (x->front->draining) {
        front_exchange_resume(x);
        return;
    }
    if (x->form == FORM_SSE && x->comment_ms <= now_ms) {
        buf_adds(&x->out, ":\n\n");
        x->comment_ms = now_ms + x->front->conf.comment_seconds * 1000;
        front_exchange_resume(x);
        return;
    }
    if (x->poll_ms > now_ms)
        return;
    if (pread(x->source, &byte, 1, (off_t)x->lines.at) != 0) {
        front_exchange_resume(x);
        return;
    }
    x->poll_step = MIN_OF(2 * x->poll_step, (unsigned)FRONT_POLL_MAX_MS);
    x->poll_ms = now_ms + x->poll_step;
}

/* -- JSON of a program, and the beginning of a stream ---------------------------------------------------------------------- */

static void answer_failed(struct front_exchange *x, const char *detail) {
    struct front_fault fault;

    fault_set(&fault, 500, API_PROBLEM_INTERNAL, "%s", detail);
    front_answer_problem(x, &fault, NULL);
    front_answer_ready(x);
}

/* Of `bawn apply`: what it leaves undone unless its class is named. */
static bool answer_risky(struct front_exchange *x) {
    json_t *json = json_loadb(x->out.data, x->out.len, JSON_REJECT_DUPLICATES, NULL);
    json_t *risky = json_object_get(json, "risky");
    size_t n = json_array_size(risky);
    struct front_fault fault;

    if (n) {
        const char *first = json_string_value(json_array_get(risky, 0));

        fault_set(&fault, 409, API_PROBLEM_REVIEW_REQUIRED,
                  "%zu %s of high risk, e.g. '%.200s'; review and name the classes to apply", n,
                  n == 1 ? "change is" : "changes are", first ? first : "");
        front_answer_problem(x, &fault, NULL);
        front_answer_ready(x);
    }
    json_decref(json);
    return n > 0;
}

/* Its first text is the status. Without a detail, what the program wrote is one. */
static void answer_outcome(struct front_exchange *x) {
    uint64_t status = 500;

    if (parse_u64(api_msg_text(&x->outcome, 0), 400, 599, &status, NULL) < 0)
        status = 500;
    if (!api_msg_text(&x->outcome, 2)[0] && x->out.len && x->source_flag == API_FLAG_JSON) {
        struct front_fault fault;
        int code = -1;

        if (answer_risky(x))
            return;
        for (int i = 0; i < API_PROBLEMS; i++)
            if (strcmp(api_problem_names[i], api_msg_text(&x->outcome, 1)) == 0)
                code = i;
        while (x->out.len && strchr(" \n", x->out.data[x->out.len - 1]))
            x->out.data[--x->out.len] = 0;
        fault_set(&fault, (unsigned)status, code < 0 ? API_PROBLEM_INTERNAL : (enum api_problem)code, "%.*s", MESSAGE_SHOWN,
                  x->out.data);
        front_answer_problem(x, &fault, NULL);
        front_answer_ready(x);
        return;
    }
    front_answer_refusal(x, (unsigned)status, &x->outcome, 1);
}

static void answer_collected(struct front_exchange *x) {
    json_error_t error;
    json_t *json = json_loadb(x->out.data, x->out.len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    json_decref(json);
    if (text)
        front_answer_json(x, x->route->status == 204 ? 204 : x->status ? x->status : x->route->status, text, strlen(text));
    else if (x->out.len == 0 && x->route->status == 204)
        front_answer_json(x, 204, NULL, 0);
    else
        answer_failed(x, "the answer is not JSON");
}

/* Before there is a response: until the first byte of a stream, or the whole of a JSON. */
static void source_advance(struct front_exchange *x) {
    int r = 1;

    while (r > 0 && (x->source_flag == API_FLAG_JSON || x->out.len == 0))
        r = read_some(x);
    if (r < 0) {
        source_close(x);
        answer_failed(x, r == -EMSGSIZE ? "the answer is too large" : "the answer cannot be read");
        return;
    }
    if (x->exec) {
        if (x->source_end)
            front_exec_answer(x);
        return;
    }
    if (x->source_flag == API_FLAG_STREAM && (x->out.len || (x->source_end && x->has_outcome && x->outcome.value == 0))) {
        front_watch_stop(&x->front->loop, &x->source_watch);
        front_answer_stream(x, reader);
    } else if (x->source_end && x->has_outcome) {
        if (x->outcome.value == 0)
            answer_collected(x);
        else
            answer_outcome(x);
    }
}

static void on_source(void *arg, uint32_t events) {
    struct front_exchange *x = arg;

    (void)events;
    if (!x->response) {
        source_advance(x);
        return;
    }
    if (x->exec)
        front_exec_wait_end(x);
    front_watch_stop(&x->front->loop, &x->source_watch); /* also of its end, which epoll would report again and again */
    front_exchange_resume(x);
}

/* An offset within a line: what is left of that line is no event. */
static void find_beginning(struct front_exchange *x) {
    char before;

    x->lines.skip = x->lines.at > 0 && pread(x->source, &before, 1, (off_t)x->lines.at - 1) == 1 && before != '\n';
}

/* Its events begin at once; a JSON answer is made when both streams are at their ends and it is known how it ended. */
static void begin_exec(struct front_exchange *x, struct api_msg *m) {
    x->source_flag = API_FLAG_STREAM;
    x->lines.form = x->form == FORM_NDJSON ? LINES_NDJSON : LINES_SSE;
    if (front_exec_begin(x, m) < 0)
        answer_failed(x, "the output cannot be read");
    else if (is_events(x))
        front_answer_stream(x, reader);
    else
        front_exec_wait(x, on_source);
}

void front_source_begin(struct front_exchange *x, struct api_msg *m) {
    if (m->flags & API_FLAG_EXEC) {
        begin_exec(x, m);
        return;
    }
    x->source_flag = m->flags & (API_FLAG_STREAM | API_FLAG_EVENTS | API_FLAG_JSON);
    x->source = TAKE_FD(m->fds[0]);
    x->status = m->value;
    x->lines.form = x->form == FORM_NDJSON ? LINES_NDJSON : LINES_SSE;
    x->comment_ms = clock_ms() + x->front->conf.comment_seconds * 1000;
    if (x->source_flag == API_FLAG_EVENTS) {
        if (!is_events(x) || !api_msg_u64(m, 0, &x->lines.at) || x->lines.at > INT64_MAX) {
            answer_failed(x, "events were not asked for");
            return;
        }
        find_beginning(x);
        front_answer_stream(x, reader);
        return;
    }
    if (x->source_flag == API_FLAG_JSON)
        x->out.ceiling = x->front->conf.answer_max;
    if (fcntl(x->source, F_SETFL, O_RDONLY | O_NONBLOCK) < 0)
        answer_failed(x, "the answer cannot be read");
    else if (front_watch_start(&x->front->loop, &x->source_watch, x->source, EPOLLIN, on_source, x) == -EPERM)
        source_advance(x); /* a regular file never makes us wait */
}

void front_source_outcome(struct front_exchange *x, struct api_msg *m) {
    if (x->has_outcome || !x->answered || !(x->source_flag & (API_FLAG_STREAM | API_FLAG_JSON)))
        return;
    x->has_outcome = x->over = true;
    x->outcome = *m;
    m->body = NULL;
    m->n_fds = 0;
    if (!x->response)
        source_advance(x);
    else if (x->source_end || x->exec)
        front_exchange_resume(x);
}

void front_source_last(struct front_exchange *x, uint64_t size) {
    if (x->source_flag != API_FLAG_EVENTS || x->has_last)
        return;
    x->has_last = true;
    x->last = size;
    front_exchange_resume(x);
}
