/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/help/manual.h"

static const struct opt opts[] = {
    {1, 'C', "dir", "DIR", "work in this folder, and if the explanation is long, go on in the next line", "@dir"},
    {2, 0, "sandbox", "[=MODE]", "demand it", "auto|require"},
    {3, 'q', "quiet", NULL, "say \\less -- 'much'", NULL},
    {4, 0, "an-option-with-a-very-long-name", "VALUE", "below", NULL},
};

static int nothing(struct verb_call *c, struct err *err) {
    return c && err ? 0 : 1;
}

static const struct verb run_verb = {
    .name = "run",
    .summary = "run a command",
    .synopsis = "[options] -- COMMAND",
    .description = "One\nparagraph.\n\n    an example\n    .of two lines\n\n.dots are not requests",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = nothing,
};
static const struct verb ls_verb = {.name = "profile ls", .summary = "list them", .synopsis = "", .run = nothing};
static const struct verb show_verb = {.name = "profile show", .summary = "show one", .synopsis = "PROFILE", .run = nothing};
static const struct verb *const table[] = {&run_verb, &ls_verb, &show_verb};
static const struct manual all = {table, ARRAY_LEN(table)};

static void assert_has(const struct buf *b, const char *part) {
    if (!strstr(buf_str(b), part))
        fail_msg("no \"%s\" in:\n%s", part, buf_str(b));
}

static void assert_lacks(const struct buf *b, const char *part) {
    if (strstr(buf_str(b), part))
        fail_msg("\"%s\" in:\n%s", part, buf_str(b));
}

static void overview_lists_visible_verbs(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);

    manual_overview(&all, NULL, false, &b);
    assert_has(&b, "\n  run           run a command\n");
    assert_has(&b, "\n  profile ls    list them\n");
    assert_lacks(&b, "\033");
}

static void overview_of_a_group(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);

    manual_overview(&all, "profile", true, &b);
    assert_has(&b, "bawn profile COMMAND");
    assert_has(&b, "profile show");
    assert_lacks(&b, "  run ");
    assert_has(&b, "\033[1mUsage\033[0m");
}

static void verb_text_has_every_option(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);

    manual_verb(&run_verb, false, &b);
    assert_has(&b, "  bawn run [options] -- COMMAND\n");
    assert_has(&b, "\nRun a command\n");
    assert_has(&b, "\nOne paragraph.\n\n    an example\n    .of two lines\n\n");
    assert_has(&b, "\n  -C, --dir DIR               work in this folder, and if the explanation is\n"
                   "                              long, go on in the next line\n");
    assert_has(&b, "\n      --sandbox[=MODE]        demand it\n");
    assert_has(&b, "\n  -q, --quiet                 say \\less -- 'much'\n");
    assert_has(&b, "\n      --an-option-with-a-very-long-name VALUE\n                              below\n");
    assert_has(&b, "\n  -h, --help                  this text\n");
}

static void no_line_is_too_wide(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);

    manual_verb(&run_verb, false, &b);
    for (const char *line = buf_str(&b); *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
}

static void roff_leaves_nothing_to_interpret(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);

    manual_roff(&all, &b);
    assert_has(&b, ".SS bawn profile ls\n");
    assert_has(&b, ".TP\n\\fB\\-C\\fR, \\fB\\-\\-dir\\fR \\fIDIR\\fR\nwork in");
    assert_has(&b, "\\fB\\-\\-sandbox\\fR\\fI[=MODE]\\fR\n");
    assert_has(&b, "\nsay \\eless \\-\\- \\(aqmuch\\(aq\n");
    assert_has(&b, ".nf\n    an example\n    .of two lines\n.fi\n");
    assert_has(&b, "\n\\&.dots are not requests\n");
    assert_has(&b, ".B BAWN_SANDBOX_IMAGE\n");
    assert_has(&b, ".B 125\n");
}

static void verbs_are_found(void **state UNUSED) {
    assert_ptr_equal(manual_find(&all, "profile ls"), &ls_verb);
    assert_null(manual_find(&all, "profile"));
    assert_true(manual_is_group(&all, "profile"));
    assert_false(manual_is_group(&all, "run"));
    assert_false(manual_is_group(&all, "prof"));
}

static void slips_are_recognised(void **state UNUSED) {
    static const struct {
        const char *typed, *meant;
    } cases[] = {{"rum", "run"},
                 {"profil", "profile"},
                 {"profile shw", "profile show"},
                 {"profil show", "profile show"},
                 {"profile nope", NULL},
                 {"intrnal", NULL},
                 {"banana", NULL}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(64);

        assert_int_equal(manual_nearest(&all, cases[i].typed, &b), cases[i].meant != NULL);
        assert_string_equal(buf_str(&b), cases[i].meant ? cases[i].meant : "");
    }
}

static struct buf logged = BUF_INIT(4096);

static void collect(const char *line, size_t len) {
    buf_add(&logged, line, len);
}

static void usage_errors_say_where_help_is(void **state UNUSED) {
    struct err err = {0};

    log_set_sink(collect);
    err_usage(&err, "unknown option --frob");
    assert_int_equal(verb_fail(&ls_verb, &err), 64);
    assert_string_equal(buf_str(&logged), "bawn: unknown option --frob\nbawn: see 'bawn help profile ls'\n");

    buf_clear(&logged);
    err_set(&err, -5, "the disk is on fire");
    assert_int_equal(verb_fail(&ls_verb, &err), 125);
    assert_string_equal(buf_str(&logged), "bawn: the disk is on fire\n");
    log_set_sink(NULL);
    buf_done(&logged);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overview_lists_visible_verbs),
        cmocka_unit_test(overview_of_a_group),
        cmocka_unit_test(verb_text_has_every_option),
        cmocka_unit_test(no_line_is_too_wide),
        cmocka_unit_test(roff_leaves_nothing_to_interpret),
        cmocka_unit_test(verbs_are_found),
        cmocka_unit_test(slips_are_recognised),
        cmocka_unit_test(usage_errors_say_where_help_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
