/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's insides, for keep_*.c. One thread; everything here is called from its loop (keep_loop.c). */
#pragma once

#include <jansson.h>
#include <poll.h>

#include "audit/audit.h"
#include "base/buf.h"
#include "proto/execmsg.h"
#include "proto/execreq.h"
#include "proto/initmsg.h"
#include "registry/registry.h"
#include "supervisor/control/control.h"
#include "supervisor/keep/keep.h"
#include "supervisor/keep/keep_ring.h"
#include "supervisor/session/session.h"

enum {
    KEEP_CLIENTS_MAX = 256,
    KEEP_RUNNING_MAX = 512,      /* jobs at once */
    KEEP_FINISHED_MAX = 64,      /* jobs of the background that ended and are still listed */
    KEEP_HISTORY_MAX = 8,        /* of those, whose last output is kept in memory */
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

struct keep_job;

/* A connection to the exec socket, as proto/execmsg.h has it. */
enum client_kind { CLIENT_NEW, CLIENT_EXEC, CLIENT_ATTACHED, CLIENT_OPEN };

struct keep_client {
    int fd; /* -1: gone; freed at the end of the turn */
    enum client_kind kind;
    struct keep_job *job; /* EXEC: its own; ATTACHED: the one it looks at */
    int open_id;          /* OPEN: the number of its question to bawn-init */
    struct buf out;       /* messages that wait, each with its body */
    uint64_t stalled_ms;  /* since when nothing of them could be sent; 0: it takes what it gets */
    bool ending;          /* closed as soon as out is empty */
};

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
    struct keep_client *owner;     /* foreground: who asked, and gets its end; NULL: nobody any more */
    pid_t pid;                     /* inside; 0: not started yet */
    uint64_t started_ns, ended_ns; /* CLOCK_REALTIME */
    uint64_t started_ms;
    uint64_t timeout_at_ms, kill_at_ms, linger_at_ms; /* 0: not */
    bool exited;                                      /* status and end are known */
    bool over;                                        /* everybody was told; listed only */
    bool gone;                                        /* freed at the end of the turn */
    int status;
    unsigned end;      /* set of enum exec_end */
    struct job_io *io; /* background; NULL: foreground, or nothing of it is left */
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

/* keep.c: tells whoever started us, once; messages go to the log from then on. -EPIPE: he is gone. */
int keep_tell(struct keeper *k, int r, const struct err *err);
void keep_rotate_log(const struct keeper *k);

/* keep_run.c: the life of a keeper, from prepared options to the last trace. Errors go through err. */
int keep_run(struct keeper *k, struct err *err);
void keep_is_running(struct keeper *k); /* bawn-init has answered: the starter is told */

/* keep_socket.c: the exec socket's name is the sandbox's. */
int keep_listen(struct keeper *k, struct err *err);
void keep_unlisten(struct keeper *k);
int keep_rename(struct keeper *k, const char *name, struct err *err);

/* keep_state.c */
void keep_save(struct keeper *k, enum box_phase phase);
void keep_touch(struct keeper *k);                                         /* something was executed, or ended; written soon */
int keep_audit_start(void *arg, const struct session *s, struct err *err); /* session_plan_fn */
int keep_audit_exec(struct keeper *k, const struct keep_job *j, const struct exec_request *r, struct err *err);
void keep_audit_exit(struct keeper *k, const struct keep_job *j);
void keep_audit_limit(struct keeper *k, enum run_limit which);
void keep_audit_stop(struct keeper *k);

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

/* keep_clients.c */
void clients_accept(struct keeper *k);
void client_handle(struct keeper *k, struct keep_client *c);
void client_drop(struct keeper *k, struct keep_client *c);
/* Queued if it cannot be sent at once; fd (borrowed, -1: none) only with the first message of all. */
void client_send(struct keeper *k, struct keep_client *c, struct exec_msg m, const void *body, int fd);
void client_fail(struct keeper *k, struct keep_client *c, int r, const char *what);
void client_flush(struct keeper *k, struct keep_client *c);
bool client_waits(const struct keep_client *c);                   /* it may not be read from now */
void clients_opened(struct keeper *k, int id, int error, int fd); /* bawn-init's answer; takes fd */
void clients_sweep(struct keeper *k);

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
void job_tell(struct keeper *k, const struct keep_job *j, struct exec_msg m, const void *body); /* to all who look at it */
uint64_t job_next_ms(const struct keep_job *j); /* when something has to be done about it; 0: never */
void job_tick(struct keeper *k, struct keep_job *j, uint64_t now);
void jobs_end(struct keeper *k); /* nothing inside runs any more */
void jobs_sweep(struct keeper *k);
void jobs_free(struct keeper *k);

/* keep_streams.c: jobs in the background */
int job_io_new(struct keeper *k, struct keep_job *j, int ret_inside[3], struct err *err);
void job_io_free(struct keep_job *j);
void job_io_master(struct keeper *k, struct keep_job *j, int master); /* takes it */
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

/* keep_commands.c: the control socket (control_fn) */
void keep_command(void *arg, const json_t *request, struct buf *answer);

/* keep_inside.c: what runs inside, as the host sees it */
size_t inside_pids(const struct keeper *k, pid_t *ret, size_t max); /* without bawn-init */
void inside_json(const struct keeper *k, struct buf *out);
int inside_freeze(struct keeper *k, pid_t pid, struct err *err);
void inside_thaw(struct keeper *k);
