/* SPDX-License-Identifier: Apache-2.0 */
/* Every verb there is, in the order in which help shows them. A new one needs its file and one line here. */
#include "base/err.h"
#include "base/str.h"
#include "cli/help/manual.h"
#include "cli/verb.h"

extern const struct verb verb_run, verb_batch, verb_start, verb_exec, verb_shell, verb_attach, verb_logs, verb_stop, verb_ps,
    verb_status, verb_inspect, verb_rename, verb_rm, verb_prune, verb_top, verb_dashboard, verb_cp, verb_put, verb_get,
    verb_collect, verb_checkpoint, verb_checkpoint_ls, verb_checkpoint_rm, verb_fork, verb_pool_on, verb_pool_off,
    verb_pool_status, verb_review, verb_diff, verb_apply, verb_discard, verb_rollback, verb_explain, verb_doctor, verb_engines,
    verb_init, verb_profile_ls, verb_profile_show, verb_profile_new, verb_profile_check, verb_config_show, verb_trust, verb_log,
    verb_log_verify, verb_policy_ls, verb_policy_allow, verb_policy_deny, verb_policy_rm, verb_policy_explain, verb_policy_test,
    verb_policy_log, verb_policy_pending, verb_policy_approve, verb_policy_reject, verb_secret_set, verb_secret_ls,
    verb_secret_rm, verb_secret_test, verb_secret_unlock, verb_secret_lock, verb_secret_login, verb_image_pull, verb_image_ls,
    verb_image_inspect, verb_image_rm, verb_image_prune, verb_image_from_host, verb_image_build, verb_agents, verb_mcp,
    cmd_completion, cmd_help, verb_version;

const struct verb *const verbs[] = {
    &verb_run,
    &verb_batch,
    &verb_start,
    &verb_exec,
    &verb_shell,
    &verb_attach,
    &verb_logs,
    &verb_stop,
    &verb_ps,
    &verb_status,
    &verb_inspect,
    &verb_rename,
    &verb_rm,
    &verb_prune,
    &verb_top,
    &verb_dashboard,
    &verb_cp,
    &verb_put,
    &verb_get,
    &verb_collect,
    &verb_checkpoint,
    &verb_checkpoint_ls,
    &verb_checkpoint_rm,
    &verb_fork,
    &verb_pool_on,
    &verb_pool_off,
    &verb_pool_status,
    &verb_review,
    &verb_diff,
    &verb_apply,
    &verb_discard,
    &verb_rollback,
    &verb_explain,
    &verb_doctor,
    &verb_engines,
    &verb_init,
    &verb_profile_ls,
    &verb_profile_show,
    &verb_profile_new,
    &verb_profile_check,
    &verb_config_show,
    &verb_trust,
    &verb_log,
    &verb_log_verify,
    &verb_policy_ls,
    &verb_policy_allow,
    &verb_policy_deny,
    &verb_policy_rm,
    &verb_policy_explain,
    &verb_policy_test,
    &verb_policy_log,
    &verb_policy_pending,
    &verb_policy_approve,
    &verb_policy_reject,
    &verb_secret_set,
    &verb_secret_ls,
    &verb_secret_rm,
    &verb_secret_test,
    &verb_secret_unlock,
    &verb_secret_lock,
    &verb_secret_login,
    &verb_image_pull,
    &verb_image_ls,
    &verb_image_inspect,
    &verb_image_rm,
    &verb_image_prune,
    &verb_image_from_host,
    &verb_image_build,
    &verb_agents,
    &verb_mcp,
    &cmd_completion,
    &cmd_help,
    &verb_version,
};
const size_t n_verbs = ARRAY_LEN(verbs);

enum { OUTPUT_MAX = 1024 * 1024 * 1024 };

static bool asks_for_help(const char *word) {
    return str_eq(word, "--help") || str_eq(word, "-h");
}

/* Two-word verbs first: "profile ls" before a "profile" that may come. */
static const struct verb *find(int argc, char **argv, int *ret_words) {
    const struct manual all = {verbs, n_verbs};
    const struct verb *v = NULL;
    char two[64];

    if (argc > 2) {
        snprintf(two, sizeof two, "%.30s %.30s", argv[1], argv[2]);
        v = manual_find(&all, two);
    }
    *ret_words = v ? 2 : 1;
    return v ? v : manual_find(&all, argv[1]);
}

/* v: of one, NULL: of all. */
static int print_help(const struct verb *v, int status) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    struct err err = {0};

    verb_help(v, &out);
    return verb_print(&out, &err) < 0 ? verb_fail(v, &err) : status;
}

static int call_verb(const struct verb *v, int argc, char **argv) {
    struct verb_call c = {.verb = v, .argc = argc, .argv = argv, .out = BUF_INIT(OUTPUT_MAX)};
    struct err err = {0};
    int r = v->run(&c, &err), printed = r < 0 ? r : verb_print(&c.out, &err);

    buf_done(&c.out);
    if (r < 0 && err.code == OPT_HELP)
        return print_help(v, 0);
    return printed < 0 ? verb_fail(v, &err) : r;
}

int verb_dispatch(int argc, char **argv) {
    static char *help[] = {"help", NULL};
    const struct verb *v;
    int words = 0;

    if (argc < 2)
        return print_help(NULL, EXIT_USAGE_ERR);
    if (asks_for_help(argv[1]))
        return call_verb(&cmd_help, 1, help);
    if (str_eq(argv[1], "--version"))
        return call_verb(&verb_version, 1, help);
    v = find(argc, argv, &words);
    if (!v)
        return help_unknown(argc, argv);
    if (argc > words + 1 && asks_for_help(argv[words + 1]))
        return print_help(v, 0);
    return call_verb(v, argc - words, argv + words);
}
