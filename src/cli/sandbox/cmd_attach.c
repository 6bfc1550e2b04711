/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "cli/sandbox/attach_run.h"
#include "cli/verb.h"
#include "ops/sandbox/sandbox_jobs.h"
#include "ops/sandbox/sandbox_pick.h"
#include "os/fd.h"
#include "supervisor/terminal/stdio.h"

enum { OPT_KEYS = 1, OPT_READ_ONLY, OPT_DIRECTORY, OPT_JSON, HISTORY = 64 * 1024 };

static const struct opt opts[] = {
    {OPT_READ_ONLY, 0, "read-only", NULL, "look only: nothing that is typed goes inside; ctrl-c leaves", NULL},
    {OPT_KEYS, 0, "detach-keys", "KEYS", "leave with these keys, \"\": with none (default: ctrl-p,ctrl-q)", NULL},
    {OPT_DIRECTORY, 'C', "directory", "DIR", "without SANDBOX: that of this workspace (default: the current folder)", "@dir"},
    {OPT_JSON, 0, "json", NULL, "the result as one JSON line on stderr", NULL},
};

struct attach_args {
    const char *name, *dir;
    uint64_t job;
    char keys[EXEC_KEYS_MAX + 1];
    bool have_keys, read_only, json;
};

static int parse(int argc, char **argv, struct attach_args *a, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    int n = 0, r;

    while ((r = sandbox_opt_next(&it, &n, err)) > 0)
        switch (it.id) {
        case OPT_KEYS:
            a->have_keys = true;
            if ((r = exec_detach_keys(it.value, a->keys, err)) < 0)
                return r;
            break;
        case OPT_READ_ONLY:
            a->read_only = true;
            break;
        case OPT_DIRECTORY:
            a->dir = it.value;
            break;
        case OPT_JSON:
            a->json = true;
            break;
        }
    return r < 0 ? r : sandbox_and_job(n, argv + 1, &a->name, &a->job, err);
}

static int find_job(const struct box *b, struct attach_options *o, struct err *err) {
    json_t *jobs;
    const json_t *job;
    int r = sandbox_jobs(b, &jobs, err);

    if (r < 0)
        return r;
    job = sandbox_job_find(jobs, o->job);
    if (!job && o->job)
        r = err_set(err, -ENOENT, "sandbox '%s' has no job %d; see 'bawn ps %s'", b->name, o->job, b->name);
    else if (!job)
        r = err_set(err, -ENOENT, "nothing runs in the background of sandbox '%s'; 'bawn shell %s' opens a shell", b->name,
                    b->name);
    else if (!json_is_true(json_object_get(job, "background")))
        r = err_set(err, -EINVAL, "job %d of sandbox '%s' runs in the foreground of another 'bawn exec'", o->job, b->name);
    if (r == 0) {
        o->job = (int)json_integer_value(json_object_get(job, "job"));
        o->tty = json_is_true(json_object_get(job, "tty"));
    }
    json_decref(jobs);
    return r;
}

static int attach(const struct attach_args *a, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    CLEANUP(closep) int sock = -1;
    const struct sandbox_pick_opts pick = {.name = a->name, .directory = a->dir, .need = SANDBOX_RUNNING};
    struct attach_options o = {
        .job = (int)a->job, .detach_keys = a->have_keys ? a->keys : NULL, .history = HISTORY, .read_only = a->read_only};
    int r = sandbox_pick(&pick, &p, err);

    r = r < 0 ? r : find_job(&p.box, &o, err);
    r = r < 0 ? r : exec_connect(environ, NULL, p.box.name, &sock, err);
    if (r < 0)
        return r;
    o.sandbox = p.box.name;
    return attach_run(sock, &o, a->json, err);
}

static int run_attach(const struct verb *self, int argc, char **argv) {
    struct attach_args a = {0};
    struct err err = {0};
    bool closed[3];
    int r = stdio_reserve(closed);

    r = r < 0 ? err_sys(&err, r, "standard streams") : parse(argc, argv, &a, &err);
    r = r < 0 ? r : attach(&a, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

const struct verb verb_attach = {
    .name = "attach",
    .summary = "come back to a shell or command in the background",
    .synopsis = "[options] [SANDBOX] [JOB]",
    .description =
        "Shows what a job in the background of a sandbox prints, beginning with the last of it, and types into it, until it ends or "
        "ctrl-p ctrl-q is pressed. Several can be attached at once: all see the same, and all may type. Without JOB it is the "
        "latest one, without SANDBOX the project's own.\n\n"
        "The exit status is the job's, or 0 after the keys.",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_attach,
};
