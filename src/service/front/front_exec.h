/* SPDX-License-Identifier: Apache-2.0 */
/* A command in a sandbox (API_FLAG_EXEC), between front_source.c and its two pipes. */
#pragma once

#include "base/buf.h"
#include "service/front/front_loop.h"

struct api_msg;
struct front_exchange;

struct front_exec {
    int fd[2]; /* stdout, stderr; -1: at its end */
    struct front_watch watch[2];
    struct buf text[2]; /* of a JSON answer */
    uint64_t cut[2], max;
    bool reported; /* the event of its end is in the stream */
};

int front_exec_begin(struct front_exchange *x, struct api_msg *m); /* takes the descriptors; 0 or -errno */
void front_exec_free(struct front_exchange *x);
void front_exec_wait(struct front_exchange *x, void (*ready)(void *arg, uint32_t events));
void front_exec_wait_end(struct front_exchange *x);
/* 1: something came, 0: nothing now, or never (source_end); -EMSGSIZE */
int front_exec_read(struct front_exchange *x, bool events);
void front_exec_answer(struct front_exchange *x);
