/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "cli/help/completion.h"

static const char description[] =
    "Writes a script to the standard output that teaches a shell the commands, options and values of bawn. `make install` "
    "installs it for all three. For the running shell:\n\n"
    "    source <(bawn completion bash)\n"
    "    bawn completion fish | source";

static int run_completion(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);
    struct opt_iter it = opt_iter_init(NULL, 0, argc, argv);
    const struct manual all = {verbs, n_verbs};
    struct err err = {0};

    if (opt_next(&it, &err) < 0)
        return verb_fail(self, &err);
    if (argc - it.pos != 1 || !completion_script(&all, argv[it.pos], &b)) {
        err_usage(&err, "name one shell: bash, zsh or fish");
        return verb_fail(self, &err);
    }
    if (!buf_ok(&b)) {
        err_oom(&err);
        return verb_fail(self, &err);
    }
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
