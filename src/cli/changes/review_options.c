/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/changes/review_options.h"
#include "ops/changes/run_pick.h"

#include "base/err.h"
#include "base/str.h"
#include "cli/help/manual.h"
#include "cli/help/pager.h"
#include "supervisor/session/review_spawn.h"

void review_args_done(struct review_args *a) {
    strv_done(&a->only);
    strv_done(&a->operands);
}

static int take_format(struct review_args *a, const char *option, const char *format, struct err *err) {
    if (a->exclusive && !str_eq(a->exclusive, option))
        return err_usage(err, "%s and %s exclude each other", a->exclusive, option);
    a->exclusive = option;
    a->format = format;
    return 0;
}

static int take_colour(struct review_args *a, const char *value, struct err *err) {
    static const char *const known[] = {"auto", "always", "never"};

    a->colour = NULL;
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (str_eq(value ? value : "always", known[i]))
            a->colour = known[i];
    return a->colour ? 0 : err_usage(err, "--color is auto, always or never, not '%s'", value);
}

static int take(struct review_args *a, const struct opt_iter *it, struct err *err) {
    switch ((enum review_opt)it->id) {
    case REVIEW_DIRECTORY:
        a->directory = it->value;
        break;
    case REVIEW_JSON:
        return take_format(a, "--json", "json", err);
    case REVIEW_SARIF:
        return take_format(a, "--sarif", "sarif", err);
    case REVIEW_STAT:
        return take_format(a, "--stat", "stat", err);
    case REVIEW_NAME_ONLY:
        return take_format(a, "--name-only", "names", err);
    case REVIEW_INTERACTIVE:
        a->interactive = true;
        break;
    case REVIEW_DIFF:
        a->diff = true;
        break;
    case REVIEW_ONLY:
        return strv_add(&a->only, it->value) < 0 ? err_oom(err) : 0;
    case REVIEW_LIST:
        a->list = true;
        break;
    case REVIEW_FAIL_ON:
        a->fail_on = it->value;
        break;
    case REVIEW_NO_PAGER:
        a->no_pager = true;
        break;
    case REVIEW_COLOUR:
        return take_colour(a, it->value, err);
    }
    return 0;
}

/* Up to the next operand. Returns its place in argv, argc if there is none. */
static int parse_some(const struct opt *opts, size_t n, int argc, char **argv, struct review_args *a, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, n, argc, argv);
    int r;

    while ((r = opt_next(&it, err)) > 0) {
        r = take(a, &it, err);
        if (r < 0)
            return r;
    }
    return r < 0 ? r : it.pos;
}

int review_args_parse(const struct opt *opts, size_t n, int argc, char **argv, struct review_args *ret, struct err *err) {
    struct review_args a = {.colour = "auto"};
    bool only_operands = false;
    int r = 0;

    while (argc > 1) {
        int pos = only_operands ? 1 : parse_some(opts, n, argc, argv, &a, err);

        r = pos < 0 ? pos : 0;
        if (r < 0 || pos >= argc)
            break;
        only_operands |= str_eq(argv[pos - 1], "--");
        r = strv_add(&a.operands, argv[pos]) < 0 ? err_oom(err) : 0;
        if (r < 0)
            break;
        argc -= pos;
        argv += pos;
    }
    if (r < 0) {
        review_args_done(&a);
        return r;
    }
    *ret = a;
    return 0;
}

bool review_colours(const struct review_args *a) {
    return str_eq(a->colour, "always") || (str_eq(a->colour, "auto") && manual_colours());
}

int review_words(const struct review_args *a, struct strv *ret, struct err *err) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < a->only.len; i++)
        r = strv_addf(ret, "--only=%s", a->only.v[i]);
    if (r == 0 && a->fail_on)
        r = strv_addf(ret, "--fail-on=%s", a->fail_on);
    return r < 0 ? err_oom(err) : 0;
}

/* What machines read has no colours. */
static bool for_people(const char *format) {
    return !str_eq(format, "json") && !str_eq(format, "sarif") && !str_eq(format, "names");
}

int review_show(const struct review_args *a, const char *task, const struct run_pick *p, struct strv *words, struct err *err) {
    CLEANUP(review_job_done) struct review_job job = {.task = task, RUN_PICK_JOB(*p), .words = *words};
    bool people = for_people(a->format);
    struct pager out;
    int r, written;

    *words = (struct strv){0};
    r = review_words(a, &job.words, err);
    if (r == 0 && (strv_addf(&job.words, "--format=%s", a->format) < 0 || (a->diff && strv_add(&job.words, "--diff") < 0) ||
                   (people && review_colours(a) && strv_add(&job.words, "--color") < 0)))
        r = err_oom(err);
    if (r < 0)
        return r;
    pager_begin(&out, people && !a->no_pager);
    if (people && out.terminal && strv_add(&job.words, "--terminal") < 0)
        r = err_oom(err);
    r = r < 0 ? r : review_spawn(&job, pager_sink, &out, err);
    written = pager_end(&out, r < 0 ? NULL : err);
    return r < 0 ? r : written < 0 ? written : r;
}
