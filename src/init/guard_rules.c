#include "init/guard_rules.h"

#include <errno.h>
#include <limits.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "proto/guardmsg.h"
#include "proto/initmsg.h"
#include "workspace/ignore.h"

static int add_texts(struct ignore *ig, const struct init_text *texts, size_t n, struct err *err) {
    for (size_t i = 0; i < n; i++) {
        int r = ignore_add_file(ig, texts[i].dir, texts[i].origin, texts[i].data, texts[i].len, err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* The pattern "a/b/c" leads through "/a" and "a/b", "**" "/.git/hooks/" through "**" "/.git". What a "!" takes out is no way
 * in. */
static void add_leads(struct buf *out, const char *line, size_t len) {
    while (len > 0 && strchr(" \r/", line[len - 1]))
        len--;
    if (len == 0 || line[0] == '#' || line[0] == '!')
        return;
    for (size_t i = 1; i < len; i++) {
        if (line[i] != '/' || (i == 2 && memcmp(line, "**", 2) == 0))
            continue;
        if (!memchr(line, '/', i))
            buf_addc(out, '/');
        buf_add(out, line, i);
        buf_addc(out, '\n');
    }
}

static int add_leads_of(struct ignore *ig, const struct init_text *t, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(IGNORE_FILE_MAX);

    for (size_t at = 0; at < t->len;) {
        const char *line = t->data + at, *end = memchr(line, '\n', t->len - at);
        size_t len = end ? (size_t)(end - line) : t->len - at;

        add_leads(&out, line, len);
        at += len + 1;
    }
    if (!buf_ok(&out))
        return err_set(err, -E2BIG, "%s: more patterns than the guard can hold", t->origin);
    return ignore_add_file(ig, t->dir, t->origin, buf_str(&out), out.len, err);
}

int guard_rules_add_protect(struct guard_rules *r, const struct init_text *t, struct err *err) {
    int e = add_texts(r->protect, t, 1, err);

    return e < 0 ? e : add_leads_of(r->leads, t, err);
}

int guard_rules_init(struct guard_rules *r, const struct init_text *hide, size_t n_hide, const struct init_text *protect,
                     size_t n_protect, struct err *err) {
    int e = 0;

    *r = (struct guard_rules){.hide = ignore_new(), .protect = ignore_new(), .hidden = ignore_new(), .leads = ignore_new()};
    if (!r->hide || !r->protect || !r->hidden || !r->leads)
        e = err_oom(err);
    e = e < 0 ? e : add_texts(r->hide, hide, n_hide, err);
    for (size_t i = 0; e >= 0 && i < n_hide; i++)
        e = str_eq(hide[i].origin, GUARD_DEPENDENCIES) ? 0 : add_texts(r->hidden, &hide[i], 1, err);
    for (size_t i = 0; e >= 0 && i < n_protect; i++)
        e = guard_rules_add_protect(r, &protect[i], err);
    if (e < 0)
        guard_rules_done(r);
    return e;
}

void guard_rules_done(struct guard_rules *r) {
    ignore_free(TAKE_PTR(r->hide));
    ignore_free(TAKE_PTR(r->protect));
    ignore_free(TAKE_PTR(r->hidden));
    ignore_free(TAKE_PTR(r->leads));
}

static bool name_is(const char *name, size_t len, const char *want) {
    return strlen(want) == len && strncasecmp(name, want, len) == 0;
}

/* The length of the first name of a path, and where the next one starts; NULL: it was the last. */
static size_t first_name(const char *path, const char **ret_next) {
    size_t len = strcspn(path, "/");

    *ret_next = path[len] ? path + len + 1 : NULL;
    return len;
}

bool guard_rules_is_git(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return name_is(name, strlen(name), ".git");
}

/* What follows the first .git of a path; NULL: nothing. */
static const char *behind_git(const char *path) {
    const char *next;

    for (; path; path = next)
        if (name_is(path, first_name(path, &next), ".git"))
            return next;
    return NULL;
}

bool guard_rules_below_git(const char *path) {
    return behind_git(path) != NULL;
}

bool guard_rules_in_git_core(const char *path) {
    static const char *const free_parts[] = {"objects", "refs",         "logs",         "rr-cache",
                                             "lfs",     "rebase-merge", "rebase-apply", "sequencer"};
    const char *next, *part = behind_git(path);
    size_t len;

    if (!part)
        return false;
    len = first_name(part, &next);
    for (size_t i = 0; next && i < ARRAY_LEN(free_parts); i++)
        if (strlen(free_parts[i]) == len && memcmp(part, free_parts[i], len) == 0)
            return false;
    return true;
}

/* git rewrites its configuration through this file even when nothing changes; guard_move.c looks at what becomes of it. */
static bool is_config_lock(const char *path) {
    const char *part = behind_git(path);

    return part && str_eq(part, "config.lock");
}

/* The path with every .GIT as .git. */
static void fold(const char *path, char out[static PATH_MAX]) {
    size_t len = strnlen(path, PATH_MAX - 1);
    const char *next;

    memcpy(out, path, len);
    out[len] = 0;
    for (const char *p = out; p; p = next)
        if (name_is(p, first_name(p, &next), ".git"))
            memcpy(out + (p - out), ".git", 4);
}

static bool matches(const struct ignore *ig, const char *path, enum rules_kind kind) {
    if (kind != RULES_FOLDER && ignore_match(ig, path, false) == IGNORE_EXCLUDED)
        return true;
    return kind != RULES_FILE && ignore_match(ig, path, true) == IGNORE_EXCLUDED;
}

bool guard_rules_protect(const struct guard_rules *r, const char *path, enum rules_kind kind) {
    char folded[PATH_MAX];

    if (!path || !*path || is_config_lock(path))
        return false;
    fold(path, folded);
    return matches(r->protect, folded, kind);
}

bool guard_rules_hide(const struct guard_rules *r, const char *path, enum rules_kind kind) {
    return path && *path && matches(r->hide, path, kind);
}

bool guard_rules_own(const struct guard_rules *r, const char *path, enum rules_kind kind) {
    return path && *path && matches(r->hidden, path, kind) && !matches(r->hide, path, kind);
}

bool guard_rules_lead(const struct guard_rules *r, const char *path) {
    char folded[PATH_MAX];
    const struct ignore_list *list;
    const char *slash;
    size_t len;

    if (!path || !*path)
        return false;
    fold(path, folded);
    len = strlen(folded);
    slash = memrchr(folded, '/', len);
    list = ignore_rules_in(r->leads, folded, slash ? (size_t)(slash - folded) : 0);
    return list && ignore_judge(list, folded, len, true, NULL) == IGNORE_EXCLUDED;
}
