/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a workspace. What is written and listed is done by bawn-task as the tenant; a file to read is opened here with the tenant's rights. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "service/core/core_boxes.h"
#include "service/core/core_worker.h"
#include "service/task/taskreq.h"

enum { LIST_USUAL = 100 };

/* Where the sandbox has its workspace: in the same place as the host, which is the folder that it was made of, or its own. */
static int add_inside(struct core *c, struct api_call *call, struct strv *argv) {
    CLEANUP(box_row_done) struct box_row b = BOX_ROW_INIT;
    CLEANUP(freep) char *path = NULL;
    const char *id = call_text(call, API_FIELD_ID);
    int r = box_find(c, call->tenant, id, &b) > 0 ? taskreq_get(&b.request, "shape.source.path", &path) : 0;

    if (r < 0 || b.state != BOX_ROW_RUNNING)
        return r;
    r = strv_add(argv, "--in");
    r = r < 0 ? r : strv_add(argv, id);
    return r < 0  ? r
           : path ? strv_add(argv, path)
                  : strv_addf(argv, "%s/tenants/%s/runs/%s/workspace", c->conf.state, call->tenant->row.name, id);
}

/* bawn-task VERB ARGS... in the workspace. */
static int plan_task(struct core *c, struct api_call *call, struct worker_plan *p, const char *const *words) {
    const char *kind = call_text(call, API_FIELD_KIND);
    int r = strv_add(&p->argv, "bawn-task");

    if (r >= 0 && kind && str_eq(kind, "sandboxes"))
        r = add_inside(c, call, &p->argv);
    for (size_t i = 0; r >= 0 && words[i]; i++)
        r = strv_add(&p->argv, words[i]);
    if (r < 0 || !call_workspace(c, call, &p->cwd)) {
        strv_done(&p->argv);
        if (r < 0)
            call_fail(call, API_PROBLEM_INTERNAL, "no memory");
        return -1;
    }
    return 0;
}

static const char *path_or_top(const struct api_call *call) {
    const char *path = call_text(call, API_FIELD_PATH);

    return path ? path : ".";
}

static void run_task(struct core *c, struct api_call *call, struct worker_plan *p, unsigned flags) {
    CLEANUP(freep) char *program = str_dupf("%s/bawn-task", c->conf.helpers);

    p->program = program;
    if (!program) {
        strv_done(&p->argv);
        call_fail(call, API_PROBLEM_INTERNAL, "no memory");
    } else if (flags)
        worker_answer(c, call, call_text(call, API_FIELD_ID), p, flags, NULL, NULL);
    else
        worker_start(c, call, call_text(call, API_FIELD_ID), p);
    closep(&p->cwd);
}

void op_file_list(struct core *c, struct api_call *call) {
    struct worker_plan p = WORKER_PLAN_INIT;
    const char *page = call_text(call, API_FIELD_PAGE);
    char limit[24];

    snprintf(limit, sizeof limit, "%llu", (unsigned long long)api_field_number(&call->fields, API_FIELD_LIMIT, LIST_USUAL));
    if (plan_task(c, call, &p,
                  (const char *const[]){"--list", path_or_top(call),
                                        api_field_bool(&call->fields, API_FIELD_RECURSIVE, false) ? "1" : "0", limit,
                                        page ? page : "", NULL}) == 0)
        run_task(c, call, &p, API_FLAG_JSON);
}

void op_file_delete(struct core *c, struct api_call *call) {
    struct worker_plan p = WORKER_PLAN_INIT;

    p.done = worker_nothing;
    if (plan_task(c, call, &p, (const char *const[]){"--delete", call_text(call, API_FIELD_PATH), NULL}) == 0)
        run_task(c, call, &p, 0);
}

void op_archive_read(struct core *c, struct api_call *call) {
    struct worker_plan p = WORKER_PLAN_INIT;

    if (plan_task(c, call, &p, (const char *const[]){"--tar", path_or_top(call), NULL}) == 0)
        run_task(c, call, &p, API_FLAG_STREAM);
}

void op_file_watch(struct core *c, struct api_call *call) {
    struct worker_plan p = WORKER_PLAN_INIT;

    if (plan_task(c, call, &p, (const char *const[]){"--watch", NULL}) == 0)
        run_task(c, call, &p, API_FLAG_STREAM);
}

/* -- uploads ------------------------------------------------------------------------------------------------------------------ */

static void upload_done(struct core *c, struct core_worker *w, struct api_call *call, int status) {
    struct live_run *r = status == 0 ? core_find_run(c, w->tenant, w->id) : NULL;

    if (r && call)
        core_release_run(c, r);
    core_measure_soon(c);
    worker_nothing(c, w, call, status);
}

/* A client that goes ends the worker (CANCEL), so that half a file is never put in place. */
static void upload_task(struct core *c, struct api_call *call, const char *const *words) {
    struct worker_plan p = WORKER_PLAN_INIT;
    struct api_msg up = {.kind = API_UPLOAD, .request = call->request, .fds = {-1, -1, -1, -1}, .n_fds = 1};
    CLEANUP(closep) int from = -1;

    if (call_disk_full(call) || plan_task(c, call, &p, words) < 0)
        return;
    if (fd_pipe(&from, &up.fds[0]) < 0) {
        closep(&p.cwd);
        strv_done(&p.argv);
        call_fail(call, API_PROBLEM_INTERNAL, "no pipe");
        return;
    }
    core_send(c, &up);
    p.in = from;
    p.done = upload_done;
    run_task(c, call, &p, 0);
}

void op_file_write(struct core *c, struct api_call *call) {
    upload_task(c, call,
                (const char *const[]){"--write", call_text(call, API_FIELD_PATH),
                                      api_field_bool(&call->fields, API_FIELD_EXECUTABLE, false) ? "1" : "0", NULL});
}

void op_archive_write(struct core *c, struct api_call *call) {
    upload_task(c, call, (const char *const[]){"--untar", path_or_top(call), NULL});
}

/* -- reading ------------------------------------------------------------------------------------------------------------------ */

/* What the worker has copied. */
static void cat_done(struct core *c, struct core_worker *w, struct api_call *call, int status) {
    struct stat st = {0};

    if (status || !call)
        worker_nothing(c, w, call, status);
    else if (fstat(w->out, &st) < 0)
        call_fail(call, API_PROBLEM_INTERNAL, "the copy is gone");
    else {
        call->wait = WAIT_NOTHING;
        call_fd(call, API_FLAG_PART, (uint64_t[]){0, (uint64_t)st.st_size}, 16, TAKE_FD(w->out));
    }
}

/* From within a sandbox: copied to a file without a name first, so that ranges are of one version. */
static void read_inside(struct core *c, struct api_call *call) {
    struct worker_plan p = WORKER_PLAN_INIT;
    CLEANUP(closep) int copy = openat(c->trash, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (copy < 0)
        copy = memfd_create("copy", MFD_CLOEXEC);
    p.out = copy;
    p.done = cat_done;
    if (copy < 0)
        call_fail(call, API_PROBLEM_INTERNAL, "no place for a copy");
    else if (plan_task(c, call, &p, (const char *const[]){"--cat", call_text(call, API_FIELD_PATH), NULL}) == 0) {
        size_t before = c->n_workers;

        run_task(c, call, &p, 0);
        if (c->n_workers > before)
            c->workers[c->n_workers - 1].out = TAKE_FD(copy);
    }
}

void op_file_read(struct core *c, struct api_call *call) {
    CLEANUP(closep) int dir = -1;
    const char *path = call_text(call, API_FIELD_PATH);
    const char *kind = call_text(call, API_FIELD_KIND);
    struct stat st = {0};
    int fd;

    if (kind && str_eq(kind, "sandboxes")) {
        read_inside(c, call);
        return;
    }
    if (!call_workspace(c, call, &dir))
        return;
    fd = place_open_as(c, call->tenant, dir, path, O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        bool missing = fd == -ENOENT || fd == -ENOTDIR;

        closep(&fd);
        if (missing)
            call_fail(call, API_PROBLEM_NOT_FOUND, "there is no file '%s'", path);
        else
            call_fail(call, API_PROBLEM_CONFLICT, "'%s' is not a file, or a link leads to it", path);
        return;
    }
    call_fd(call, API_FLAG_PART, (uint64_t[]){0, (uint64_t)st.st_size}, 16, fd);
}
