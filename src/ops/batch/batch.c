/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/batch/batch.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/run/run_options.h"
#include "config/load/paths.h"
#include "os/fd.h"

enum { OUTPUT_MAX = 1024 * 1024 * 1024, EXIT_SOME_FAILED = 1, EXIT_INTERRUPTED = 130 };

/* Not passed on: the batch has its own, or has dealt with it. */
static bool is_own(int id) {
    static const int own[] = {RUN_OPT_HELP,    RUN_OPT_JSON, RUN_OPT_DRY_RUN, RUN_OPT_EACH,      RUN_OPT_JOBS,
                              RUN_OPT_RETRIES, RUN_OPT_STOP, RUN_OPT_LOG_DIR, RUN_OPT_WORKSPACE, RUN_OPT_NO_TTY};

    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (own[i] == id)
            return true;
    return false;
}

static int refuse(int id, struct err *err) {
    switch (id) {
    case RUN_OPT_NAME:
        return err_usage(err, "--name: each task has a name of its own");
    case RUN_OPT_TTY:
        return err_usage(err, "--tty: tasks that run at once have no terminal");
    case RUN_OPT_NO_SANDBOX:
        return err_usage(err, "--no-sandbox: tasks that run at once have a sandbox each");
    case RUN_OPT_PUBLISH:
        return err_usage(err, "--publish: two tasks cannot have one port");
    case RUN_OPT_RESULT_FD:
        return err_usage(err, "--result-fd is for a task, not for the batch");
    }
    return 0;
}

int batch_add_option(struct batch *b, const struct opt *table, size_t n, int id, const char *value, struct err *err) {
    int r = refuse(id, err);

    for (size_t i = 0; r == 0 && i < n && !is_own(id); i++)
        if (table[i].id == id) {
            r = value ? strv_addf(&b->words, "--%s=%s", table[i].name, value) : strv_addf(&b->words, "--%s", table[i].name);
            return r < 0 ? err_oom(err) : 0;
        }
    return r;
}

static unsigned cpus(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

    return (unsigned)MIN_OF(MAX_OF(n, 1), (int)BATCH_JOBS_MAX);
}

static int read_numbers(struct batch *b, struct err *err) {
    const struct run_args *a = b->args;
    uint64_t jobs = cpus(), retries = 0;
    int r = a->jobs ? parse_u64(a->jobs, 1, BATCH_JOBS_MAX, &jobs, err) : 0;

    if (r < 0)
        return err_ctx(err, r, "--jobs");
    r = a->retries ? parse_u64(a->retries, 0, BATCH_RETRIES_MAX, &retries, err) : 0;
    if (r < 0)
        return err_ctx(err, r, "--retries");
    b->jobs = (unsigned)jobs;
    b->retries = (unsigned)retries;
    return 0;
}

/* --dry-run: what would be started, as it could be typed. */
static int print_commands(const struct batch *b, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);

    buf_adds(&out, b->args->json ? "{\"tasks\":[" : "");
    for (size_t i = 0; i < b->n; i++) {
        CLEANUP(strv_done) struct strv argv = {0};
        int r = batch_argv(b, &b->v[i], &argv, err);

        if (r < 0)
            return r;
        if (b->args->json) {
            buf_adds(&out, i ? ",\n{\"name\":" : "\n{\"name\":");
            buf_add_json(&out, b->v[i].name);
            buf_adds(&out, ",\"argv\":[");
        }
        for (size_t k = 0; k < argv.len; k++) {
            buf_adds(&out, !k ? "" : b->args->json ? "," : " ");
            (b->args->json ? buf_add_json : buf_add_shell)(&out, argv.v[k]);
        }
        buf_adds(&out, b->args->json ? "]}" : "\n");
    }
    buf_adds(&out, b->args->json ? "]}\n" : "");
    return !buf_ok(&out) ? err_oom(err) : fd_write_all(STDOUT_FILENO, buf_str(&out), out.len);
}

/* The result stays beside the logs, too. A folder that has nothing in it was only a name. */
static int print_result(const struct batch *b, struct err *err) {
    CLEANUP(buf_done) struct buf json = BUF_INIT(OUTPUT_MAX), text = BUF_INIT(OUTPUT_MAX);
    const struct buf *out = b->args->json ? &json : &text;
    int r;

    batch_json(b, &json);
    batch_text(b, &text);
    if (!buf_ok(&json) || !buf_ok(&text))
        return err_oom(err);
    r = paths_publish_at(b->logs_fd, b->logs, "result.json", 0600, json.data, json.len, PUBLISH_REPLACE, err);
    if (b->args->log_dir)
        rmdir(b->folder);
    if (fd_write_all(STDOUT_FILENO, buf_str(out), out->len) < 0)
        return err_set(err, -EIO, "cannot write the result");
    return r;
}

int batch_main(struct batch *b, struct err *err) {
    int r = read_numbers(b, err), interrupts;

    r = r < 0 ? r : batch_modes(b, err);
    if (r < 0)
        return r;
    if (b->args->dry_run)
        return print_commands(b, err);
    r = batch_open_logs(b, err);
    interrupts = r < 0 ? r : batch_run(b, err);
    r = interrupts < 0 ? interrupts : print_result(b, err);
    if (r < 0)
        return r;
    if (interrupts)
        return EXIT_INTERRUPTED;
    return batch_count(b, BATCH_OK) == b->n ? 0 : EXIT_SOME_FAILED;
}

int batch_each(const struct run_args *a, int argc, char **argv, struct err *err) {
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    struct opt_iter it = opt_iter_init(run_opts, N_RUN_OPTS_ALL, argc, argv);
    int r;

    b.args = a;
    while ((r = opt_next(&it, err)) > 0)
        if ((r = batch_add_option(&b, run_opts, N_RUN_OPTS_ALL, it.id, it.value, err)) < 0)
            return r;
    r = r < 0 ? r : batch_expand(&b, a->each, a->argv, a->argc, err);
    return r < 0 ? r : batch_main(&b, err);
}
