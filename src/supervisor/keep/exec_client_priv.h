/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of exec_client.h. */
#pragma once

#include "base/buf.h"
#include "supervisor/keep/exec_client.h"

struct exec_msg;

int exec_send_request(int sock, const struct exec_request *r, const int *fds, size_t n_fds, struct err *err);
/* 1: a message; its body replaces what was in *body; 0: the other side is gone. ret_fd NULL: none is expected; -1: none came. */
int exec_recv(int sock, struct exec_msg *m, struct buf *body, int *ret_fd, struct err *err);
int exec_failed(const struct exec_msg *m, const struct buf *body, struct err *err); /* what EXEC_MSG_FAILED says */
int exec_unexpected(const struct exec_msg *m, struct err *err);
int exec_not_sent(int r, struct err *err); /* r: what execmsg_send() returned; 0 if that was 0 */
int exec_gone(const char *sandbox, struct err *err);
void exec_send_signal(int sock, int sig, bool group);
/* What EXEC_MSG_EXITED says. */
void exec_exited(const struct exec_msg *m, struct exec_result *ret);
/* The other side went away while the command ran: everything inside is dead. */
void exec_lost(struct exec_result *ret);
/* Fills size and modes of the pty from a terminal of ours. -1: 24 x 80 and the kernel's own modes. */
struct termios;
void exec_request_terminal(struct exec_request *r, int tty, const struct termios *modes);
