/* SPDX-License-Identifier: Apache-2.0 */
/* --only and --except as ignore rules. */
#include "workspace/apply/apply_filter.h"

#include <limits.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "workspace/change/change.h"
#include "workspace/hide/ignore.h"
#include "workspace/run/journal.h"

bool apply_path_ok(const char *path) {
    size_t len = strlen(path);

    if (len >= JOURNAL_PATH_MAX || !journal_is_path(path, len))
        return false;
    for (const char *p = path; *p; p += *p == '/') {
        len = strcspn(p, "/");
        if (len > NAME_MAX)
            return false;
        p += len;
    }
    return true;
}

static const char *spelled(const char *pattern) {
    while (str_starts(pattern, "./"))
        pattern += 2;
    return pattern;
}

/* '!' and '#' are no syntax on a command line: they are taken literally. */
static int compile(const struct strv *patterns, const char *origin, struct ignore **ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(IGNORE_FILE_MAX);
    CLEANUP(ignore_freep) struct ignore *rules = ignore_new();
    int r;

    for (size_t i = 0; i < patterns->len; i++) {
        const char *p = spelled(patterns->v[i]);

        if (*p == 0)
            return err_usage(err, "%s needs a pattern or a path", origin);
        if (strchr(p, '\n')) /* a path at most, which is compared as it is */
            continue;
        buf_adds(&text, *p == '!' || *p == '#' ? "\\" : "");
        buf_adds(&text, p);
        buf_addc(&text, '\n');
    }
    if (!rules || !buf_ok(&text))
        return err_oom(err);
    r = ignore_add_file(rules, "", origin, buf_str(&text), text.len, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(rules);
    return 0;
}

int apply_filter_init(struct apply_filter *f, const struct strv *only, const struct strv *except, struct err *err) {
    int r = 0;

    *f = (struct apply_filter){.only = only, .except = except};
    if (only && only->len)
        r = compile(only, "--only", &f->only_rules, err);
    if (r == 0 && except && except->len)
        r = compile(except, "--except", &f->except_rules, err);
    return r;
}

void apply_filter_done(struct apply_filter *f) {
    ignore_free(TAKE_PTR(f->only_rules));
    ignore_free(TAKE_PTR(f->except_rules));
}

static bool is_or_is_below(const char *path, const char *top) {
    size_t len = strlen(top);

    while (len && top[len - 1] == '/')
        len--;
    return len && strncmp(path, top, len) == 0 && (path[len] == 0 || path[len] == '/');
}

static bool named(const struct strv *patterns, const struct ignore *rules, const char *path, bool is_dir) {
    for (size_t i = 0; i < patterns->len; i++)
        if (is_or_is_below(path, spelled(patterns->v[i])))
            return true;
    return ignore_match(rules, path, is_dir) == IGNORE_EXCLUDED;
}

static bool filter_names(const struct apply_filter *f, const char *path, bool is_dir) {
    return !f->only_rules || named(f->only, f->only_rules, path, is_dir);
}

static bool filter_excepts(const struct apply_filter *f, const char *path, bool is_dir) {
    return f->except_rules && named(f->except, f->except_rules, path, is_dir);
}

bool apply_filter_wants_change(const struct apply_filter *f, const struct change *c) {
    bool is_dir = S_ISDIR(c->new_.mode ? c->new_.mode : c->old_.mode);

    if (filter_excepts(f, c->path, is_dir) || (c->from && filter_excepts(f, c->from, is_dir)))
        return false;
    return filter_names(f, c->path, is_dir) || (c->from && filter_names(f, c->from, is_dir));
}
