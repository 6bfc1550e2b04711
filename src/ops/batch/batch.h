/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many tasks at once, each in a sandbox of its own: `bawn run --each` and `bawn batch` (docs/parallel.md, spec/batch.schema.json).
 *
 * This process starts itself (`bawn run ... --result-fd 3`) for each task and is never part of a sandbox. Parent and task have one socket:
 * the result comes back through it, orders (RUN_PARENT_*) go down, and its end ends the task, so a parent that was killed leaves none
 * behind. A task has a session of its own, /dev/null as stdin, and two files for what it prints:
 *
 *     $XDG_STATE_HOME/bawn/batch/<ts>/          made with mkdir, so that <ts>, which is in the name of every sandbox of the batch, is its own
 *         NAME.out NAME.err                     NAME~2.out: the second attempt
 *         result.json                           what --json prints
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/strv.h"
#include "config/settings.h"
#include "ops/notice.h"
#include "workspace/run/rundir.h"

struct err;
struct run_request;

enum {
    BATCH_TASKS_MAX = 10000,
    BATCH_JOBS_MAX = 256,
    BATCH_RETRIES_MAX = 8,           /* an id has one digit for it */
    BATCH_WORD_MAX = 128 * 1024 - 1, /* MAX_ARG_STRLEN of the kernel */
    BATCH_WORDS_MAX = 1024,
    BATCH_FILE_MAX = 64 * 1024 * 1024,
    BATCH_RESULT_MAX = 4 * 1024 * 1024, /* of one task, in JSON */
};

enum batch_state { BATCH_WAITING, BATCH_RUNNING, BATCH_OK, BATCH_FAILED, BATCH_SKIPPED, BATCH_STATES };
extern const char *const batch_state_names[BATCH_STATES];

struct batch_result {
    int status, signal;
    uint64_t duration_ms, memory_peak, cpu_us, changes;
    char run[RUNDIR_NAME_MAX + 1]; /* "": there is none */
    struct strv hosts, limits;     /* reached */
};

struct batch_task {
    char *name;
    unsigned line;                                           /* of the file; 0: none */
    char *profile, *directory, *timeout, *agent, *workspace; /* of the task alone; NULL: as the options say */
    struct strv command, env;
    enum workspace_mode mode; /* batch_modes() */

    enum batch_state state;
    unsigned attempts;
    char id[RUNDIR_NAME_MAX + 1]; /* bawn-NAME-<ts>, of the last attempt */
    pid_t pid;
    int link; /* the socket; -1: not running */
    uint64_t begun_ms;
    struct buf report; /* what came through the socket */
    struct batch_result result;
    struct strv earlier; /* runs with changes that failed attempts left */
};

struct batch_opts {
    uint64_t jobs; /* how many at once; 0: the number of CPUs */
    uint64_t retries;
    bool stop_on_failure;
    const char *log_dir; /* NULL: the batch's own folder */
};

struct batch {
    const struct run_request *request; /* of every task; its command is not used */
    struct batch_opts opts;
    struct strv words; /* the request as options */
    const char *path;  /* of the tasks, for messages; NULL: --each */
    struct batch_task *v;
    size_t n;
    char stamp[20]; /* <ts> */
    char *folder;   /* .../batch/<ts> */
    int lock;       /* the folder, with flock() on it as long as we live: `bawn prune` leaves it alone */
    char *logs;     /* the same, or log_dir; absolute */
    int logs_fd;
};
#define BATCH_INIT \
    { .lock = -1, .logs_fd = -1 }
void batch_done(struct batch *b);

/* What is seen of a batch while it runs. */
struct batch_watch {
    struct notice notice; /* lines about starts, ends and failures */
    bool live;            /* draw() shows what runs: no lines about what goes as it should */
    /* ending: the user has interrupted it. Returns in how many milliseconds to call again, -1: when something happens. */
    int (*draw)(const struct batch *b, bool ending, void *arg);
    void (*resized)(void *arg); /* the terminal has another size */
    void *arg;
};

/* The tasks are read first (below), then the batch is prepared, which checks everything, and then performed. */
int batch_prepare(struct batch *b, struct err *err);
/* Runs them all; the results are in the tasks and in result.json. *ret_interrupts: how many times the user interrupted it; also set if
 * only result.json could not be written. */
int batch_perform(struct batch *b, const struct batch_watch *w, int *ret_interrupts, struct err *err);

/* batch_tasks.c. Errors are "FILE:LINE:COLUMN: ..." with exit status 64. */
int batch_parse(struct batch *b, const char *path, const char *text, size_t len, struct err *err);
int batch_read(struct batch *b, const char *path, struct err *err); /* "-": stdin */
/* list as in --each; {} of the command is replaced. */
int batch_expand(struct batch *b, const char *list, char **argv, size_t argc, struct err *err);
/* A new task, empty; NULL: memory, or too many (err says). The name is checked and copied. */
struct batch_task *batch_add(struct batch *b, const char *name, struct err *err);
const struct batch_task *batch_find(const struct batch *b, const char *name);

/* "bawn", "run", options, "--", command; the caller frees. */
int batch_argv(const struct batch *b, const struct batch_task *t, struct strv *ret, struct err *err);
/* "NAME.out" or "NAME~2.err" */
void batch_log_name(const struct batch_task *t, const char *end, char ret[static 64]);

/* Results: what a task's process reported, all of it as JSON, and how many are in a state. */
void batch_take_report(struct batch_task *t, int wait_status, uint64_t now_ms);
void batch_json(const struct batch *b, struct buf *out);
size_t batch_count(const struct batch *b, enum batch_state state);
