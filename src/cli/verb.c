/* SPDX-License-Identifier: Apache-2.0 */
/* What all verbs share. */
#include "cli/verb.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/help/manual.h"

void verb_help(const struct verb *v) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(MANUAL_MAX);
    const struct manual all = {verbs, n_verbs};

    if (v)
        manual_verb(v, manual_colours(), &b);
    else
        manual_overview(&all, NULL, manual_colours(), &b);
    fputs(buf_str(&b), stdout);
}

static void print_notice(const char *text, void *arg UNUSED) {
    log_line("%s", text);
}

const struct notice verb_notice = {.say = print_notice};

int verb_fail(const struct verb *v, const struct err *err) {
    int status = err_exit_status(err);

    log_err(err);
    if (status == EXIT_USAGE_ERR)
        log_line("see 'bawn help%s%s'", v ? " " : "", v ? v->name : "");
    return status;
}
