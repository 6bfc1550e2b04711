/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-review review|diff OPTIONS     3: folder of the run, 4: the workspace, 5: ignore rules (rules.h); report on stdout
 * bawn-review merge                   3: base, 4: the workspace's version, 5: the run's; the merged file on stdout
 *
 * A program of its own because it parses what an agent wrote. It gets descriptors, not paths, and gives up everything else
 * before it reads from them (review/review_jail.h). Exit status: 0, or 1 for a risk (review) or a conflict (merge), or 125 with one
 * line on stderr.
 */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "review/report/diff.h"
#include "review/report/report.h"
#include "review/review_jail.h"
#include "review/risk/rules.h"

enum { FD_RUN = 3, FD_WORKSPACE = 4, FD_RULES = 5, FD_BASE = 3, FD_OURS = 4, FD_THEIRS = 5, FIRST_CLOSED = 6 };
enum { EXIT_RISKY = 1, EXIT_CONFLICT = 1 };

static int read_rules(struct review_rules *ret, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(RULES_MAX);
    int r = diff_load(FD_RULES, &b);

    if (r < 0)
        return err_sys(err, r, "read the ignore rules");
    return review_rules_read(buf_str(&b), b.len, ret, err);
}

static bool risky(const struct judgement *j, enum risk_level fail_on) {
    for (int level = fail_on; fail_on != RISK_NONE && level < RISK_LEVELS; level++)
        if (j->count[level])
            return true;
    return false;
}

static int report(const struct review_request *q, struct err *err) {
    CLEANUP(review_rules_done) struct review_rules rules = {0};
    CLEANUP(judgement_done) struct judgement j = JUDGEMENT_INIT;
    CLEANUP(report_done) struct report rep = REPORT_INIT(q, &j, STDOUT_FILENO);
    int r = read_rules(&rules, err);

    r = r < 0 ? r : judge_run(q, FD_RUN, FD_WORKSPACE, &rules, &j, err);
    if (r == 0 && q->must_match && j.n == 0 && j.left_out > 0)
        return err_set(err, -ENOENT, "no change of run '%s' has such a path; 'bawn diff --name-only %s' lists them", q->run,
                       q->run);
    r = r < 0 ? r : report_write(&rep, err);
    return r < 0 ? r : risky(&j, q->fail_on) ? EXIT_RISKY : 0;
}

static int do_report(int argc, char **argv, struct err *err) {
    static const int roots[] = {FD_RUN, FD_WORKSPACE};
    CLEANUP(request_done) struct review_request q = {0};
    int r = request_parse(argc, argv, &q, err);

    r = r < 0 ? r : review_lock(roots, ARRAY_LEN(roots), FIRST_CLOSED, err);
    r = r < 0 ? r : diff_begin(err);
    return r < 0 ? r : report(&q, err);
}

static int do_merge(int argc, char **argv UNUSED, struct err *err) {
    CLEANUP(buf_done) struct buf base = BUF_INIT(DIFF_FILE_MAX), ours = BUF_INIT(DIFF_FILE_MAX), theirs = BUF_INIT(DIFF_FILE_MAX);
    CLEANUP(buf_done) struct buf merged = BUF_INIT(3 * DIFF_FILE_MAX);
    int r;

    if (argc != 1)
        return err_usage(err, "usage: bawn-review merge");
    r = review_lock(NULL, 0, FIRST_CLOSED, err);
    r = r < 0 ? r : diff_begin(err);
    if (r < 0)
        return r;
    r = diff_load(FD_BASE, &base);
    r = r < 0 ? r : diff_load(FD_OURS, &ours);
    r = r < 0 ? r : diff_load(FD_THEIRS, &theirs);
    if (r == -EFBIG)
        return EXIT_CONFLICT;
    if (r < 0)
        return err_sys(err, r, "read the files to merge");
    r = diff_merge(&base, &ours, &theirs, &merged, err);
    if (r != 0)
        return r < 0 ? r : EXIT_CONFLICT;
    r = fd_write_all(STDOUT_FILENO, buf_str(&merged), merged.len);
    return r < 0 ? err_sys(err, r, "write the merged file") : 0;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv, struct err *err);
} tasks[] = {{"review", do_report}, {"diff", do_report}, {"merge", do_merge}};

static int run_review(int argc, char **argv, struct err *err) {
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(tasks); i++)
        if (str_eq(tasks[i].name, argv[1]))
            return tasks[i].run(argc - 1, argv + 1, err);
    return err_usage(err, "bawn-review is started by bawn: use 'bawn review'");
}

int main(int argc, char **argv) {
    struct err err = {0};
    int r = run_review(argc, argv, &err);

    if (r < 0)
        log_err(&err);
    /* No handlers at exit: some libraries open files there, and the jail has no use for tidiness. */
    _exit(r < 0 ? err_exit_status(&err) : r);
}
