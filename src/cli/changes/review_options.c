/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `bawn review` and `bawn diff`, and a report through the pager. */
#include "cli/changes/review_options.h"

#include "base/err.h"
#include "base/str.h"
#include "cli/help/manual.h"
#include "cli/help/pager.h"
#include "ops/changes/changes_review.h"

void review_args_done(struct review_args *a) {
    strv_done(&a->only);
}

int review_take_format(const struct opt *o, const char *value UNUSED, void *to, struct err *err) {
    struct review_format *f = to;

    if (f->option && !str_eq(f->option, o->name))
        return err_usage(err, "--%s and --%s exclude each other", f->option, o->name);
    *f = (struct review_format){o->name, str_eq(o->name, "name-only") ? "names" : o->name};
    return 0;
}

int review_take_colour(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    static const char *const known[] = {"auto", "always", "never"};
    int i = str_index(value ? value : "always", known, ARRAY_LEN(known));

    if (i < 0)
        return err_usage(err, "--color is auto, always or never, not '%s'", value);
    *(const char **)to = known[i];
    return 0;
}

bool review_colours(const struct review_args *a) {
    return !a->colour || str_eq(a->colour, "auto") ? manual_colours() : str_eq(a->colour, "always");
}

/* What machines read has no colours. */
static bool for_people(const char *format) {
    return !str_eq(format, "json") && !str_eq(format, "sarif") && !str_eq(format, "names");
}

int review_show(const struct review_args *a, const char *task, const struct run_pick *p, bool must_match, struct err *err) {
    bool people = for_people(a->format.name);
    struct changes_report q = {.task = task,
                               .format = a->format.name,
                               .fail_on = a->fail_on,
                               .only = &a->only,
                               .diff = a->diff,
                               .must_match = must_match,
                               .colour = people && review_colours(a)};
    struct pager out;
    int r, written;

    pager_begin(&out, people && !a->no_pager);
    q.terminal = people && out.terminal;
    r = changes_report(p, &q, pager_sink, &out, err);
    written = pager_end(&out, r < 0 ? NULL : err);
    return r < 0 ? r : written < 0 ? written : r;
}
