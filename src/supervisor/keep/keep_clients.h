/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of the exec socket, for keep_*.c. One that ends is only marked; it is freed at the end of the turn. */
#pragma once

#include "base/buf.h"
#include "proto/execmsg.h"

struct keep_job;
struct keeper;

/* A connection to the exec socket, as proto/execmsg.h has it. */
enum client_kind { CLIENT_NEW, CLIENT_EXEC, CLIENT_ATTACHED, CLIENT_OPEN };

struct keep_client {
    int fd; /* -1: gone; freed at the end of the turn */
    enum client_kind kind;
    struct keep_job *job; /* EXEC: its own; ATTACHED: the one it looks at */
    int open_id;          /* OPEN: the number of its question to bawn-init; negative: for a connection */
    struct buf out;       /* messages that wait, each with its body */
    uint64_t stalled_ms;  /* since when nothing of them could be sent; 0: it takes what it gets */
    bool ending;          /* closed as soon as out is empty */
};

void clients_accept(struct keeper *k);
void client_handle(struct keeper *k, struct keep_client *c);
void client_drop(struct keeper *k, struct keep_client *c);
/* Queued if it cannot be sent at once; fd (borrowed, -1: none) only with the first message of all. */
void client_send(struct keeper *k, struct keep_client *c, struct exec_msg m, const void *body, int fd);
int client_fail(struct keeper *k, struct keep_client *c, int r, const char *what); /* 0: it is no fault of the client's */
void client_flush(struct keeper *k, struct keep_client *c);
bool client_waits(const struct keep_client *c);                   /* it may not be read from now */
void clients_opened(struct keeper *k, int id, int error, int fd); /* bawn-init's answer */
void clients_sweep(struct keeper *k);
