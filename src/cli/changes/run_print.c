/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/changes/run_print.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "review/report/escape.h"

char run_print_letter(enum change_kind kind) {
    static const char letters[CHANGE_KINDS] = {
        [CHANGE_ADDED] = 'A', [CHANGE_MODIFIED] = 'M', [CHANGE_DELETED] = 'D', [CHANGE_RENAMED] = 'R'};

    return letters[kind];
}

void run_print_line(struct buf *b, const struct change *c, const char *outcome, const char *why) {
    buf_addf(b, "%c %-9s ", run_print_letter(c->kind), outcome);
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

static void add_path(struct buf *b, const char *key, const char *path) {
    buf_addf(b, ", \"%s\": ", key);
    escape_json(b, path, strlen(path));
    if (str_is_utf8(path))
        return;
    buf_addf(b, ", \"%s_bytes\": \"", key);
    escape_base64(b, path, strlen(path));
    buf_addc(b, '"');
}

void run_print_json(struct buf *b, const struct change *c, const char *outcome, const char *why) {
    buf_addf(b, "{\"kind\": \"%s\"", change_kind_names[c->kind]);
    add_path(b, "path", c->path);
    if (c->from)
        add_path(b, "from", c->from);
    buf_addf(b, ", \"outcome\": \"%s\"", outcome);
    if (why && why[0]) {
        buf_adds(b, ", \"why\": ");
        buf_add_json(b, why);
    }
    buf_addc(b, '}');
}

void run_print_json_list(struct buf *b, const struct strv *paths) {
    buf_addc(b, '[');
    for (size_t i = 0; i < paths->len; i++) {
        buf_adds(b, i ? ", " : "");
        escape_json(b, paths->v[i], strlen(paths->v[i]));
    }
    buf_addc(b, ']');
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

int run_print_out(const struct buf *b, struct err *err) {
    if (!buf_ok(b))
        return err_oom(err);
    if (fwrite(buf_str(b), 1, b->len, stdout) != b->len || fflush(stdout) != 0)
        return err_sys(err, -errno, "write the result");
    return 0;
}

bool run_print_ask(const char *question) {
    char answer[16];

    fprintf(stderr, "%s [y/N] ", question);
    fflush(stderr);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}
