/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bawnd and bawn-task have in common (spec/task.md). bawn-task is the supervisor of one run: it is started by bawnd as the tenant's user,
 * goes on without it, and is found again by the lock that it holds.
 *
 * It gets no path of the run's folder, which is bawnd's: only these descriptors, and the workspace as its current directory.
 */
#pragma once

#include "base/macros.h"

enum task_fd {
    TASK_FD_REQUEST = 3, /* a memfd: taskreq.h */
    TASK_FD_RECORD,      /* begins with task_begun, and is locked; struct task_record is written at TASK_RECORD_AT */
    TASK_FD_EVENTS,      /* to append to: lines of JSON */
    TASK_FD_STDOUT,      /* to append to */
    TASK_FD_STDERR,
    TASK_FD_RESULT, /* the JSON that `bawn run` reports */
    TASK_FD_SOCKET, /* listens: SOCK_SEQPACKET, struct task_msg */
    TASK_FDS
};

/* bawnd writes it after it has the lock, and before it starts bawn-task: what has it may have run, and never runs again. */
#define TASK_BEGUN "bawntsk1"
enum { TASK_BEGUN_LEN = 8, TASK_RECORD_AT = 64, TASK_REASON_MAX = 300, TASK_RESULT_MAX = 2 * 1024 * 1024 };
#define TASK_ENDED UINT64_C(0x31646e656e776162) /* "bawnend1" */

enum task_flag {
    TASK_CANCELLED = 1, /* it was asked to end it */
    TASK_NO_RESULT = 2, /* the command was never started, or it is not known how it ended: reason says why */
    TASK_CUT_STDOUT = 4,
    TASK_CUT_STDERR = 8,
};

/* What the gate of a run let through and refused. */
enum { TASK_CODES = 32, TASK_TIMES = 5 };
struct task_traffic {
    uint64_t received;           /* bytes */
    uint64_t allowed, failed;    /* connections; failed: allowed, and could not be reached */
    uint64_t denied[TASK_CODES]; /* by enum policy_code */
};

/* Written in one piece when all else is written: without it, the run did not end in order. */
struct task_record {
    uint64_t ended; /* TASK_ENDED */
    uint64_t started_ns, ended_ns, cpu_us, memory_peak;
    uint64_t stdout_bytes, stderr_bytes; /* as stored */
    uint32_t result_len;
    int32_t status;
    uint32_t flags;
    char reason[TASK_REASON_MAX]; /* text with a NUL */
    uint64_t sent;                /* bytes over the network. A bawn-task of before has not written it */
    struct task_traffic traffic;  /* the same */
    uint64_t times[TASK_TIMES];   /* the same: times_us of `bawn run`, in nanoseconds */
};

enum task_msg_type {
    TASK_MSG_STDIN =
        1, /* to the task: value 1: and then its end. With a pipe, which is read to its end. Answered when that is done */
    TASK_MSG_SIGNAL, /* to: value: one of task_signals. Answered */
    TASK_MSG_CANCEL, /* to: the first asks politely, the second kills. Answered */
    TASK_MSG_ANSWER, /* from: value: 0 or an errno */
};

struct task_msg {
    uint32_t type;
    int32_t value;
    uint64_t tag; /* the sender's, comes back in the answer */
};

/* What `bawn run` passes on, and SIGKILL, which ends all inside. */
bool task_signal_known(int sig);

/* How bawn-task ends that works on files (taskfiles.h). */
enum task_exit { TASK_EXIT_NOT_FOUND = 44, TASK_EXIT_REFUSED, TASK_EXIT_FULL };
