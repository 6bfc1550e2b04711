/* SPDX-License-Identifier: Apache-2.0 */
/* Containers on another machine, as container*.c share them: container_far.c fills one, container_collect.c brings back what is in it. */
#pragma once

#include "engine/container/container_box.h"
#include "proto/entermsg.h"

/* Makes the container, starts it, and gives it all that it is made of. `theirs` becomes the engine's, and is closed. */
int container_far_start(struct container_box *b, const struct engine_request *req, int ours, int *theirs, struct err *err);
/* After its end: what is in its folders takes the place of our copies. Says itself what goes wrong. */
void container_far_collect(struct container_box *b);
/* Removes it, with its volumes. */
void container_far_remove(struct container_box *b);

/* A mount that is a folder of its own there, no second name of another. */
bool container_far_is_tree(const struct container_plan *c, size_t n);
/* Starts the container that was made, over this stream. */
int container_far_attach(struct container_box *b, int stream, struct err *err);
int container_far_request(int stream, enum enter_far_what what, const struct buf *list, struct err *err);
/* work() in a child of ours; `ret_answer` can be read once it has ended, by container_far_answer(). */
typedef int container_far_work(struct container_box *b, int stream, const struct buf *list, struct err *err);
int container_far_child(struct container_box *b, container_far_work *work, int stream, const struct buf *list, pid_t *ret_pid,
                        int *ret_answer, struct err *err);
int container_far_answer(pid_t pid, int answer, struct err *err);
