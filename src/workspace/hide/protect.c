/* SPDX-License-Identifier: Apache-2.0 */
/* The protected paths as ignore rules. */
#include "workspace/hide/protect.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "workspace/hide/ignore.h"

enum { LINES_MAX = IGNORE_FILE_MAX };

/* A byte that means something in a pattern is escaped. One that would end the line becomes '?', which protects a bit more. */
int protect_add_path(struct strv *lines, const char *path, struct err *err) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(LINES_MAX);

    if (path[0] == 0 || path[0] == '/' || str_eq(path, "."))
        return err_set(err, -EINVAL, "git's configuration takes hooks or includes from '%s', which cannot be write-protected",
                       path);
    buf_addc(&line, '/');
    for (const char *p = path; *p; p++) {
        if (strchr("*?[\\", *p))
            buf_addc(&line, '\\');
        buf_addc(&line, (unsigned char)*p <= ' ' ? '?' : *p);
    }
    return buf_ok(&line) && strv_add(lines, buf_str(&line)) == 0 ? 0 : err_oom(err);
}

static int add_lines(struct ignore *ig, const char *origin, const struct strv *lines, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(LINES_MAX);

    for (size_t i = 0; i < lines->len; i++) {
        buf_adds(&text, lines->v[i]);
        buf_addc(&text, '\n');
    }
    if (!buf_ok(&text))
        return err_set(err, -EFBIG, "the list of protected paths is longer than %d bytes", LINES_MAX);
    return ignore_add_file(ig, "", origin, buf_str(&text), text.len, err);
}

int protect_rules(const struct strv *extra, const char *hooks_path, struct ignore **ret, struct err *err) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    CLEANUP(strv_done) struct strv hooks = {0};
    int r;

    if (!ig)
        return err_oom(err);
    r = ignore_add_file(ig, "", PROTECT_ORIGIN, protect_defaults, strlen(protect_defaults), err);
    if (r >= 0 && hooks_path)
        r = protect_add_path(&hooks, hooks_path, err);
    r = r < 0 ? r : add_lines(ig, "core.hooksPath", &hooks, err);
    if (r >= 0 && extra)
        r = add_lines(ig, "workspace.protect", extra, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(ig);
    return 0;
}

const struct protect_row *protect_row_for(const struct ignore *ig, const char *path, bool is_dir) {
    struct ignore_why why;

    if (ignore_explain(ig, path, is_dir, &why) != IGNORE_EXCLUDED || !str_eq(why.origin, PROTECT_ORIGIN))
        return NULL;
    return why.line >= 1 && why.line <= n_protect_rows ? &protect_rows[why.line - 1] : NULL;
}
