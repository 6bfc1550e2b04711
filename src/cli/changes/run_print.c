/* SPDX-License-Identifier: Apache-2.0 */
/* Changes and results on the standard output. */
#include "cli/changes/run_print.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "cli/verb.h"
#include "review/report/escape.h"

void run_print_line(struct buf *b, const struct change *c, const char *outcome, const char *why) {
    static const char letters[CHANGE_KINDS] = {
        [CHANGE_ADDED] = 'A', [CHANGE_MODIFIED] = 'M', [CHANGE_DELETED] = 'D', [CHANGE_RENAMED] = 'R'};

    buf_addf(b, "%c %-9s ", letters[c->kind], outcome);
    if (c->from) {
        escape_text(b, c->from);
        buf_adds(b, " -> ");
    }
    escape_text(b, c->path);
    if (why && why[0]) {
        buf_adds(b, " (");
        escape_text(b, why);
        buf_addc(b, ')');
    }
    buf_addc(b, '\n');
}

static void add_change_path(struct jsonout *j, const char *key, const char *path) {
    jsonout_key(j, key);
    escape_json(j->to, path, strlen(path));
    if (str_is_utf8(path))
        return;
    buf_addf(j->to, ", \"%s_bytes\": \"", key);
    base64_add(j->to, path, strlen(path));
    buf_addc(j->to, '"');
}

void run_print_json(struct jsonout *j, const struct change *c, const char *outcome, const char *why) {
    jsonout_break(j, "\n  ");
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "kind", change_kind_names[c->kind]);
    add_change_path(j, "path", c->path);
    if (c->from)
        add_change_path(j, "from", c->from);
    jsonout_text(j, "outcome", outcome);
    if (why && why[0])
        jsonout_text(j, "why", why);
    jsonout_close(j, '}');
}

void run_print_json_list(struct jsonout *j, const char *key, const struct strv *paths) {
    jsonout_open(j, key, '[');
    for (size_t i = 0; i < paths->len; i++) {
        jsonout_key(j, NULL);
        escape_json(j->to, paths->v[i], strlen(paths->v[i]));
    }
    jsonout_close(j, ']');
}

void run_print_left(struct buf *b, const struct strv *left, const char *why) {
    for (size_t i = 0; i < left->len; i++) {
        buf_adds(b, "left as it is: ");
        escape_text(b, left->v[i]);
        buf_addf(b, " (%s)\n", why);
    }
}

const char *run_print_files(size_t n) {
    return n == 1 ? "file" : "files";
}

int run_print_ask(const char *question, const char *look, const char *refused, struct err *err) {
    char answer[16];

    if (!isatty(STDIN_FILENO))
        return err_usage(err, "there is no terminal to ask on; %s and repeat with --yes", look);
    fprintf(stderr, "%s [y/N] ", question);
    fflush(stderr);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    return err_set(err, -ECANCELED, "%s", refused);
}
