/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn completion`. */
#include "base/err.h"
#include "cli/help/completion.h"

static const char description[] =
    "Writes a script to the standard output that teaches a shell the commands, options and values of bawn. `make install` "
    "installs it for all three. For the running shell:\n\n"
    "    source <(bawn completion bash)\n"
    "    bawn completion fish | source";

static int run_completion(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);
    const struct manual all = {verbs, n_verbs};
    struct err err = {0};
    int n = opt_parse(NULL, 0, argc, argv, NULL, argc, &err);

    if (n >= 0 && (n != 1 || !completion_script(&all, argv[1], &b)))
        n = err_usage(&err, "name one shell: bash, zsh or fish");
    if (n >= 0 && !buf_ok(&b))
        n = err_oom(&err);
    if (n < 0)
        return verb_fail(self, &err);
    fputs(buf_str(&b), stdout);
    return 0;
}

const struct verb cmd_completion = {
    .name = "completion",
    .summary = "print the completion script for a shell",
    .synopsis = "bash|zsh|fish",
    .description = description,
    .run = run_completion,
};
