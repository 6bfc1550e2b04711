/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bawn-sh`: /bin/sh of the project's persistent sandbox, for agents that run outside and have a setting for their shell. It is this program under
 * another name (bin/bawn.c): all arguments are the shell's, so that whatever takes /bin/sh takes it. BAWN_SH_SANDBOX names another sandbox.
 */
#include "cli/run/cmd_sh.h"

#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "config/load/paths.h"
#include "ops/sandbox/exec_shell.h"
#include "supervisor/terminal/stdio.h"

int sh_main(int argc, char **argv) {
    struct shell_call q = {.argv = argv, .argc = (size_t)argc, .notice = &verb_notice};
    struct exec_result result = {0};
    struct err err = {0};
    int r = stdio_reserve(q.closed);

    q.sandbox = paths_getenv(environ, "BAWN_SH_SANDBOX");
    r = r < 0 ? err_sys(&err, r, "standard streams") : exec_sh(&q, &result, &err);
    if (r < 0) {
        log_err(&err);
        return err_exit_status(&err);
    }
    if (result.exec_errno)
        log_line("/bin/sh: %s", strerror(result.exec_errno));
    exec_say_stopped(&verb_alert, q.name, result.end);
    return result.status;
}
