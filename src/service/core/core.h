/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawnd, the privileged part of the service: who may what, what runs when, and as which user. It speaks no HTTP and parses no JSON of clients;
 * requests come from bawn-front as fields (spec/api-protocol.md), each checked again by its row of the table.
 *
 * One turn of the loop takes what has come, changes the database in one transaction, commits, and only then answers and starts. So what was
 * answered is true after kill -9, and many requests cost one commit.
 *
 *     $STATE/bawnd.db
 *     $STATE/trash/                    what is being removed
 *     $STATE/tenants/NAME/home/        HOME of its sandboxes; the tenant's own
 *     $STATE/tenants/NAME/runs/ID/     bawnd's own: record (the lock), events, stdout, stderr, result, socket; bawn-task gets descriptors
 *     $STATE/tenants/NAME/runs/ID/workspace/      the tenant's own
 *     $RUNTIME/api.sock, $RUNTIME/t/NUMBER/       the socket; XDG_RUNTIME_DIR of a tenant
 */
#pragma once

#include <sys/types.h>

#include "os/evloop.h"
#include "proto/api/apifield.h"
#include "proto/api/apimsg.h"
#include "service/core/core_conf.h"
#include "service/core/core_session.h"
#include "service/core/ledger.h"
#include "service/task/taskmsg.h"

enum { CORE_BUCKETS = 4096, HOUR_PARTS = 60, CORE_LATENCIES = 12, CORE_TURN_MESSAGES = 128, EVENTS_TURN_MAX = 4 << 20 };

struct core;
struct core_worker;

/* What was used in the last hour, in parts of a minute. */
struct usage_part {
    uint64_t runs, cpu_us, sent;
};
struct hour_use {
    uint64_t minute[HOUR_PARTS];
    struct usage_part parts[HOUR_PARTS];
};

struct tenant {
    struct tenant_row row;
    uid_t uid;
    int dir, runs; /* its folders; -1: not made yet */
    struct strv env;
    struct live_run *first, *last; /* its queue */
    size_t running, queued, boxes;
    uint64_t memory, box_memory; /* of runs, of sandboxes that run */
    struct hour_use use;
    int meter;     /* what its gates count (os/meter.h); -1: not opened */
    uint64_t disk; /* bytes, when it was last measured */
    int events;    /* its file of events; -1: not opened */
    uint64_t events_at;
    struct buf events_out; /* of this turn */
    uint64_t sent;         /* since bawnd began: for metrics */
    struct task_traffic traffic;
};

/* A run that has not ended. */
struct live_run {
    struct run_row row;
    struct tenant *tenant;
    int dir;         /* -1: not opened */
    int task;        /* the connection to its bawn-task; -1: none */
    uint64_t memory; /* its limit, as far as the request says */
    struct task_traffic traffic;
    uint64_t times[TASK_TIMES];
    bool doomed; /* it is to be cancelled as soon as it has a task */
    struct live_run *bucket_next, *queue_next;
};

enum call_wait {
    WAIT_NOTHING,
    WAIT_END,    /* of call.run: the answer is the run */
    WAIT_EVENTS, /* of call.run: LAST */
    WAIT_TASK,   /* an answer of its bawn-task */
    WAIT_WORKER, /* a program that works for it */
    WAIT_EXEC,   /* a command in a sandbox */
    WAIT_TURN,   /* another operation on the sandbox call.turn */
};

struct api_call {
    struct core *core;
    const struct api_route *route;
    struct api_fields fields;
    uint64_t request, peer, begun_us, deadline_ms; /* 0: none */
    struct tenant *tenant;
    bool admin, answered;
    bool session;      /* of the dashboard, not a token */
    uint64_t until_ns; /* the end of the token; 0: none */
    char token[RANDID_SIZE], turn[RANDID_SIZE];
    enum call_wait wait;
    struct live_run *run;
    unsigned status; /* of the answer after the wait */
    int exec;        /* the keeper's socket; -1: none */
    bool started;    /* the command is */
    struct api_call *next;
};

struct core_out {
    struct api_msg msg;
};

/* A client of the unix socket. */
struct core_peer {
    uint64_t handle;
    uid_t uid;
};

struct core_counts {
    uint64_t requests[6];                             /* by the first digit of the status */
    uint64_t latency[CORE_LATENCIES + 1], latency_us; /* of requests that ended at once */
    uint64_t sent;                                    /* bytes over the network, by runs that have ended */
    struct task_traffic traffic;                      /* the same of their gates */
    uint64_t accepted, ended[RUN_STATES], quota, unauthorized, fronts;
    uint64_t wait[CORE_LATENCIES + 1], wait_us; /* of runs, in the queue */
};
extern const uint64_t core_latency_ms[CORE_LATENCIES];
void core_count_time(uint64_t *buckets, uint64_t *sum_us, uint64_t us);
void core_count_traffic(struct task_traffic *to, const struct task_traffic *run);

struct core {
    struct core_conf conf;
    struct ledger db;
    bool root;
    int log, trace; /* trace: -1: none */
    uid_t uid;
    int tenants_dir, trash, runtime, listener, signals, front, tls[2];
    int tcp[API_LISTEN_MAX];
    size_t n_tcp;
    pid_t front_pid, cleaner_pid, measure_pid;
    bool traffic_busy; /* at the last look something could send */
    int measured;      /* what it prints */
    uint64_t disk;     /* of all tenants */
    uint64_t begun_ms, front_at_ms, clean_at_ms, drain_at_ms, measure_at_ms, measure_began_ms, traffic_at_ms,
        measure_ms; /* measure_ms: how long it took */

    struct tenant **tenants;
    size_t n_tenants, turn; /* whose turn it is */
    struct live_run *buckets[CORE_BUCKETS];
    struct live_run **running; /* and starting */
    size_t n_running, n_queued;
    struct live_run **starting; /* of this turn: after the commit */
    size_t n_starting;
    struct api_call *calls;
    struct core_worker *workers;
    size_t n_workers;
    struct core_peer *peers;
    size_t n_peers;
    uint64_t next_peer;
    struct core_out *out;
    size_t n_out, out_at;
    bool draining, over;
    struct core_counts counts;
    struct core_sessions sessions;
};

/* core.c */
int core_run(struct core *c, struct err *err);
void core_done(struct core *c);
/* core_setup.c */
int core_open(struct core *c, struct err *err);
int core_spawn_front(struct core *c, struct err *err);

/* core_tenant.c */
struct tenant *core_tenant(struct core *c, const char *name); /* NULL: there is none */
struct tenant *core_tenant_of_uid(struct core *c, uid_t uid,
                                  struct err *err); /* made if users may; NULL with err->code 0: they may not */
int core_tenants_load(struct core *c, struct err *err);
/* What its sandboxes take of its quotas, by their rows. Not counted up and down: clients go, and starts fail. */
int core_count_boxes(struct core *c, struct tenant *t, struct err *err);
int core_tenant_add(struct core *c, struct tenant_row *row, struct tenant **ret, struct err *err); /* takes what is in row */
void core_tenant_remove(struct core *c, struct tenant *t);
void core_tenant_trash(struct core *c, const struct tenant *t);           /* its folder */
int core_tenant_place(struct core *c, struct tenant *t, struct err *err); /* its folders */
void tenant_free(struct tenant *t);
#define MINUTE_NS (60 * UINT64_C(1000000000))
void hour_add(struct hour_use *h, uint64_t now_ns, const struct usage_part *add);
struct usage_part hour_sum(const struct hour_use *h, uint64_t now_ns);

/* What a program gets that works as a tenant. */
struct core_spawn {
    const char *path;
    char *const *argv;
    const int *fds;
    size_t n_fds;
    int cwd;
    bool outlives;
};
int core_spawn(const struct core *c, const struct tenant *t, const struct core_spawn *s, pid_t *ret);

/* core_place.c: the folder of a run */
int place_make(struct core *c, struct live_run *r, struct err *err);
int place_run_file(struct core *c, struct tenant *t, const char *id, const char *name, int flags); /* a file of a run; -errno */
int place_start(struct core *c, struct live_run *r, struct err *err); /* spawns bawn-task; r->task is connected */
/* 1: it lives and r->task is connected; 0: it has ended, or never began (*ret_begun). */
int place_adopt(struct core *c, struct live_run *r, bool *ret_begun, struct err *err);
bool place_record(struct core *c, struct live_run *r); /* fills in the row; false: there is none */
void place_fail_event(struct core *c, struct live_run *r);
/* The workspace of a run or sandbox of the tenant, made if need be; -errno */
int place_workspace(struct core *c, struct tenant *t, const char *id);
/* A folder of the host: whether it is on the tenant's list; and opened, without a link below what is listed there. -errno */
bool place_listed(const struct tenant *t, const char *path);
int place_source(const struct core *c, const struct tenant *t, const char *path);
extern const char place_source_refused[];
/* Where a run or sandbox begins: such a folder, or its workspace. */
int place_start_dir(struct core *c, struct tenant *t, const char *id, const struct buf *request);
/* Read with the tenant's rights, below dir and without links (os/safepath.h). */
int place_open_as(const struct core *c, const struct tenant *t, int dir, const char *path, int flags);
int place_trash(struct core *c, struct tenant *t, const char *id);

/* core_run.c */
struct live_run *core_find_run(struct core *c, const struct tenant *t, const char *id);
int core_add_run(struct core *c, struct live_run *r,
                 struct err *err);                         /* a new one, with its row filled in; the queue has it then */
void core_release_run(struct core *c, struct live_run *r); /* of its hold */
int core_load_runs(struct core *c, struct err *err);
int core_pick_runs(struct core *c, struct err *err);
/* The limit on memory of a run or sandbox, as far as the request says; at most MEMORY_COUNTED_MAX, as which "no limit" counts. */
#define MEMORY_COUNTED_MAX (1ull << 50)
uint64_t core_request_memory(const struct buf *request);
void core_start_runs(struct core *c);
void core_end_run(struct core *c, struct live_run *r);    /* its row says how; it is freed */
void core_cancel_run(struct core *c, struct live_run *r); /* it may be freed */
void core_task_ready(struct core *c, struct live_run *r);

/* core_front.c */
void core_send(struct core *c, struct api_msg *m); /* after the commit; takes body and descriptors */
void core_flush(struct core *c);
int core_receive(struct core *c, struct err *err);
void core_lost_front(struct core *c);
void core_accept(struct core *c);

/* core_clean.c */
void core_clean_times(struct core *c, uint64_t now_ms);
void core_clean_reaped(struct core *c, pid_t pid, int status);
void core_measure_soon(struct core *c); /* something was written */
/* More is on disk than the tenant may have: the call was answered. */
bool call_disk_full(struct api_call *call);

/* core_traffic.c: what a tenant used in the last hour; what its gates send counts while they send it. */
int traffic_open(struct core *c, struct tenant *t);                                   /* -errno */
int traffic_load(struct core *c, struct tenant *t, uint64_t now_ns, struct err *err); /* of the last hour */
void traffic_count(struct core *c, struct tenant *t);                                 /* takes note, and says what is left */
int usage_add(struct core *c, struct tenant *t, const struct usage_part *add, struct err *err); /* and stores it */
void usage_end(struct core *c, struct tenant *t, uint64_t cpu_us);                              /* of a run that has ended */
void usage_forget(struct core *c);                                                              /* what is older than an hour */
void core_traffic_times(struct core *c, uint64_t now_ms);

/* core_events.c: what happens to all runs and sandboxes of a tenant. Stored in the same transaction, written after it. */
void core_event(struct core *c, struct tenant *t, const char *kind, const char *id, const char *state, const char *reason);
int core_commit(struct core *c, struct err *err);
int core_events_restore(struct core *c, struct err *err); /* what may be missing in the files after kill -9 */

/* core_exec.c */
void core_exec_ready(struct core *c, struct api_call *call);

/* core_call.c */
void core_request(struct core *c, struct api_msg *m);
struct api_call *core_find_call(struct core *c, uint64_t request);
void call_free(struct api_call *call);
void call_json(struct api_call *call, unsigned status, struct buf *body); /* takes the body; the call is over, unless it waits */
void call_nothing(struct api_call *call);                                 /* 204 */
/* Who asked may not any more: it is refused; of one that was answered the stream ends. */
void call_end(struct api_call *call, const char *detail);
void call_fd(struct api_call *call, unsigned flags, const void *body, size_t len, int fd);
void call_fail(struct api_call *call, enum api_problem code, const char *fmt, ...) PRINTF_LIKE(3, 4);
void call_fail_field(struct api_call *call, unsigned field, const char *detail);
void call_retry(struct api_call *call, enum api_problem code, unsigned seconds, const char *detail);
void call_broken(struct api_call *call, const struct err *err); /* internal; err goes to the log */
unsigned call_problem_status(enum api_problem code);
const char *call_text(const struct api_call *call, unsigned field); /* NULL: it is not there */
/* op_run_create.c: the fields by their names; and whether the shape was refused, which is answered then. */
int call_pack(const struct api_fields *f, struct buf *to);
/* The same with the secrets of its class. */
int call_pack_request(const struct api_call *call, struct buf *to);
bool call_refused(struct api_call *call);
void call_hash(const struct api_call *call, unsigned char *ret); /* of the request, for its idempotency key (SHA256_LEN) */
/* op_changes.c: the workspace of the run or sandbox of the call; false: it was answered. */
bool call_workspace(struct core *c, struct api_call *call, int *ret_cwd);
/* core_log.c */
int core_log_open(struct core *c, struct err *err);
void core_log_run(struct core *c, const struct run_row *row); /* one that has ended */
void core_log_reopen(struct core *c);                         /* and the file of traces */
/* Ends the line and writes it; path: of *to, which is rotated past its size; NULL: never. */
void core_write_line(const struct core *c, const char *path, int *to, struct buf *b);

/* core_trace.c */
void core_trace_run(struct core *c, const struct live_run *r); /* if traces are asked for */
void core_log(const struct core *c, const char *level, const char *what, const char *request_id, const char *fmt, ...)
    PRINTF_LIKE(5, 6);

/* Operations, by number: core_ops.c. Each answers, or sets call->wait. */
typedef void core_op(struct core *c, struct api_call *call);
extern core_op *const core_ops[API_OPS];
core_op op_health, op_metrics, op_me;
core_op op_link_create, op_session_create, op_session_end, op_usage, op_verdicts;
core_op op_tenant_list, op_tenant_create, op_tenant_get, op_tenant_change, op_tenant_delete, op_token_list, op_token_create,
    op_token_delete;
core_op op_secrets, op_images, op_audit, op_policy_add, op_policy_remove, op_question_answer;
core_op op_tenant_events, op_file_watch;
core_op op_engines, op_policy_get, op_question_list, op_diff, op_review, op_apply, op_discard;
core_op op_file_list, op_file_read, op_file_write, op_file_delete, op_archive_read, op_archive_write;
core_op op_box_terminal, op_box_fork, op_box_expose, op_checkpoint_list, op_checkpoint_create, op_checkpoint_delete;
core_op op_box_list, op_box_create, op_box_get, op_box_delete, op_box_start, op_box_stop, op_box_exec;
core_op op_run_list, op_run_create, op_run_get, op_run_delete, op_run_cancel, op_run_signal, op_run_stdin, op_run_output,
    op_run_events;

/* op_runs.c: LAST about a file of events as it is now; what is left of a run that has ended, without a call. */
void call_send_last(struct core *c, struct api_call *call, int fd);
int core_remove_run(struct core *c, struct tenant *t, const char *id, struct err *err);
/* op_run_json.c */
void run_json(struct core *c, const struct run_row *row, bool whole, struct buf *to);
/* The answer to a call that waited for the end of a run. */
void call_run(struct api_call *call, unsigned status, const struct run_row *row);
