/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing and printing for `bawn run`, `explain` and `batch`. */
#include "cli/run/run_options.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/verb.h"
#include "ops/run/run_prepare.h"
#include "ops/run/run_seatbelt.h"

static_assert(offsetof(struct run_args, request) == 0, "slots of a request are also slots of the whole");

void run_args_done(struct run_args *a) {
    run_request_done(&a->request);
}

/* No process that is started from here inherits it. */
int run_args_result_fd(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    uint64_t fd;
    struct stat st;
    int r = parse_u64(value, 3, INT_MAX, &fd, err);

    if (r < 0)
        return err_ctx(err, r, "--result-fd");
    if (fstat((int)fd, &st) < 0 || !S_ISSOCK(st.st_mode) || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
        return err_usage(err, "--result-fd takes the number of a socket");
    *(int *)to = (int)fd;
    return 0;
}

int run_args_parse(const struct opt *opts, size_t n, int argc, char **argv, struct run_args *ret, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, n, argc, argv);
    struct run_request *q = &ret->request;
    int r = opt_fill(&it, ret, err);

    if (r < 0)
        return r;
    if (q->tty && q->no_tty)
        return err_usage(err, "--tty and --no-tty exclude each other");
    q->argv = argv + it.pos;
    q->argc = (size_t)(argc - it.pos);
    q->image_command = q->argc == 0;
    q->want_usage = ret->json || q->parent;
    q->notice = &verb_notice;
    q->alert = &verb_alert;
    return 0;
}

int run_print_plan(const struct run_prepared *p, bool json, struct buf *out, struct err *err) {
    CLEANUP(plan_done) struct plan plan = {0};
    int r;

    if (str_eq(p->settings.engine, engine_seatbelt.name))
        return run_seatbelt_print(p, json, out, err);
    r = run_plan(p, &plan, err);
    if (r < 0)
        return r;
    (json ? plan_print_json : plan_print_text)(&plan, &p->settings, out);
    return 0;
}
