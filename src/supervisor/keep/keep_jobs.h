/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of a sandbox and their streams, for keep_*.c. One that is over is only marked; it is freed at the end of the turn. */
#pragma once

#include <poll.h>

#include "base/buf.h"
#include "proto/execreq.h"
#include "supervisor/keep/keep_ring.h"

struct exec_msg;
struct keep_client;
struct keeper;

/* Output of a job in the background, on its way to the log, the history and the clients. */
struct job_stream {
    int fd, log; /* -1: over, none */
    uint64_t logged;
};

struct job_io {
    struct job_stream out[2]; /* stdout, or the pty's master; stderr */
    int input;                /* pipe to its stdin; -1: none, or it is the master */
    bool input_ends;          /* closed when `typed` is written */
    struct buf typed;
    size_t typed_at;
    struct keep_ring history;
    uint64_t second_ms; /* this second began then, and so much came since */
    uint64_t second_bytes;
};

struct keep_job {
    int id;
    unsigned flags; /* set of enum exec_flag */
    char *command;
    struct keep_client *owner;     /* foreground: the client that started it; NULL: it has gone */
    pid_t pid;                     /* inside; 0: not started yet */
    uint64_t started_ns, ended_ns; /* CLOCK_REALTIME */
    uint64_t started_ms;
    uint64_t timeout_at_ms, kill_at_ms, linger_at_ms; /* 0: not */
    bool exited;                                      /* status and end are known */
    bool over;                                        /* its clients have their answer; listed only */
    bool gone;                                        /* freed at the end of the turn */
    int status;
    unsigned end;      /* set of enum exec_end */
    struct job_io *io; /* background; NULL: foreground, or nothing of it is left */
};

/* keep_jobs.c */
struct keep_job *job_find(const struct keeper *k, int id);
struct keep_job *job_latest_background(const struct keeper *k);
/* *err says why not. Takes fds. */
int job_start(struct keeper *k, struct keep_client *c, char *bytes, size_t len, int *fds, size_t n_fds, struct err *err);
void job_signal(struct keeper *k, const struct keep_job *j, int sig, bool group);
void job_hang_up(struct keeper *k, struct keep_job *j);                        /* its client is gone */
void job_started(struct keeper *k, struct keep_job *j, pid_t pid, int master); /* takes master */
void job_failed(struct keeper *k, struct keep_job *j, int error, const char *what);
void job_exited(struct keeper *k, struct keep_job *j, int status, unsigned end);
void job_send(struct keeper *k, const struct keep_job *j, struct exec_msg m, const void *body); /* to all of its clients */
void job_tick(struct keeper *k, struct keep_job *j, uint64_t now);
void jobs_end(struct keeper *k); /* nothing inside runs any more */
void jobs_sweep(struct keeper *k);
void jobs_free(struct keeper *k);

/* keep_streams.c: jobs in the background */
/* ret_inside: -1 each, and so they are on failure and with a pty. */
int job_io_new(struct keeper *k, struct keep_job *j, int ret_inside[3], struct err *err);
void job_io_free(struct keep_job *j);
void job_io_master(struct keep_job *j, int master); /* takes it */
enum { JOB_IO_POLL = 3 };
size_t job_io_poll(const struct keeper *k, struct keep_job *j, struct pollfd *out);   /* JOB_IO_POLL, or none */
size_t job_io_handle(struct keeper *k, struct keep_job *j, const struct pollfd *fds); /* the same ones; returns how many */
void job_io_type(struct keep_job *j, const char *bytes, size_t len);                  /* len 0: the end */
bool job_io_full(const struct keep_job *j);
void job_io_resize(const struct keep_job *j, int rows, int cols);
bool job_io_silent(const struct keep_job *j); /* its output has ended */
void job_io_history(struct keeper *k, const struct keep_job *j, struct keep_client *c, size_t most);
uint64_t job_io_next_ms(const struct keep_job *j); /* it may be read again then; 0: now */
void job_drop_logs(const struct keeper *k, int id);
int keep_first_job(struct keeper *k); /* the first number that no log of an earlier life has */
