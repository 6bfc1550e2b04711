/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's real terminal. Rules for every function here:
 *   - its file description is shared with the shell, so its flags are never changed;
 *   - a background job does not touch it (the kernel would stop us with SIGTTOU, and another job has it then);
 *   - SIGTTOU is blocked around tcsetattr(), because the foreground can change between the check and the call.
 */
#pragma once

#include <sys/ioctl.h>
#include <termios.h>

#include "base/macros.h"

/* True too for a terminal that is not our controlling terminal: no job control applies to it. */
bool tty_is_foreground(int fd);

/* 0, 1 if we are in the background and nothing was done, or -errno. Output already written is sent first. */
int tty_set(int fd, const struct termios *t);

/* Keys arrive byte by byte and unchanged. keep_output: newline is still translated by the real terminal. */
struct termios tty_raw(const struct termios *user, bool keep_output);

/* Copies the window size if it differs; the kernel then sends SIGWINCH to the foreground group of `to`. */
int tty_copy_size(int from, int to);

/*
 * The command was stopped by sig: stop as the shell expects it, the whole job for a signal of the terminal
 * (a script that started us must stop too, or the shell waits for ever), else only us. Returns when continued, or at
 * once if our process group is orphaned and the kernel therefore ignores the signal. May be called with sig blocked.
 */
void tty_stop_job(int sig);

/* We are the foreground of a terminal: its user sees that we stop, and can continue us. */
bool tty_has_us(void);

/* For log_set_sink(): lines to stderr, ended by CR LF while that terminal does no output processing. */
void tty_log_sink(const char *line, size_t len);
