/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of bawn-task. */
#pragma once

#include <sys/types.h>

#include "service/task/task.h"
#include "service/task/taskevents.h"
#include "service/task/taskmsg.h"
#include "service/task/taskspare.h"

enum { TASK_CLIENTS_MAX = 8, TASK_INPUTS_MAX = 64, TASK_INPUT_STEP = 64 * 1024 };

/* Bytes for the command's standard input that come through a pipe. */
struct task_input {
    int from; /* -1: only the end */
    bool close;
    int client; /* who asked; -1: gone */
    uint64_t tag;
};

struct run_task {
    const struct task_plan *plan;
    struct buf request;
    pid_t pid; /* of `bawn run`; 0: it has ended */
    int wait_status;
    int link, out[2], input; /* the socket of the result, the streams, the command's stdin; -1: closed */
    int signals;
    int clients[TASK_CLIENTS_MAX];
    struct task_stream streams[2];
    struct buf result;
    struct task_record record;
    char tail[512]; /* of stderr */
    size_t tail_len;
    bool asked; /* to end */
    struct taskspare spare;
    uint64_t give_up_ms; /* streams that are open so long after its end are another's */

    struct task_input inputs[TASK_INPUTS_MAX];
    size_t n_inputs;
    char held[TASK_INPUT_STEP]; /* read and not yet written */
    size_t held_at, held_len;
};

/* task_control.c */
void task_answer(struct run_task *t, int client, uint64_t tag, int error);
void task_client_new(struct run_task *t);
void task_client_ready(struct run_task *t, size_t i);
void task_end_politely(struct run_task *t);
/* task_input.c: the descriptors to wait for, -1: none; and what to do when one is ready. */
int task_input_from(const struct run_task *t);
int task_input_to(const struct run_task *t);
void task_input_add(struct run_task *t, const struct task_input *in); /* takes the descriptor */
void task_input_read(struct run_task *t);
void task_input_write(struct run_task *t);
void task_input_stop(struct run_task *t);
