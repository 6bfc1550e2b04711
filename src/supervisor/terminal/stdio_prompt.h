/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question of ours on the user's raw terminal, while the command inside uses it.
 *
 * Should: leave the screen as it was. If the command draws on the main screen, the question is on the alternate one, and the terminal
 * itself brings the main one back. If the command is a full-screen program, the question takes the last line, and a change of the
 * window's size and back makes the program draw again.
 * Mustn't: let the command draw over it (its output waits meanwhile), see or make a key for it, or let keys for it reach the command.
 */
#pragma once

#include "base/macros.h"

struct stdio;

struct stdio_prompt {
    bool on;          /* a question has the terminal */
    bool line;        /* it is on the last line */
    bool inside_alt;  /* the command is on the alternate screen */
    uint8_t keys[64]; /* of the last read(2), until stdio_prompt_keys() takes them */
    size_t n_keys;
    bool gone;          /* the terminal has ended */
    uint64_t wiggle_ms; /* when the true size is set again; 0: it is */
};

/* Is there a terminal on which a person could be asked at all? */
bool stdio_prompt_possible(const struct stdio *s);
/* screen: for a whole screen, lines ended by CR LF; line: for the last line, cut on its left if it is too wide. Both are printable.
 * -EAGAIN: not now (background, stopped, output under way); try again. */
int stdio_prompt_show(struct stdio *s, const char *screen, const char *line);
void stdio_prompt_hide(struct stdio *s);
/* What one read(2) brought since the last call; *ret_gone: the terminal has ended. */
size_t stdio_prompt_keys(struct stdio *s, uint8_t *out, size_t max, bool *ret_gone);

/* For stdio_relay.c. */
void stdio_prompt_saw(struct stdio_prompt *p, const uint8_t *out, size_t n); /* what goes to the screen, after the filter */
void stdio_prompt_read(struct stdio *s);
