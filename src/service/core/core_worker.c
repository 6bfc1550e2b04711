/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that work for a request. */
#include "service/core/core_worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"
#include "service/task/taskmsg.h"

enum { REASON_READ = 900 };

void worker_reason(const struct core_worker *w, char *ret, size_t size) {
    char text[REASON_READ + 1];
    struct stat st = {0};
    off_t from = fstat(w->said, &st) == 0 && st.st_size > REASON_READ ? st.st_size - REASON_READ : 0;
    ssize_t n = pread(w->said, text, REASON_READ, from);
    char *line, *end;

    text[MAX_OF(n, 0)] = 0;
    line = strncmp(text, "bawn: ", 6) == 0 ? text + 6 : strstr(text, "\nbawn: ") ? strstr(text, "\nbawn: ") + 7 : text;
    end = strchr(line, '\n');
    if (end)
        *end = 0;
    for (char *p = line; *p; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            *p = ' ';
    snprintf(ret, size, "%s", line[0] ? line : "it failed and gave no reason");
}

/* `bawn` ends with one status for all that cannot be done; what these begin with or have is in docs and tests. */
static enum api_problem problem_of_words(const char *reason) {
    if (strstr(reason, "no checkpoint") || strncmp(reason, "no sandbox '", 12) == 0)
        return API_PROBLEM_NOT_FOUND;
    return strstr(reason, "already") ? API_PROBLEM_CONFLICT : API_PROBLEM_CANNOT_SANDBOX;
}

static enum api_problem problem_of(int status, const char *reason) {
    static const struct {
        int status;
        enum api_problem problem;
    } known[] = {
        {TASK_EXIT_NOT_FOUND, API_PROBLEM_NOT_FOUND},
        {TASK_EXIT_REFUSED, API_PROBLEM_CONFLICT},
        {TASK_EXIT_FULL, API_PROBLEM_TOO_LARGE},
        {EXIT_USAGE_ERR, API_PROBLEM_BAD_REQUEST},
        {1, API_PROBLEM_CONFLICT},
    };

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (known[i].status == status)
            return known[i].problem;
    return problem_of_words(reason);
}

void worker_nothing(struct core *c UNUSED, struct core_worker *w, struct api_call *call, int status) {
    char reason[REASON_READ];

    if (!call)
        return;
    if (status == 0) {
        call_nothing(call);
        return;
    }
    worker_reason(w, reason, sizeof reason);
    call_fail(call, problem_of(status, reason), "%s", reason);
}

/* -- start -------------------------------------------------------------------------------------------------------------------- */

static int spawn_worker(struct core *c, struct core_worker *w, const struct worker_plan *p) {
    int fds[] = {p->in, p->out, memfd_create("said", MFD_CLOEXEC)};
    const struct core_spawn s = {.path = p->program ? p->program : c->conf.bawn,
                                 .argv = p->argv.v,
                                 .fds = fds,
                                 .n_fds = ARRAY_LEN(fds),
                                 .cwd = p->cwd >= 0 ? p->cwd : SPAWN_CWD_ROOT,
                                 .outlives = p->stays};

    w->said = fds[2];
    return w->said < 0 ? -errno : core_spawn(c, w->tenant, &s, &w->pid);
}

int worker_detached(struct core *c, struct tenant *t, uint64_t request, const char *id, struct worker_plan *p, struct err *err) {
    struct core_worker w = {
        .request = request, .tenant = t, .stays = p->stays, .alone = p->alone, .said = -1, .out = -1, .done = p->done};
    int r = core_tenant_place(c, t, err);

    snprintf(w.id, sizeof w.id, "%s", id ? id : "");
    r = r < 0 ? r : VEC_ROOM(c->workers, c->n_workers) < 0 ? err_oom(err) : 0;
    if (r == 0) {
        r = spawn_worker(c, &w, p);
        r = r < 0 ? err_sys(err, r, "start '%s'", p->program ? p->program : c->conf.bawn) : VEC_ADD(c->workers, c->n_workers, w);
    }
    if (r < 0)
        closep(&w.said);
    strv_done(&p->argv);
    return r;
}

int worker_start(struct core *c, struct api_call *call, const char *id, struct worker_plan *p) {
    struct err err = {0};
    int r = worker_detached(c, call->tenant, call->request, id, p, &err);

    if (r < 0)
        call_broken(call, &err);
    else
        call->wait = WAIT_WORKER;
    return r;
}

/* -- output that the front reads ---------------------------------------------------------------------------------------------- */

static void worker_outcome(struct core *c, struct core_worker *w, struct api_call *call, int status) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(8 * 1024);
    struct api_msg m = {.kind = API_OUTCOME, .value = (uint32_t)status};
    enum api_problem code;
    struct stat st;
    char reason[REASON_READ];

    if (status == 0 && w->out >= 0 && w->behind && write(w->out, w->behind, strlen(w->behind)) < 0)
        m.value = 1;
    if (!call)
        return;
    if (m.value) {
        worker_reason(w, reason, sizeof reason);
        code = problem_of(status, reason);
        buf_addf(&b, "%u", call_problem_status(code));
        buf_addc(&b, 0);
        buf_adds(&b, api_problem_names[code]);
        buf_addc(&b, 0);
        buf_adds(&b, fstat(w->said, &st) == 0 && st.st_size == 0 ? "" : reason); /* the front has what it printed */
    }
    m.request = call->request;
    m.len = b.len;
    m.body = b.len ? buf_take(&b) : NULL;
    core_send(c, &m);
    call_free(call);
}

void worker_answer(struct core *c, struct api_call *call, const char *id, struct worker_plan *p, unsigned flags,
                   const char *before, const char *behind) {
    CLEANUP(closep) int from = -1;
    CLEANUP(closep) int to = -1;

    if (fd_pipe(&from, &to) < 0 || (before && write(to, before, strlen(before)) < 0)) {
        strv_done(&p->argv);
        call_fail(call, API_PROBLEM_INTERNAL, "no pipe");
        return;
    }
    p->out = to;
    p->done = worker_outcome;
    if (worker_start(c, call, id, p) < 0)
        return;
    if (behind) {
        c->workers[c->n_workers - 1].out = TAKE_FD(to);
        c->workers[c->n_workers - 1].behind = behind;
    }
    call_fd(call, flags, "", 0, TAKE_FD(from));
}

/* -- the end ------------------------------------------------------------------------------------------------------------------ */

bool worker_alone(const struct core *c, const struct tenant *t, const char *id) {
    for (size_t i = 0; i < c->n_workers; i++)
        if (c->workers[i].alone && c->workers[i].tenant == t && str_eq(c->workers[i].id, id))
            return true;
    return false;
}

bool call_waits_turn(struct core *c, struct api_call *call, const char *id) {
    if (!worker_alone(c, call->tenant, id))
        return false;
    call->wait = WAIT_TURN;
    snprintf(call->turn, sizeof call->turn, "%s", id);
    return true;
}

/* The one that waits for the longest; the list begins with the last. */
static struct api_call *next_turn(const struct core *c, const struct core_worker *w) {
    struct api_call *first = NULL;

    for (struct api_call *call = c->calls; call; call = call->next)
        if (call->wait == WAIT_TURN && call->tenant == w->tenant && str_eq(call->turn, w->id))
            first = call;
    return first;
}

static void give_turns(struct core *c, const struct core_worker *w) {
    struct api_call *call;

    while (!worker_alone(c, w->tenant, w->id) && (call = next_turn(c, w))) {
        call->wait = WAIT_NOTHING;
        core_ops[call->route->op](c, call);
    }
}

void worker_reaped(struct core *c, pid_t pid, int status) {
    for (size_t i = 0; i < c->n_workers; i++)
        if (c->workers[i].pid == pid) {
            struct core_worker w = c->workers[i];
            struct api_call *call = w.request ? core_find_call(c, w.request) : NULL;

            VEC_REMOVE(c->workers, c->n_workers, i);
            w.done(c, &w, call, process_exit_status(status));
            closep(&w.said);
            closep(&w.out);
            if (w.alone)
                give_turns(c, &w);
            return;
        }
}

void worker_cancel(struct core *c, uint64_t request) {
    for (size_t i = 0; i < c->n_workers; i++)
        if (c->workers[i].request == request) {
            c->workers[i].request = 0;
            if (!c->workers[i].stays)
                kill(-c->workers[i].pid, SIGKILL); /* not reaped yet: the number is its own */
        }
}
