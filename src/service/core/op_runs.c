/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on runs: each finds the run by tenant and id, among those that live or in the database. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sock.h"
#include "service/core/core_worker.h"
#include "service/task/taskmsg.h"
#include "service/task/taskreq.h"

enum { LIST_USUAL = 100, LIST_BYTES = 16 * 1024 * 1024, CANCEL_WAIT_MS = 30 * 1000 };

/* The run of the call: 1 with *ret_live, or 0 with *ret_row; -1: it was answered. */
static int find_run(struct core *c, struct api_call *call, struct live_run **ret_live, struct run_row *ret_row) {
    const char *id = call_text(call, API_FIELD_ID);
    struct err err = {0};
    int n;

    *ret_live = core_find_run(c, call->tenant, id);
    if (*ret_live)
        return 1;
    n = ledger_run_get(&c->db, call->tenant->row.name, id, ret_row, &err);
    if (n < 0)
        call_broken(call, &err);
    else if (n == 0)
        call_fail(call, API_PROBLEM_NOT_FOUND, "there is no run '%s'", id);
    return n > 0 ? 0 : -1;
}

void op_run_get(struct core *c, struct api_call *call) {
    CLEANUP(run_row_done) struct run_row row = RUN_ROW_INIT;
    uint64_t wait = api_field_number(&call->fields, API_FIELD_WAIT, 0);
    struct live_run *r;
    int n = find_run(c, call, &r, &row);

    if (n < 0)
        return;
    if (n == 0 || wait == 0) {
        call_run(call, 200, n ? &r->row : &row);
        return;
    }
    call->wait = WAIT_END;
    call->run = r;
    call->status = 200;
    call->deadline_ms = clock_ms() + wait * 1000;
}

void op_run_cancel(struct core *c, struct api_call *call) {
    CLEANUP(run_row_done) struct run_row row = RUN_ROW_INIT;
    struct live_run *r;
    int n = find_run(c, call, &r, &row);

    if (n < 0)
        return;
    if (n == 0) {
        call_run(call, 200, &row);
        return;
    }
    call->wait = WAIT_END;
    call->run = r;
    call->status = 200;
    call->deadline_ms = clock_ms() + CANCEL_WAIT_MS;
    core_cancel_run(c, r);
}

static void delete_done(struct core *c, struct core_worker *w, struct api_call *call, int status UNUSED) {
    struct err err = {0};
    int n = place_trash(c, w->tenant, w->id);

    if (n < 0)
        err_sys(&err, n, "remove the folder of run '%s'", w->id);
    n = n < 0 ? n : ledger_begin(&c->db, &err);
    n = n < 0 ? n : ledger_do(&c->db, LEDGER_RUN_REMOVE, &err, "tt", w->tenant->row.name, w->id);
    if (n < 0 && call)
        call_broken(call, &err);
    else if (call)
        call_nothing(call);
}

/* First what it has set aside in the tenant's home, if anything, then its folder and its row. */
static int remove_run(struct core *c, struct tenant *t, uint64_t request, const char *id, struct err *err) {
    CLEANUP(closep) int cwd = place_workspace(c, t, id);
    CLEANUP(freep) char *program = str_dupf("%s/bawn-task", c->conf.helpers);
    const char *const words[] = {"bawn-task", "--forget", c->conf.bawn, "discard", "--yes", id};
    struct worker_plan p = {.program = program, .in = -1, .out = -1, .cwd = cwd, .stays = true, .done = delete_done};
    int r = program ? 0 : -ENOMEM;

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(words); i++)
        r = strv_add(&p.argv, words[i]);
    if (r < 0) {
        strv_done(&p.argv);
        return err_oom(err);
    }
    return worker_detached(c, t, request, id, &p, err);
}

int core_remove_run(struct core *c, struct tenant *t, const char *id, struct err *err) {
    return remove_run(c, t, 0, id, err);
}

void op_run_delete(struct core *c, struct api_call *call) {
    CLEANUP(run_row_done) struct run_row row = RUN_ROW_INIT;
    struct live_run *r;
    struct err err = {0};
    int n = find_run(c, call, &r, &row);

    if (n > 0)
        call_fail(call, API_PROBLEM_CONFLICT, "the run has not ended; cancel it first");
    if (n != 0)
        return;
    call->wait = WAIT_WORKER;
    if (remove_run(c, call->tenant, call->request, row.id, &err) < 0)
        call_broken(call, &err);
}

/* -- to its bawn-task --------------------------------------------------------------------------------------------------------- */

static struct live_run *find_running(struct core *c, struct api_call *call) {
    CLEANUP(run_row_done) struct run_row row = RUN_ROW_INIT;
    struct live_run *r;
    int n = find_run(c, call, &r, &row);

    if (n == 0)
        call_fail(call, API_PROBLEM_ENDED, "the run has ended");
    else if (n > 0 && r->task < 0)
        call_fail(call, API_PROBLEM_NOT_RUNNING, "the run has not started yet");
    return n > 0 && r->task >= 0 ? r : NULL;
}

static void ask_task(struct api_call *call, struct live_run *r, struct task_msg *m, int fd) {
    int n;

    m->tag = call->request;
    call->wait = WAIT_TASK;
    call->run = r;
    n = sock_send(r->task, m, sizeof *m, fd >= 0 ? &fd : NULL, fd >= 0 ? 1 : 0);
    if (n < 0)
        call_fail(call, API_PROBLEM_NOT_RUNNING, "its supervisor does not answer: %s", strerror(-n));
}

void op_run_signal(struct core *c, struct api_call *call) {
    struct task_msg m = {.type = TASK_MSG_SIGNAL, .value = (int32_t)api_field_number(&call->fields, API_FIELD_SIGNAL, 0)};
    struct live_run *r = m.value == 0 ? core_find_run(c, call->tenant, call_text(call, API_FIELD_ID)) : NULL;

    if (r && r->row.state == RUN_QUEUED) {
        core_release_run(c, r);
        call_nothing(call);
        return;
    }
    r = find_running(c, call);
    if (!r)
        return;
    if (m.value == 0)
        call_nothing(call);
    else
        ask_task(call, r, &m, -1);
}

/* The bytes go from the front to bawn-task, through a pipe that nothing is read from here. */
void op_run_stdin(struct core *c, struct api_call *call) {
    struct task_msg m = {.type = TASK_MSG_STDIN, .value = api_field_bool(&call->fields, API_FIELD_CLOSE, false)};
    struct live_run *r = find_running(c, call);
    struct api_msg up = {.kind = API_UPLOAD, .request = call->request, .fds = {-1, -1, -1, -1}, .n_fds = 1};
    CLEANUP(closep) int from = -1;

    if (!r)
        return;
    if (!taskreq_flag(&r->row.request, "stdin")) {
        call_fail(call, API_PROBLEM_NOT_RUNNING, "the run was made without \"stdin\"");
        return;
    }
    if (fd_pipe(&from, &up.fds[0]) < 0) {
        call_fail(call, API_PROBLEM_INTERNAL, "no pipe");
        return;
    }
    core_send(c, &up);
    ask_task(call, r, &m, from);
}

/* -- files -------------------------------------------------------------------------------------------------------------------- */

void op_run_output(struct core *c, struct api_call *call) {
    CLEANUP(run_row_done) struct run_row row = RUN_ROW_INIT;
    const char *stream = api_field_get(&call->fields, API_FIELD_STREAM, 0);
    struct live_run *r;
    struct stat st = {0};
    int fd, n = find_run(c, call, &r, &row);

    if (n < 0)
        return;
    fd = place_run_file(c, call->tenant, call_text(call, API_FIELD_ID), str_eq(stream, "stderr") ? "stderr" : "stdout", O_RDONLY);
    if (fd == -ENOENT)
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        closep(&fd);
        call_fail(call, API_PROBLEM_INTERNAL, "the output cannot be opened");
        return;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        fd = fd_memory("empty", "", 0);
        st.st_size = 0;
    }
    call_fd(call, API_FLAG_PART, (uint64_t[]){0, (uint64_t)st.st_size}, 16, fd);
}

void call_send_last(struct core *c, struct api_call *call, int fd) {
    struct api_msg m = {.kind = API_LAST, .request = call->request, .len = sizeof(uint64_t)};
    struct stat st = {0};
    uint64_t size = fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_size;

    m.body = malloc(sizeof size);
    if (m.body)
        memcpy(m.body, &size, sizeof size);
    core_send(c, &m);
}

void op_run_events(struct core *c, struct api_call *call) {
    CLEANUP(run_row_done) struct run_row row = RUN_ROW_INIT;
    CLEANUP(closep) int fd = -1;
    uint64_t after =
        api_field_number(&call->fields, API_FIELD_AFTER, api_field_number(&call->fields, API_FIELD_LAST_EVENT_ID, 0));
    bool follow = api_field_bool(&call->fields, API_FIELD_FOLLOW, true);
    struct live_run *r;
    struct err err = {0};
    int n = find_run(c, call, &r, &row);

    if (n < 0)
        return;
    if (n > 0 && place_make(c, r, &err) < 0) {
        call_broken(call, &err);
        return;
    }
    fd = place_run_file(c, call->tenant, call_text(call, API_FIELD_ID), "events", O_RDONLY | (n > 0 ? O_CREAT : 0));
    if (fd < 0) {
        call_fail(call, API_PROBLEM_NOT_FOUND, "the events of the run were removed");
        return;
    }
    call->wait = WAIT_EVENTS;
    call->run = n > 0 ? r : NULL;
    call_fd(call, API_FLAG_EVENTS, &after, sizeof after, dup(fd));
    if (n > 0 && follow)
        return;
    call_send_last(c, call, fd);
    call_free(call);
}

/* -- lists -------------------------------------------------------------------------------------------------------------------- */

struct run_list {
    struct core *core;
    struct buf out;
    const char *label;
    size_t n, limit;
    uint64_t last;
    bool more;
};

/* label: "key=value" */
static bool has_label(const struct buf *request, const char *label) {
    struct taskreq_field f;

    for (size_t at = 0; taskreq_next(request, &at, &f) > 0;) {
        size_t key = strnlen(f.data, f.len);

        if (str_eq(f.name, "labels") && key < f.len && strlen(label) == f.len && memcmp(label, f.data, key) == 0 &&
            label[key] == '=' && memcmp(label + key + 1, f.data + key + 1, f.len - key - 1) == 0)
            return true;
    }
    return false;
}

static int list_run(struct run_row *row, void *arg) {
    struct run_list *l = arg;
    const struct tenant *t = core_tenant(l->core, row->tenant);
    const struct live_run *live = t ? core_find_run(l->core, t, row->id) : NULL;

    if (l->label && !has_label(&row->request, l->label))
        return 0;
    if (l->n == l->limit) {
        l->more = true;
        return 1;
    }
    l->n++;
    l->last = row->seq;
    run_json(l->core, live ? &live->row : row, false, &l->out);
    return 0;
}

void op_run_list(struct core *c, struct api_call *call) {
    const char *page = call_text(call, API_FIELD_PAGE), *state = call_text(call, API_FIELD_STATE);
    struct run_list l = {.core = c, .out = BUF_INIT(LIST_BYTES), .label = call_text(call, API_FIELD_LABEL)};
    uint64_t before = INT64_MAX;
    int64_t wanted = state ? str_index(state, run_state_names, RUN_STATES) : -1;
    struct err err = {0};
    int n;

    if (page && parse_u64(page, 1, INT64_MAX, &before, &err) < 0) {
        call_fail_field(call, API_FIELD_PAGE, "is not the \"next\" of an answer");
        return;
    }
    l.limit = (size_t)api_field_number(&call->fields, API_FIELD_LIMIT, LIST_USUAL);
    buf_adds(&l.out, "{\"items\":[");
    n = ledger_ask(&c->db, LEDGER_RUN_LIST, &err, "tii", call->tenant->row.name, (int64_t)before, wanted);
    n = n < 0 ? n : ledger_runs(&c->db, LEDGER_RUN_LIST, list_run, &l, &err);
    if (n < 0) {
        buf_done(&l.out);
        call_broken(call, &err);
        return;
    }
    if (l.more)
        buf_addf(&l.out, "],\"next\":\"%llu\"}", (unsigned long long)l.last);
    else
        buf_adds(&l.out, "],\"next\":null}");
    call_json(call, 200, &l.out);
}
