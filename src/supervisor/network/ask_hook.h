/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the user's that answers instead of a person: gets the question as one JSON object on its standard input, and prints one
 * word: deny, allow (or once), session, always. Whatever else it does means deny. It runs outside the sandbox, as the user, without a shell.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "proto/gatemsg.h"

struct err;

struct ask_hook {
    pid_t pid; /* -1: none runs */
    int out;   /* what it prints */
    char word[32];
    size_t len;
};
#define ASK_HOOK_INIT \
    { .pid = -1, .out = -1 }

struct ask_hook_opts {
    const char *program; /* absolute */
    char *const *environ_;
    const char *question; /* at most ASK_QUESTION_MAX bytes */
    sigset_t mask;
};
enum { ASK_QUESTION_MAX = 8 * 1024 };

int ask_hook_start(struct ask_hook *h, const struct ask_hook_opts *o, struct err *err);
/* Reads what there is, never waits. 1: *ret is the answer, and the program is gone; 0: not yet. */
int ask_hook_read(struct ask_hook *h, enum gate_answer *ret);
/* Ends the program, with what it started. */
void ask_hook_stop(struct ask_hook *h);
