/* SPDX-License-Identifier: Apache-2.0 */
/* What all verbs share. */
#include "cli/verb.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/help/manual.h"

void verb_help(const struct verb *v, struct buf *out) {
    const struct manual all = {verbs, n_verbs};

    if (v)
        manual_verb(v, manual_colours(NULL), out);
    else
        manual_overview(&all, NULL, manual_colours(NULL), out);
}

static void print_notice(const char *text, void *arg UNUSED) {
    log_note("%s", text);
}

const struct notice verb_notice = {.say = print_notice};

static void print_alert(const char *text, void *arg UNUSED) {
    log_line("%s", text);
}

const struct notice verb_alert = {.say = print_alert};

void verb_say(const struct strv *lines) {
    for (size_t i = 0; i < lines->len; i++)
        log_note("%s", lines->v[i]);
}

const struct opt verb_json_opts[1] = {VERB_JSON("print JSON")};

int verb_quiet(const struct opt *o UNUSED, const char *value UNUSED, void *to UNUSED, struct err *err UNUSED) {
    log_set_quiet(true);
    return 0;
}

int verb_parse(const struct verb_call *c, void *to, int max_words, struct err *err) {
    return opt_parse(c->verb->opts, c->verb->n_opts, c->argc, c->argv, to, max_words, err);
}

int verb_print(struct buf *b, struct err *err) {
    if (!buf_ok(b))
        return err_oom(err);
    if (b->len && (fwrite(buf_str(b), 1, b->len, stdout) != b->len || fflush(stdout) != 0))
        return err_sys(err, -errno, "write the result");
    buf_clear(b);
    return 0;
}

int verb_fail(const struct verb *v, const struct err *err) {
    int status = err_exit_status(err);

    log_err(err);
    if (status == EXIT_USAGE_ERR)
        log_line("see 'bawn help%s%s'", v ? " " : "", v ? v->name : "");
    return status;
}
