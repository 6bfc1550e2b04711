/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's insides, for keep_*.c. One thread; everything here is called from its loop (keep_loop.c). */
#pragma once

#include <jansson.h>
#include <poll.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "proto/initmsg.h"
#include "registry/registry.h"
#include "supervisor/control/control.h"
#include "supervisor/keep/keep.h"
#include "supervisor/keep/keep_clients.h"
#include "supervisor/keep/keep_jobs.h"
#include "supervisor/session/session.h"

enum {
    KEEP_CLIENTS_MAX = 256,
    KEEP_RUNNING_MAX = 512,      /* jobs at once */
    KEEP_FINISHED_MAX = 64,      /* jobs of the background that ended and are still listed */
    KEEP_HISTORY_MAX = 8,        /* of those, whose last output stays in memory */
    KEEP_COMMAND_MAX = 256,      /* of a command line, for people */
    KEEP_QUEUE_MAX = 128 * 1024, /* bytes for one client; above this its job waits */
    KEEP_INPUT_MAX = 64 * 1024,  /* bytes that a job has not read yet; above this its clients wait */
    KEEP_STALLED_MS = 10 * 1000, /* a client that lets a job wait so long is dropped */
    KEEP_GRACE_MS = 1000,        /* from asking a job to end to SIGKILL */
    KEEP_LINGER_MS = 250,        /* the end of a job waits so long for the end of its output */
    KEEP_STOP_SECONDS = 5,       /* from asking all to end to SIGKILL */
    KEEP_STOP_SECONDS_MAX = 3600,
    KEEP_FROZEN_MS = 60 * 1000,
    KEEP_SAVE_MS = 1000,       /* between two writes of the state because of a job */
    KEEP_ALONE_MS = 60 * 1000, /* at least so often it is seen whether the sandbox's folder is still there */
    KEEP_LOG_MAX = 16 * 1024 * 1024,
    KEEP_RATE_MAX = 32 * 1024 * 1024, /* bytes a second of one job's output that go to its log */
    KEEP_PROJECT_IDLE_MS = 30 * 60 * 1000
};

/* A message that bawn-init had no room for. */
struct outgoing {
    struct outgoing *next;
    int fds[EXEC_FDS_MAX + 1];
    size_t n_fds, len;
    char data[];
};

/* The exec socket, in the folder of all of them. */
struct keep_socket {
    int folder, listener;
    char name[BOX_NAME_MAX + 8];
};

/* Messages to bawn-init, oldest first. */
struct keep_outbox {
    struct outgoing *first, **last;
};

/* Moments of clock_ms(); 0: never, or nothing to do. */
struct keep_moments {
    uint64_t begun_ms;
    uint64_t used_ms; /* last sign of use, for idle_ms */
    uint64_t idle_ms; /* not a moment: how long it may be idle */
    uint64_t stop_ms; /* stopping: SIGKILL then */
    uint64_t look_ms; /* stopping, or no job runs: check whether a process is left inside */
    uint64_t save_ms; /* the state is to be written */
    uint64_t saved_ms;
};

struct keep_freeze {
    uint64_t thaw_ms; /* frozen until then; 0: not frozen */
    int by;           /* pidfd of the process that asked: thawed when it ends; -1: not known */
    pid_t *pids;      /* stopped one by one */
    size_t n;
    bool group; /* by the freezer of the control group */
};

struct keeper {
    const struct keep_options *opt;
    struct box *box;
    struct session session;
    struct run_result result;
    struct audit *audit;
    struct err *err; /* why it ended badly */
    int ready;       /* pipe to the process that started us; -1: it has its answer */
    int signals;
    struct keep_socket exec;
    struct control_server *control;

    struct keep_client **clients;
    size_t n_clients;
    struct keep_job **jobs; /* by number */
    size_t n_jobs, n_running;
    struct {
        int job, open;
    } next; /* numbers of the next job, and of the next request to open a file */
    struct keep_outbox outbox;

    enum box_phase phase;
    bool ended;    /* the loop is over */
    bool asked;    /* it ends by request, or because it was idle: BOX_STOPPED */
    unsigned lost; /* enum exec_end for the jobs that end with it */
    struct keep_moments at;
    struct keep_freeze freeze;
    struct {
        uint64_t oom_kills, pids_hits;
    } seen; /* events of the control group that are in the audit log */
};

/* keep.c */
void keep_rotate_log(const struct keeper *k);
void keep_is_running(struct keeper *k); /* bawn-init has answered: so does the starter get its answer */
void keep_save(struct keeper *k, enum box_phase phase);
void keep_touch(struct keeper *k); /* something was executed, or ended; written soon */
void keep_audit_exit(struct keeper *k, const struct keep_job *j);
void keep_audit_limit(struct keeper *k, enum run_limit which);

/* keep_socket.c: the exec socket's name is the sandbox's. */
int keep_listen(struct keeper *k, struct err *err);
void keep_unlisten(struct keeper *k);
int keep_rename(struct keeper *k, const char *name, struct err *err);

/* keep_loop.c */
int keep_loop(struct keeper *k, struct err *err);
/* seconds < 0: at once. why: for the log. */
void keep_stop(struct keeper *k, int seconds, const char *why);
void keep_fail(struct keeper *k, int r, const char *why);

/* keep_init.c: bawn-init's control socket. Takes fds, also on failure. -EPIPE: it is gone. */
int keep_send(struct keeper *k, const struct init_msg *m, const void *body, size_t len, const int *fds, size_t n_fds);
int keep_flush(struct keeper *k);
void keep_receive(struct keeper *k);
void keep_forget_outgoing(struct keeper *k);

/* keep_commands.c: the control socket (control_fn) */
void keep_command(void *arg, const json_t *request, struct buf *answer);

/* keep_inside.c: what runs inside, as the host sees it */
size_t inside_pids(const struct keeper *k, pid_t *ret, size_t max); /* without bawn-init */
void inside_json(const struct keeper *k, struct buf *out);
int inside_freeze(struct keeper *k, pid_t pid, struct err *err);
void inside_thaw(struct keeper *k);
