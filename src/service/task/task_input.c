/* SPDX-License-Identifier: Apache-2.0 */
/* The command's standard input: pipes that bawnd hands over, one after another. */
#include <errno.h>
#include <unistd.h>

#include "base/vec.h"
#include "os/fd.h"
#include "service/task/task_priv.h"

int task_input_from(const struct run_task *t) {
    return t->n_inputs && t->held_len == 0 ? t->inputs[0].from : -1;
}

int task_input_to(const struct run_task *t) {
    return t->held_len ? t->input : -1;
}

static void finish_input(struct run_task *t, int error) {
    struct task_input in = t->inputs[0];

    closep(&in.from);
    vec_close(t->inputs, t->n_inputs, 0, sizeof *t->inputs);
    t->n_inputs--;
    t->held_len = 0;
    if (in.close || error)
        closep(&t->input);
    task_answer(t, in.client, in.tag, error);
}

void task_input_stop(struct run_task *t) {
    while (t->n_inputs)
        finish_input(t, EPIPE);
    closep(&t->input);
}

/* Those without bytes are done when it is their turn. */
static void settle_inputs(struct run_task *t) {
    while (t->n_inputs && t->held_len == 0 && (t->input < 0 || t->inputs[0].from < 0))
        finish_input(t, t->input < 0 ? EPIPE : 0);
}

void task_input_add(struct run_task *t, const struct task_input *in) {
    if (t->n_inputs == TASK_INPUTS_MAX || t->input < 0) {
        int from = in->from;

        closep(&from);
        task_answer(t, in->client, in->tag, t->input < 0 ? EPIPE : EBUSY);
        return;
    }
    t->inputs[t->n_inputs++] = *in;
    settle_inputs(t);
}

void task_input_read(struct run_task *t) {
    ssize_t n = fd_read_some(t->inputs[0].from, t->held, sizeof t->held);

    t->held_at = 0;
    t->held_len = n > 0 ? (size_t)n : 0;
    if (n <= 0 && n != -EAGAIN)
        finish_input(t, n < 0 ? (int)-n : 0);
    settle_inputs(t);
}

void task_input_write(struct run_task *t) {
    ssize_t n = write(t->input, t->held + t->held_at, t->held_len);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        finish_input(t, EPIPE);
        settle_inputs(t);
        return;
    }
    t->held_at += (size_t)n;
    t->held_len -= (size_t)n;
}
